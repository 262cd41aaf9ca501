"""Pipelines of a dense model alone, for tests of what software runs of them."""

from __future__ import annotations

from dataclasses import replace

from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import TARGETS
from lockstep.decide.planner.export.refusals import Placed
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, broken_by


def placed(
    schedule: str, ranks: int, microbatches: int, chunks: int, *, compiled: bool = False, zero: int = 2
) -> Placed:
    """A pipeline with two layers in every chunk, and one sequence in every micro-batch."""
    recipe = Recipe(seq=4096, batch=64).having(batch=microbatches, fused_elementwise=compiled)
    job = Job(replace(model("llama3-8b"), layers=2 * ranks * chunks), recipe, ranks)
    return Placed(job, Layout(pp=ranks, vpp=chunks, schedule=schedule, micro_batch=1, zero=zero))


def exported(found: Placed, to: str) -> str | None:
    """What is written for a program; None where the layout breaks a rule or is refused."""
    if broken_by(found.layout, found.job):
        return None
    try:
        return TARGETS[to](found)
    except Infeasible:
        return None
