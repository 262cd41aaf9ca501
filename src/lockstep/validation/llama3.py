"""Llama 3 405B on 8,192 and 16,384 H100 (Grattafiori et al. 2024): step times behind table 4's TFLOP/s.

FSDP there divides optimizer states and gradients and does not gather parameters again for backward passes (section
3.3.2); with its pipeline, gradients add up over micro-batches in fp32 and are reduced once per step. The first and the
last rank hold a layer less, sends are asynchronous. Chunks per stage are not printed: one layer each is taken, so that
a layer less is a chunk less; with four chunks the 8k rows come out 5 and 11 % slower than printed.

At 131,072 tokens ranks gather the keys and values of all (section 3.3.2). Attention is two thirds of that step, and the
H100 curve, of software before FlashAttention-3, gives it a sixth of the peak. The measured time is derived from TFLOP/s
with half of attention's FLOPs; the formula is not printed, and with all of them it would be 15.3 s.
"""

from __future__ import annotations

from lockstep.hardware import cluster
from lockstep.layout import Job, Layout, Recipe
from lockstep.validation.case import Case, Table, read_rows, step_time_s
from lockstep.workload import model

SOURCE = "Grattafiori et al. 2024 (arXiv 2407.21783), table 4"
CHUNKS = 8
"""Layers of a stage, as both end stages' layers are rounded up: 126 + 2 layers on 16 stages."""


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows("llama3_405b.csv"))


def _case(row: dict[str, str]) -> Case:
    devices, tp, pp, cp = (int(row[name]) for name in ("n_gpus", "tp", "pp", "cp"))
    recipe = Recipe(seq=int(row["seq_len"]), batch=int(row["gbs_seqs"]), overlap_pp=True, cp_kind="gather")
    layout = Layout(
        dp=devices // (tp * pp * cp), tp=tp, pp=pp, cp=cp, vpp=CHUNKS, schedule="interleaved", zero=2,
        sequence_parallel=True,
    )  # fmt: skip
    return Case(
        row=f"{row['row_id']} {row['model']} seq {row['seq_len']} x{devices}",
        quantity="step_time_s",
        measured=float(row["step_time_s_derived"]),
        job=Job(model("llama3-405b"), recipe, devices),
        cluster=cluster("cloud-h100", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("llama3_405b", "step_time_s", SOURCE, 0.10, cases)
