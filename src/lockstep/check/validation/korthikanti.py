"""Korthikanti et al. 2022 (arXiv 2205.05198): step times and memory of 22B to 1T models with and without recomputation.

Step times: table 5 and section 6.3 (measured). Memory: the bytes of figure 1 as transcribed in Calculon's validation
code; they are the paper's own analysis, not a profile, so they test the formulas rather than the allocator.

Between the runs of 2021 and these, Megatron-LM learned to reduce input gradients beside the weight-gradient products
(section 4.2.2 hides a gather of sequence parallelism likewise) and to accumulate inside them.
"""

from __future__ import annotations

from collections.abc import Callable

from lockstep.check.validation.case import (
    Case,
    Table,
    activations_B,
    gpt,
    megatron_recipe,
    read_rows,
    state_B,
    step_time_s,
)
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout

SOURCE = "Korthikanti et al. 2022 (arXiv 2205.05198)"
FILE = "korthikanti_2022_recompute.csv"


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    vpp, devices = int(row["vpp"]), int(row["n_gpus"])
    layout = Layout(
        dp=int(row["dp"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        vpp=vpp,
        micro_batch=int(row["mbs"]),
        recompute=row["recompute"].split()[0],
        sequence_parallel=row["sequence_parallel"] == "1",
        schedule="interleaved" if vpp > 1 else "1f1b",
    )
    recipe = megatron_recipe(int(row["gbs_seqs"]), software="megatron-2022")
    model = gpt(row["model"], int(row["layers"]), int(row["hidden"]), int(row["heads"]))
    return Case(
        row=row["row_id"],
        quantity=quantity,
        measured=measured,
        job=Job(model, recipe, devices),
        cluster=cluster("dgx-a100-80gb", gpus=devices),
        layout=layout,
        predict=predict,
    )


def time_cases() -> tuple[Case, ...]:
    """Rows with an iteration time."""
    rows = [row for row in read_rows(FILE) if row["iter_time_s"]]
    return tuple(_case(row, "step_time_s", float(row["iter_time_s"]), step_time_s) for row in rows)


def memory_cases() -> tuple[Case, ...]:
    """Rows with bytes of training state and of activations."""
    found = []
    for row in read_rows(FILE):
        if row["mem_param_opt_gib"]:
            found.append(_case(row, "state_B", float(row["mem_param_opt_gib"]) * 2**30, state_B))
            found.append(_case(row, "activations_B", float(row["mem_activation_gib"]) * 2**30, activations_B))
    return tuple(found)


TIME = Table("korthikanti_2022", "step_time_s", f"{SOURCE}, table 5 and section 6.3", 0.10, time_cases)
MEMORY = Table(
    "korthikanti_2022_memory", "memory_B", f"{SOURCE}, figure 1 as transcribed by Calculon", 0.10, memory_cases
)
