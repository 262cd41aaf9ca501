"""IBM's fms-acceleration: fine-tuning of adapters of rank 16 on 1 to 4 A100 80 GB, beside bf16, nf4 and GPTQ bases.

Hugging Face's Trainer and PEFT on packed sequences, with FlashAttention 2 and every layer recomputed, as in
`fms_acceleration.py`; `baseline-peft-bnb` and `accelerated-peft-bnb` keep the base in nf4 (bitsandbytes), `autogptq` in
GPTQ's four bits; with `foak` these two fuse adapters too, which `foak-fast-kernels` alone does not; of santacoder it
replaces the loss alone (plugins/fused-ops-and-kernels, models/gpt_bigcode.py). No feed-forward block is fused, as none
has adapters (models/mistral.py, trigger_fused_ops). Adapters are on the attention's four matrices (santacoder: one on
the matrix that makes queries, keys and values), with a dropout of 0.1 (lora_dropout of the CSV files); `amp` is
torch.autocast over parameters in half precision. Memory is the peak of allocated tensors on rank 0. On several GPUs
FSDP shards base and adapters; `baseline` has the base prepared by PEFT (`Habits.prepared_base`), the others do not
(framework_plugin_bnb.py, _prepare_model_for_kbit_training).

Left out, by `left_out`: what ran out of memory, which `out_of_memory` asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.fms_acceleration import FUSED, loss_of, transformer
from lockstep.check.validation.vocabulary import allocated_B
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "foundation-model-stack/fms-acceleration@876e2ed, scripts/benchmarks/refs; its fine-tuning of adapters"
FILE = "fms_acceleration_adapters.csv"
DROPOUT_FRAC = 0.1
BASES = {"bnb": "nf4", "autogptq": "gptq"}


def time_cases() -> tuple[Case, ...]:
    """One case per row that ran."""
    return tuple(_case(row, "step_time_s", _sequences(row) / float(row["samples_per_s"])) for row in _rows(False))


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory."""
    return tuple(
        _case(row, "allocated_B", float(row["mem_torch_peak_alloc_GiB_rank0"]) * 2.0**30, allocated_B)
        for row in _rows(False)
    )


def out_of_memory() -> tuple[Case, ...]:
    """Rows that did not fit."""
    return tuple(_case(row, "allocated_B", float("inf"), allocated_B) for row in _rows(True))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter("out of memory" for row in read_rows(FILE) if row["failed"] == "1")


def _rows(failed: bool) -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if (row["failed"] == "1") == failed]


def _sequences(row: dict[str, str]) -> int:
    """Of a step, over all GPUs."""
    return int(row["per_device_batch"]) * int(row["grad_accum"] or 1) * int(row["n_gpus"])


def _recipe(row: dict[str, str]) -> Recipe:
    kernels = row["framework_config"]
    narrow = "santacoder" in row["model"]
    fused, targets = "foak" in kernels and not narrow, "qkv" if narrow else "attention"
    return Recipe.by(
        "hf-trainer",
        autocast=bool(row["amp"]),
        prepared_base="baseline" in kernels,
        **(FUSED if fused else {}),
        **({"adapters": "fused"} if fused and "accelerated" in kernels else {}),
        seq=2048 if narrow else 4096,
        batch=_sequences(row),
        dtype="fp16" if row["torch_dtype"] == "float16" else "bf16",
        optimizer="adamw",
        train=f"lora:r={int(float(row['lora_rank']))},targets={targets},dropout={DROPOUT_FRAC}",
        dropout=narrow,
        base=next((base for word, base in BASES.items() if word in kernels), None),
        reduce_B=2.0,
        cross_entropy=loss_of(row),
    )


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float] = step_time_s) -> Case:
    devices, name = int(row["n_gpus"]), row["model"].split("/")[1]
    return Case(
        row=f"{row['row_id']} {name} x{devices} mb{row['per_device_batch']} {row['framework_config']}",
        quantity=quantity,
        measured=measured,
        job=Job(transformer(row["model"]), _recipe(row), devices),
        cluster=cluster("dgx-a100-80gb", gpus=devices),
        layout=Layout(
            dp=devices, micro_batch=int(row["per_device_batch"]), zero=3 if devices > 1 else 0, recompute="full"
        ),
        predict=predict,
    )


TIME = Table("fms_adapters", "step_time_s", SOURCE, 0.12, time_cases)
MEMORY = Table("fms_adapters_memory", "memory_B", SOURCE, 0.10, memory_cases)
