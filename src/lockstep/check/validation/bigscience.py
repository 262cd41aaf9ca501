"""BigScience's Megatron-LM logs on V100: bytes allocated on every rank of 3D-parallel runs before the first step.

What is allocated then is training state, so the rows test parameters per pipeline stage and bytes per parameter: 20,
as this Megatron kept a half-precision gradient beside the fp32 one (2 + 2 + 4 + 12). The vocabulary is not printed; the
padded GPT-2 one (51,200 with tensor parallelism 4) is taken. DeepSpeed's logs count differently and are left out.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.check.validation.case import Case, Table, gpt, megatron_recipe, read_rows
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout, stage_memory

SOURCE = "bigscience-workshop/bigscience: experiments/gpt2-meg (V100-32GB logs); a part of the ranks"


def cases() -> tuple[Case, ...]:
    """One case per rank in the logs of plain Megatron-LM."""
    rows = read_rows("bigscience_v100_megatron_rank_memory.csv")
    return tuple(_case(row) for row in rows if "meg_ds" not in row["log"])


def _case(row: dict[str, str]) -> Case:
    devices, seq = int(row["n_gpus"]), int(row["seq_len"])
    layout = Layout(
        dp=int(row["dp"]), tp=int(row["tp"]), pp=int(row["pp"]), micro_batch=int(row["mbs"]), recompute="full"
    )
    model = gpt(f"h{row['hidden']}", int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq)
    recipe = replace(megatron_recipe(int(row["gbs_seqs"]), seq, "megatron-deepspeed"), gradient_B=2.0 + 4.0)
    stage = int(row["pp_stage"])

    def allocated_B(case: Case) -> float:
        found = stage_memory(case.job, case.cluster, case.layout.grid(), stage)
        return float(found.parameters_B + found.gradients_B + found.optimizer_B)

    return Case(
        row=f"{row['row_id']} {layout} stage {stage}",
        quantity="state_B",
        measured=float(row["allocated_mb"]) * 2**20,
        job=Job(model, recipe, devices),
        cluster=cluster("dgx-v100", gpus=devices),
        layout=layout,
        predict=allocated_B,
    )


STATES = Table("bigscience_v100_states", "memory_B", SOURCE, 0.02, cases)
