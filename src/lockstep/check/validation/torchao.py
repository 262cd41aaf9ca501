"""torchao's low-precision training: Llama 3 8B by torchtitan on eight H100, MI300X or B200, in bf16, fp8 and mxfp8.

FSDP2, compiled blocks, selective recomputation by operation, one sequence of 8,192 tokens per GPU (printed); what that
means is in `torchtitan.py`. Which H100 is not printed; those of torchtitan are taken. With scales by rows parameters
are gathered in bf16, with scales of tensors in fp8 (`price/kernels/casts.py`).

Left out, and counted by `left_out`: B200 that are "power limited" (printed) below the catalog's 1,000 W, by how much is
not printed: at 1,000 W their steps come out 52 to 58 % too fast, in bf16 as in fp8; a recipe whose weight gradients are
products in bf16 and all others in fp8; Llama 4 Scout, two layers of which are no model of the catalog, and whole on a
number of GPUs that the page contradicts.
Nothing of it was fitted.
"""

from __future__ import annotations

from collections import Counter

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.torchtitan import fsdp2, hbm2e, scaling_of
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout

SOURCE = "pytorch/ao@36027d8, docs/source/workflows/training.md"
FILE = "torchao_low_precision_training.csv"
CLUSTERS = {"H100": "dgx-h100", "MI300X": "mi300x-8"}


def cases() -> tuple[Case, ...]:
    """One case per row that can be described."""
    return tuple(_case(row) for row in read_rows(FILE) if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    if not row["n_gpus"].isdigit():
        return "number of GPUs contradicts itself"
    if "power limited" in row["gpu"]:
        return "power limit not printed"
    if row["model"] != "Llama 3 8B":
        return "model not in the catalog"
    return "weight gradients in bf16, other products in fp8" if "gw_hp" in row["recipe"] else ""


def _case(row: dict[str, str]) -> Case:
    devices, seq, batch = (int(row[name]) for name in ("n_gpus", "seq_len", "gbs_seqs_derived"))
    dtype = "bf16" if row["recipe"] == "bf16" else "fp8"
    recipe = fsdp2(seq, batch, dtype, True, scaling_of(row["recipe"]))
    return Case(
        row=f"{row['row_id']} {row['gpu']} {row['recipe']}",
        quantity="step_time_s",
        measured=batch * seq / (float(row["tokens_per_s_per_gpu"]) * devices),
        job=Job(model("llama3-8b"), recipe, devices),
        cluster=hbm2e(devices) if row["gpu"] == "H100" else cluster(CLUSTERS[row["gpu"]], gpus=devices),
        layout=Layout(dp=devices, zero=3, micro_batch=int(row["mbs"]), recompute="selective"),
        predict=step_time_s,
    )


TABLE = Table("torchao", "step_time_s", SOURCE, 0.15, cases)
