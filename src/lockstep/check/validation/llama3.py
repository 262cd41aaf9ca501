"""Llama 3 405B on 8,192 and 16,384 H100 (Grattafiori et al. 2024): step times behind table 4's TFLOP/s.

FSDP there divides optimizer states and gradients and does not gather parameters again for backward passes (section
3.3.2); with its pipeline, gradients add up over micro-batches in fp32 and are reduced once per step. The first and the
last rank hold a layer less, sends are asynchronous. Chunks per stage are not printed: one layer each is taken, so that
a layer less is a chunk with the embedding or the head alone.

At 131,072 tokens ranks gather the keys and values of all (section 3.3.2), which takes 3 % of that step; the attention
kernel takes six tenths, at the H100 curve's 0.17 of the peak forward and 0.21 backward. On the same GPU
FlashAttention-2 was measured at 0.34 and FlashAttention-3 at 0.62 (16,384 tokens, causal, heads of 128;
Dao-AILab/flash-attention, assets/flash3_fp16_fwd.png). The measured time is derived from TFLOP/s with half of
attention's FLOPs; the formula is not printed, and with all of them it would be 15.3 s. See docs/decisions/0003.
"""

from __future__ import annotations

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "Grattafiori et al. 2024 (arXiv 2407.21783), table 4"
STAGES = (0, *(1,) * 126, 0)
"""Layers of every chunk: 126 and two without, eight on each of 16 stages."""


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows("llama3_405b.csv"))


def _case(row: dict[str, str]) -> Case:
    devices, tp, pp, cp = (int(row[name]) for name in ("n_gpus", "tp", "pp", "cp"))
    recipe = Recipe.by("llama3", seq=int(row["seq_len"]), batch=int(row["gbs_seqs"]), overlap_pp=True, cp_kind="gather")
    layout = Layout(
        dp=devices // (tp * pp * cp), tp=tp, pp=pp, cp=cp, vpp=len(STAGES) // pp, schedule="interleaved", zero=2,
        sequence_parallel=True, stages=STAGES,
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
