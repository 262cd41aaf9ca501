"""Pythia (Biderman et al. 2023): pre-training of 70M to 12B models with GPT-NeoX on 32 to 256 A100 40 GB.

The paper prints GPU hours as iteration time x iterations x devices, so they give the time of a step. Layouts are those
of the configurations in EleutherAI/pythia, models/*/pythia-*.yml, which also say: ZeRO-1 with overlap_comm, which
DeepSpeed switches off for it, every layer recomputed, flash attention, no dropout, fused bias and GeLU, attention and
feed-forward block in parallel (gpt_j_residual). DeepSpeed's fp16 gradients are of two bytes.

Products neither overlap tensor-parallel traffic nor accumulate gradients (EleutherAI/gpt-neox, megatron/mpu/layers.py).
Around attention all is turned from [s, b] to [b, s] and packed, and biases are added apart (`price/kernels/copies.py`).
The network is not printed; the data lay on /fsx, Amazon's file system, so AWS's nodes of eight A100 40 GB are taken.

What no word of the recipe says: the host waits for the device after every layer (synchronize-each-layer),
tensor-parallel ranks share what is kept for recomputation and gather it (partition-activations). Heads of the 1B model
have 256 elements, more than that release of FlashAttention takes. Every row is asked; nothing was fitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, gpt, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "Biderman et al. 2023 (arXiv 2304.01373) table 5; EleutherAI/pythia, models/*/pythia-*.yml"
FILE = "pythia_a100.csv"


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows(FILE))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason: none."""
    return Counter()


def model_of(row: dict[str, str]) -> Transformer:
    """The GPT-NeoX model of a row."""
    layers, hidden, heads, seq, vocab = (int(row[name]) for name in ("layers", "hidden", "heads", "seq_len", "vocab"))
    return replace(
        gpt(row["model"], layers, hidden, heads, seq, vocab), positions="rotary", tied_embeddings=False,
        parallel_block=True, parallel_norms=2,
    )  # fmt: skip


def _case(row: dict[str, str]) -> Case:
    devices, seq = int(row["n_gpus"]), int(row["seq_len"])
    recipe = Recipe.by("gpt-neox", seq=seq, batch=int(row["gbs_seqs"]), dtype=row["dtype"])
    layout = Layout(
        dp=int(row["dp"]), tp=int(row["tp"]), zero=int(row["zero_stage"]), micro_batch=int(row["mbs"]), recompute="full"
    )  # fmt: skip
    return Case(
        row=f"{row['row_id']} x{devices} {layout}",
        quantity="step_time_s",
        measured=float(row["gpu_hours_reported"]) * 3600.0 / (devices * int(row["train_steps"])),
        job=Job(model_of(row), recipe, devices),
        cluster=cluster("aws-p4d", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("pythia_a100", "step_time_s", SOURCE, 0.15, cases)
