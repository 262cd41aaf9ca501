"""Megatron-LM of 2020: weak scaling of GPT-2 models of 1.2B to 8.7B on V100 (DGX-2) and A100 40 GB (DGX A100).

Tensor parallelism from one to eight devices, and on A100 128 replicas of each. Sequences of 1,024 tokens and 51,200
words are not printed; with them the printed TFLOP/s follow from the FLOPs with recomputation. Software as in 2021
(`megatron_recipe`), but gradients are reduced in fp16 unless --fp32-allreduce is given (megatron/arguments.py of 2020),
and a step is one micro-batch per replica. Examples of the time (examples/pretrain_gpt2_distributed*.sh) recompute all
layers (--checkpoint-activations) in fp16.

No V100 curve was fitted: the catalog's is assumed. Every row is asked; nothing was fitted to these.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, gpt, megatron_recipe, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout

SOURCE = "NVIDIA/Megatron-LM, README.md of 2020: images/cases.png, scaling-mp.png and scaling-dp.png"
FILE = "megatron_2020_dgx2_dgxa100.csv"
CLUSTERS = {"V100-SXM3-32GB": "dgx-2", "A100-SXM-40GB": "dgx-a100-40gb"}


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows(FILE))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason: none."""
    return Counter()


def _case(row: dict[str, str]) -> Case:
    devices, dp, seq, batch = (int(row[name]) for name in ("n_gpus", "dp", "seq_len", "gbs_seqs"))
    model = gpt(row["model"], int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq, int(row["vocab"]))
    recipe = replace(megatron_recipe(batch, seq), gradient_B=2.0)
    layout = Layout(dp=dp, tp=int(row["tp"]), micro_batch=batch // dp, recompute="full")
    return Case(
        row=f"{row['row_id']} x{devices}",
        quantity="step_time_s",
        measured=float(row["iter_time_ms"]) * 1e-3,
        job=Job(model, recipe, devices),
        cluster=cluster(CLUSTERS[row["gpu_type"]], gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("megatron_2020", "step_time_s", SOURCE, 0.07, cases)
