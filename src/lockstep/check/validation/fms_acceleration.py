"""IBM's fms-acceleration: fine-tuning of all parameters on 1 to 4 A100 80 GB, with and without fused kernels.

The benchmarks run Hugging Face's Trainer on packed sequences, with FlashAttention 2 and every layer recomputed
(scripts/benchmarks/defaults.yaml), on several GPUs under FSDP, all states sharded (scripts/benchmarks/accelerate.yaml).
Parameters, gradients and both moments are bf16, except where FSDP meets mixed precision (`amp`): then the states are
fp32, and bf16 only on the wire (Hugging Face's accelerate, which widens them; the allocated memory says so too). `foak`
and `liger` fuse norms, rotary embedding and loss, not the feed-forward block, of santacoder the loss alone; the other
rows run PyTorch's kernels (sample-configurations/foak-*.yaml; fms_acceleration_foak/models). Santacoder has dropout
(transformers, GPTBigCodeConfig: resid_pdrop and attn_pdrop 0.1). Hugging Face's models convert logits to fp32 before
the loss, but for santacoder's, whose kernels hold four copies in half precision, as many bytes as one kernel on fp32
(`upcast`), and with `amp` the logits in fp32 too (accelerate, convert_outputs_to_fp32); `liger` never has all logits at
once. Rates are means over a whole run, its start included.

Memory is the peak of allocated tensors on rank 0. Half of the peaks are those of the update: torch's AdamW in
multi-tensor kernels holds one more tensor per parameter.

Models: the packaged shape of Mistral 7B; PowerLM 3B and santacoder from their config.json, whose parameters agree with
the memory that was allocated before training. Left out, by `left_out`: runs out of memory, and sequences that were
padded or of different lengths (the model with experts). Fine-tuning of adapters, 128 rows, is not in the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.vocabulary import allocated_B
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, ConvNet, Mlp, Transformer, model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "foundation-model-stack/fms-acceleration@876e2ed, scripts/benchmarks/refs; its fine-tuning of all parameters"
FILE = "fms_acceleration_a100.csv"
FUSED = {"norm": "one", "norm_weight": "one", "rotary": "one"}
"""Slots that kernels of Unsloth or Liger run, not PyTorch's operations."""
SANTACODER = Transformer(
    name="santacoder",
    layers=24,
    hidden=2048,
    vocab=49280,
    attention=Attention(heads=16, kv_heads=1, head_dim=128, qkv_bias=True, out_bias=True),
    mlp=Mlp(ffn=8192, gated=False, activation="gelu", in_bias=True, out_bias=True),
    positions="learned",
    max_positions=2048,
    norm="layernorm",
    tied_embeddings=True,
)
POWERLM = Transformer(
    name="powerlm-3b",
    layers=40,
    hidden=2304,
    vocab=49152,
    attention=Attention(heads=36, kv_heads=36, head_dim=64),
    mlp=Mlp(ffn=9216),
    positions="rotary",
    max_positions=4096,
    norm="rmsnorm",
    tied_embeddings=True,
)


def time_cases() -> tuple[Case, ...]:
    """One case per row that ran on packed sequences."""
    return tuple(_case(row, "step_time_s", _sequences(row) / float(row["samples_per_s"])) for row in _rows(""))


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory."""
    return tuple(_memory_case(row, float(row["mem_torch_peak_alloc_GiB_rank0"]) * 2.0**30) for row in _rows(""))


def out_of_memory() -> tuple[Case, ...]:
    """Rows that are described but did not fit."""
    return tuple(_memory_case(row, float("inf")) for row in _rows("out of memory"))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def transformer(name: str) -> Transformer | ConvNet:
    """The model of a row."""
    return {"gpt_bigcode-santacoder": SANTACODER, "PowerLM-3b": POWERLM}.get(name.split("/")[1]) or model("mistral-7b")


def _rows(why: str) -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if _why_not(row) == why]


def _why_not(row: dict[str, str]) -> str:
    if row["failed"] == "1":
        return "out of memory"
    return "sequences of different lengths" if "granite-3.0" in row["model"] else ""


def _sequences(row: dict[str, str]) -> int:
    """Of a step, over all GPUs."""
    return int(row["per_device_batch"]) * int(row["grad_accum"]) * int(row["n_gpus"])


def loss_of(row: dict[str, str]) -> str:
    """How the loss of a row treats the logits."""
    narrow, kernels = "santacoder" in row["model"], row["framework_config"]
    if "liger" in kernels:
        return "chunked"
    if "foak" in kernels:
        return "fused" if narrow else "upcast"
    return ("returned" if row["amp"] else "upcast") if narrow else "eager"


def _recipe(row: dict[str, str], seq: int) -> Recipe:
    wide = bool(row["amp"]) and int(row["n_gpus"]) > 1
    return Recipe.by(
        "hf-trainer",
        **(FUSED if "foak" in row["framework_config"] else {}),
        seq=seq,
        batch=_sequences(row),
        optimizer="adamw" if wide else "adamw-bf16",
        gradient_B=4.0 if wide else 2.0,
        reduce_B=2.0,
        dropout="santacoder" in row["model"],
        cross_entropy=loss_of(row),
    )


def _memory_case(row: dict[str, str], measured: float) -> Case:
    return _case(row, "allocated_B", measured, allocated_B)


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float] = step_time_s) -> Case:
    devices, name = int(row["n_gpus"]), row["model"].split("/")[1]
    recipe = _recipe(row, 2048 if "santacoder" in name else 4096)
    kernels = f" {row['framework_config']}" if row["framework_config"] != "none" else ""
    return Case(
        row=f"{row['row_id']} {name} x{devices} mb{row['per_device_batch']}{kernels}",
        quantity=quantity,
        measured=measured,
        job=Job(transformer(row["model"]), recipe, devices),
        cluster=cluster("dgx-a100-80gb", gpus=devices),
        layout=Layout(
            dp=devices, micro_batch=int(row["per_device_batch"]), zero=3 if devices > 1 else 0, recompute="full"
        ),
        predict=predict,
    )


TIME = Table("fms_acceleration", "step_time_s", SOURCE, 0.08, time_cases)
MEMORY = Table("fms_acceleration_memory", "memory_B", SOURCE, 0.05, memory_cases)
