"""Lucie-7B on 8 to 128 A100 of Jean Zay, as a table that Lockstep had not seen asks: `cases()`.

The program is Megatron-DeepSpeed with FlashAttention-2 and CUDA_LAUNCH_BLOCKING=1, as the rows say, and in bf16 its own
optimizer, as the reader of BigScience's sweep of the same program and machine asks it; a Llama has no dropout. A
micro-batch that the row does not say, or that does not divide the batch, is not said: estimate's default of one. One
row is left out, whose degrees need twice its devices (lu008).
"""

from __future__ import annotations

from published import rows

from lockstep.check.validation.case import Case, bigscience_recipe, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout

FILE = "lucie_7b_jeanzay.csv"


def cases() -> tuple[Case, ...]:
    """One case per row with a possible layout, in seconds of a step."""
    return tuple(_case(row) for row in rows(FILE) if row["dp"])


def group(case: Case) -> str:
    """Rows with stages, and those without by tensor parallelism."""
    if case.layout.pp > 1:
        return "pipelines"
    return "one stage, tp 1" if case.layout.tp == 1 else "one stage, tp 2 and 4"


def _case(row: dict[str, str]) -> Case:
    devices = int(row["n_gpus"])
    recipe = bigscience_recipe(int(row["gbs_seqs"]), int(row["seq_len"])).having(
        dtype="bf16", gradient_B=4.0, converted_gradients=True, paired_sends=False, launch_blocking=True,
        dropout=False, flash_attention=True, attention_kernel="flash2",
    )  # fmt: skip
    layout = Layout(
        dp=int(row["dp"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        micro_batch=int(row["mbs"] or 1),
        zero=int(row["zero_stage"]),
    )
    return Case(
        row=f"{row['row_id']} x{devices} {layout}",
        quantity="step_time_s",
        measured=float(row["step_time_s_median"]),
        job=Job(model("llama2-7b"), recipe, devices),
        cluster=cluster("jean-zay-a100", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )
