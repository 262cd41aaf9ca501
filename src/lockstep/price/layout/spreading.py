"""Where vocabulary layers can be spread over pipeline stages (`Recipe.vocab_parallel`), and why not."""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Bools, Truth
from lockstep.price.layout.job import Job
from lockstep.price.layout.layout import Layout, LayoutGrid
from lockstep.simulate.parallel.pipeline import code, codes_where
from lockstep.simulate.parallel.pipeline.vocabulary import INTERLACED


def two_stages(grid: LayoutGrid) -> Bools:
    """Where the schedule runs passes of two stages together."""
    return np.isin(grid.schedule, codes_where(lambda schedule: schedule.copies > 1 or schedule.cells is not None))


def not_spread(grid: LayoutGrid, job: Job) -> Truth:
    """Vocabulary layers are spread over stages that hold one copy of equally many layers, and have one head."""
    if job.recipe.vocab_parallel == "none":
        return np.zeros((), dtype=bool)
    modules = bool(job.transformer and job.transformer.mtp_layers) or job.images
    foreign = grid.schedule != code("1f1b") if job.recipe.vocab_parallel == INTERLACED else two_stages(grid)
    broken: Bools = (grid.pp > 1) & (foreign | bool(grid.split) | modules)
    return broken


def why_not_spread(layout: Layout, job: Job) -> str:
    """Why vocabulary layers cannot be spread."""
    given = f"--vocab-parallel {job.recipe.vocab_parallel}"
    if job.images:
        return f"{given} spreads a vocabulary, and {job.model.name} has none; leave it out"
    if job.transformer and job.transformer.mtp_layers:
        return f"{given} spreads one head, and {job.model.name} has modules of multi-token prediction with their own"
    if layout.stages:
        return f"{given} gives all stages the same work; drop --stages"
    if job.recipe.vocab_parallel == INTERLACED:
        return f"{given} stops all stages at once, which fits into 1f1b alone; use --schedule 1f1b or vocab-2"
    return f"{given} is not known for {layout.schedule}, which runs passes of two stages together"
