"""Bytes that a rank keeps in host memory: offloaded states, paged ones as a whole, and activations."""

from __future__ import annotations

from collections import Counter
from functools import partial, reduce

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.base.types.saved import FP32_B
from lockstep.describe.workload import LayerKind, RankParameters
from lockstep.price.layout.held import sharded, stage_parameters, states_B
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import chunks_of, leaving_B, live_B
from lockstep.price.layout.layout import KEEP, PAGED, LayoutGrid, host_states_B
from lockstep.price.layout.recipe import Recipe
from lockstep.price.layout.sharing import divides_states, sharing_of
from lockstep.price.layout.trained import frozen_B, trained_parameters
from lockstep.simulate.parallel.data.local import OUTER_STATE_B


def host_B(job: Job, grid: LayoutGrid) -> Number:
    """Bytes that the rank which offloads most keeps in host memory, for every layout of `grid`."""
    if not np.any(grid.offload != KEEP) and not job.recipe.offload_layers:
        return 0.0
    telling = job.telling_stages(grid.stages, grid.placement, grid.split)
    return reduce(np.maximum, [stage_host_B(job, grid, stage) for stage, _ in telling])


def stage_host_B(job: Job, grid: LayoutGrid, stage: int) -> Number:
    """Bytes in host memory of one rank of a stage: offloaded states, and activations of micro-batches in flight."""
    states_B = stage_host_states_B(job, grid, stage) if np.any(grid.offload != KEEP) else 0.0
    if not job.recipe.offload_layers:
        return states_B
    held = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    gone_B = [leaving_B(job, grid, chunk, held) for chunk in chunks_of(job, grid, stage, held)]
    return states_B + live_B(job, grid, stage, gone_B)


def stage_host_states_B(job: Job, grid: LayoutGrid, stage: int) -> Number:
    """Bytes of offloaded states of one rank of a stage: of what it updates, divided from zero 1 on."""
    states, recipe = job.recipe.states, job.recipe
    layers = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    whole = stage_parameters(job, grid, stage, layers)
    if recipe.adapters is not None:
        return _adapters_host_B(job, grid, layers, whole)
    models, copies = recipe.objective.models, 1.0 + recipe.objective.frozen / recipe.objective.models
    own_B = states_B(job, whole, partial(stage_parameters, job, grid, stage, layers))
    held = whole * models
    dense, expert = held.matrix_elems + held.other_elems, held.expert_elems
    # Masters that are the parameters themselves are no pages.
    kept_B = 0.0 if recipe.habits.working_copy else np.where(grid.offload == PAGED, states.master_B, 0.0)
    copy_B: Number = states.master_B - kept_B
    optimizer_B = models * own_B[0] + dense * copy_B
    if recipe.local_steps > 1:
        optimizer_B = optimizer_B + dense * OUTER_STATE_B
    divided = divides_states(recipe, grid)
    return host_states_B(
        grid,
        sharded(grid, dense * recipe.parameter_B, expert * recipe.parameter_B, divided) * copies,
        sharded(grid, dense * recipe.gradient_B, expert * recipe.gradient_B, divided),
        sharded(grid, optimizer_B, models * own_B[1] + expert * copy_B, divided),
    )


def _adapters_host_B(job: Job, grid: LayoutGrid, held: Counter[LayerKind], whole: RankParameters) -> Number:
    """The same of a rank that trains adapters: what it updates is theirs, the frozen weights only wait there."""
    recipe, divided = job.recipe, divides_states(job.recipe, grid)
    trained = trained_parameters(job, grid, held)
    dense, expert = trained.matrix_elems + trained.other_elems, trained.expert_elems

    def of(each_B: float) -> Number:
        return sharded(grid, dense * each_B, expert * each_B, divided)

    weights_B = sharded(grid, *frozen_B(job, grid, held, whole), divided) + of(recipe.of_adapters.parameter_B)
    weights_B = weights_B + copies_B(recipe, grid, whole)
    own_B = states_B(job, trained, partial(trained_parameters, job, grid, held))
    optimizer_B = of(recipe.of_adapters.master_B) + sharded(grid, *own_B, divided)
    return host_states_B(grid, weights_B, of(recipe.of_adapters.gradient_B), optimizer_B)


def copies_B(recipe: Recipe, grid: LayoutGrid, whole: RankParameters) -> Number:
    """Bytes of the frozen copies of the model that the objective needs, sharded as parameters are."""
    # Where what is trained is loaded in fp32, so is a copy of it (TRL 1.16, trl/trainer/dpo_trainer.py).
    wide = not recipe.habits.working_copy and (recipe.habits.autocast or recipe.element_B >= FP32_B)
    master = wide and recipe.adapters is None and recipe.states.master_B
    each_B = recipe.objective.frozen * (recipe.states.master_B if master else recipe.parameter_B)
    dense_B = (whole.matrix_elems + whole.other_elems) * each_B
    return sharded(grid, dense_B, whole.expert_elems * each_B, np.logical_not(sharing_of(recipe, grid).keeps))
