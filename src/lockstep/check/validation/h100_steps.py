"""Steps on one H100, measured for this purpose: Hugging Face models under autocast or below LoRA adapters.

H100 SXM of 700 W, PyTorch 2.11.0 with CUDA 13.0, transformers 5.17, PEFT, 26 and 27 November 2026, by
`benchmarks/one_gpu.py`: random weights and tokens, AdamW of torch in multi-tensor kernels, medians of eight steps;
memory is the peak of allocated tensors. Between the first two runs two things changed: the curve of H100 became that of
kernels alone, and what autocast does was written down from a profile of the first run. So rows of the `first` run were
seen when that was written; what was predicted for those of the `second` and of the `third` (`predicted_before_ms`) was
computed before they were measured. Those of the third were made with what operations and losses cost alone, which is
not how they are priced here (docs/validation.md); after it, the fp32 copies that norms keep were written down. No
constant is fitted to any of them.

GPT-2's activation and attention that is not fused were written down after their rows had been seen, from the code of
transformers and not from the rows (`describe/stacks/ways.toml`).
"""

from __future__ import annotations

from collections.abc import Callable

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.vocabulary import allocated_B
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import stack
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "Lockstep, benchmarks/one_gpu.py on one H100 SXM, PyTorch 2.11, transformers 5.17"
FILE = "h100_steps.csv"
EAGER = "hf-trainer-5"
"""The software whose usual update, in one kernel, these runs did not take."""


def time_cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row, "step_time_s", float(row["step_ms"]) * 1e-3, step_time_s) for row in read_rows(FILE))


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory."""
    return tuple(
        _case(row, "allocated_B", float(row["allocated_GiB"]) * 2.0**30, allocated_B) for row in read_rows(FILE)
    )


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    micro_batch = int(row["micro_batch"])
    software = row["stack"]
    recipe = Recipe.by(
        stack(software).having(foreach_update=True) if software == EAGER else software,
        seq=int(row["seq"]),
        batch=micro_batch * int(row["accumulation"]),
        train=row["train"].replace(";", ","),
        flash_attention=row["flash"] == "1",
    )
    return Case(
        row=f"{row['row_id']} {row['case']} mb{micro_batch}",
        quantity=quantity,
        measured=measured,
        job=Job(model(row["model"]), recipe, 1),
        cluster=cluster("dgx-h100", gpus=1),
        layout=Layout(micro_batch=micro_batch, recompute=row["recompute"]),
        predict=predict,
    )


TIME = Table("h100_steps", "step_time_s", SOURCE, 0.12, time_cases)
MEMORY = Table("h100_steps_memory", "memory_B", SOURCE, 0.05, memory_cases)
