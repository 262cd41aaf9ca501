"""vTrain's measured Megatron-DeepSpeed iterations on A100 (KAIST VIA, MIT licence): many small and many plain layouts.

Inside one node the models are tiny (hidden 1024 and 2048), so shards are launch-bound: this is where a launch cost per
kernel can be told from everything else. On 64 to 512 GPUs the models have 3.6B to 175B parameters and 800 Gbit/s of
network per node. Full recomputation, 1F1B, unfused attention.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lockstep.hardware import cluster
from lockstep.layout import Job, Layout
from lockstep.validation.case import Case, Table, gpt, megatron_recipe, read_rows, step_time_s

SOURCE = "VIA-Research/vTrain: data/ground_truth_{single,multi}.csv (MIT licence); a part of its rows"


def cases(file: str) -> tuple[Case, ...]:
    """One case per row of `file`."""
    return tuple(_case(number, row) for number, row in enumerate(read_rows(file)))


def _case(number: int, row: dict[str, str]) -> Case:
    devices, seq = int(row["n_gpus"]), int(row["seq_len"])
    layout = Layout(
        dp=int(row["dp"]), tp=int(row["tp"]), pp=int(row["pp"]), micro_batch=int(row["mbs"]), recompute="full"
    )
    name = f"h{row['hidden']} l{row['layers']}"
    model = gpt(name, int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq)
    recipe = replace(megatron_recipe(int(row["gbs_seqs"]), seq, "megatron-deepspeed"), gradient_B=2.0)
    return Case(
        row=f"{number} {name} {layout}",
        quantity="step_time_s",
        measured=float(row["iter_time_ms"]) * 1e-3,
        job=Job(model, recipe, devices),
        cluster=cluster("a100-80gb-4xhdr", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


SINGLE = Table("vtrain_a100_single", "step_time_s", SOURCE, 0.10, partial(cases, "vtrain_a100_single.csv"))
MULTI = Table("vtrain_a100_multi", "step_time_s", SOURCE, 0.10, partial(cases, "vtrain_a100_multi.csv"))
