"""Bytes on one rank of a pipeline stage, by category, for a layout or a grid of layouts that share their stage count.

    parameters   p bytes each (2), divided by the shard group with zero 3 where they are given up after a forward pass
    gradients    g bytes each (4 or 2), divided from zero 2 on where they are reduced after every micro-batch
    optimizer    k bytes each (12 for Adam: fp32 master and two moments), divided from zero 1 on
    activations  peak live micro-batches x what a stage's layers keep, and while a recomputed layer runs backward,
                 what it alone would keep
    buffers      what passes: parameters gathered by zero 3, buckets in which copies sum their gradients, one layer's
                 whole gradients, a quantised matrix in the format of the products, logits and their gradient at the
                 loss, the copy that an update makes; and the assumed share of the framework

All of them at the moment when they are most together (MOMENTS).

With p + g + k = 2 + 2 + 12 the rule "16 bytes per parameter" is ZeRO's (arXiv 1910.02054, section 3.1); see
`Recipe.bytes_per_parameter` for 18 and 20. Experts are replicated over edp ranks, everything else over dp*cp.
Offloaded states are host memory's (`offload.py`), of paged ones what exceeds the device's memory. So are kept
activations of the layers that the recipe's `offload_layers` counts; two layers' of them at a time are on the device,
one in work and one that travels. Where two copies of the model run in both directions (DualPipe), a rank holds two
stages and shards with twice as many.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial, reduce

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Truth, Whole
from lockstep.base.types.plain import Json
from lockstep.base.types.saved import FP32_B
from lockstep.base.types.shown import Shown
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import (
    LayerKind,
    RankParameters,
    embedding_weights,
    head_kept_tensors,
    head_weights,
    rank_parameters,
)
from lockstep.price.layout.gathers import sharing_in
from lockstep.price.layout.held import sharded, stage_parameters, states_B
from lockstep.price.layout.host import copies_B, stage_host_B, stage_host_states_B
from lockstep.price.layout.job import Job
from lockstep.price.layout.kept import activations_B, piece
from lockstep.price.layout.layout import KEEP, OFFLOAD_PARAMETERS, PAGED, LayoutGrid, host_capacity_B
from lockstep.price.layout.moments import casts, gradients_made, updating_B
from lockstep.price.layout.recipe import Recipe
from lockstep.price.layout.reserved import KEPT_FRAC, kept_frac, reserved_B
from lockstep.price.layout.risk import is_safe, out_of_memory_frac
from lockstep.price.layout.sharing import (
    gradients_pass,
    in_buckets,
    reduction_buffers_B,
    sharing_of,
    sums_whole,
    widened,
)
from lockstep.price.layout.trained import buffers_B, copied_elems, frozen_B, restored_B, trained_parameters
from lockstep.simulate.parallel.data.local import OUTER_STATE_B

FRAMEWORK_B = 1.5e9
"""CUDA context, communicator buffers and workspaces of one rank: assumed, typical of NCCL jobs (1 to 2 GB)."""
SLACK_FRAC = 0.05
"""What must be there beyond tensors in use, as blocks do not fit together: assumed. Where there is room the allocator
holds more (`reserved.py`)."""
MOMENTS = ("loss", "backward", "last backward", "update")
"""When memory may be fullest: at the loss; in the backward pass of a layer, while others still wait for theirs; at its
end, when all gradients are there; during the update."""

SAID = ("the loss", "the backward pass of a layer", "the end of the backward pass", "the update")
"""The same in words."""
CATEGORIES = tuple(f"{name}_B" for name in ("parameters", "gradients", "optimizer", "activations", "buffers"))


@dataclass(frozen=True, slots=True, repr=False)
class Memory(Shown):
    """Bytes on one rank by category, and what it keeps in host memory; arrays when the layout is a grid."""

    parameters_B: Number
    gradients_B: Number
    optimizer_B: Number
    activations_B: Number
    buffers_B: Number
    capacity_B: float
    host_B: Number = 0.0
    """Offloaded states and activations, in host memory."""
    host_capacity_B: float = math.inf
    """A rank's share of host memory; infinite where it is not known."""
    moment: Whole = 1
    """When these are there: a code of MOMENTS."""
    kept_frac: float = KEPT_FRAC
    """Of what tensors take, what PyTorch's allocator holds besides where there is room; 0 without it."""

    @property
    def when(self) -> str:
        """The moment at which one layout is fullest, in words, and which states or activations are not held then."""
        named = {"gradients": self.gradients_B, "activations": self.activations_B}
        gone = " and ".join(name for name, size_B in named.items() if not float(size_B))
        return f"at its fullest moment, {SAID[int(self.moment)]}" + (f"; no {gone} are held then" if gone else "")

    @property
    def total_B(self) -> Number:
        """All categories on the device together."""
        return self.parameters_B + self.gradients_B + self.optimizer_B + self.activations_B + self.buffers_B

    @property
    def allocated_B(self) -> Number:
        """What tensors take: all but the framework's share and the allocator's slack."""
        return (self.total_B - FRAMEWORK_B) / (1.0 + SLACK_FRAC)

    @property
    def reserved_B(self) -> Number:
        """What the allocator is expected to hold, with blocks that it keeps where there is room."""
        return reserved_B(self.allocated_B, self.capacity_B - FRAMEWORK_B, self.kept_frac)

    @property
    def fits(self) -> Truth:
        """Whether the total is within the device's memory, and offloaded states within the host's."""
        return (self.total_B <= self.capacity_B) & (self.host_B <= self.host_capacity_B)

    @property
    def tight(self) -> Truth:
        """Whether it fits, but is not safe: a run that is predicted to be as full runs out too often (`is_safe`)."""
        return self.fits & np.logical_not(is_safe(self.total_B, self.capacity_B))

    @property
    def used_frac(self) -> Number:
        """Total over capacity."""
        return self.total_B / self.capacity_B

    @property
    def out_of_memory_frac(self) -> Number:
        """Probability of running out of the device's memory."""
        return out_of_memory_frac(self.used_frac)

    def to_dict(self) -> Json:
        """Plain JSON form of one layout."""
        host_capacity_B = float(self.host_capacity_B)
        return {
            **{name: float(getattr(self, name)) for name in CATEGORIES},
            "total_B": float(self.total_B),
            "allocated_B": float(self.allocated_B),
            "reserved_B": float(self.reserved_B),
            "fullest_at": MOMENTS[int(self.moment)],
            "capacity_B": float(self.capacity_B),
            "host_B": float(self.host_B),
            "host_capacity_B": host_capacity_B if math.isfinite(host_capacity_B) else None,
            "fits": bool(self.fits),
            "tight": bool(self.tight),
            "out_of_memory_frac": float(self.out_of_memory_frac),
        }


def stage_memory(job: Job, cluster: Cluster, grid: LayoutGrid, stage: int) -> Memory:
    """Memory of one rank of pipeline stage `stage`, for every layout of `grid`."""
    sizes_B, moment = _stage_B(job, grid, stage)
    sizes, on_host_B = dict(zip(CATEGORIES, sizes_B, strict=True)), stage_host_B(job, grid, stage)
    if np.any(grid.offload == PAGED):
        found_B = _room_B(job, cluster, grid, stage, sum(sizes_B))
        sizes["optimizer_B"] = sizes["optimizer_B"] + found_B
        sizes["buffers_B"] = sizes["buffers_B"] + SLACK_FRAC * found_B
        on_host_B = on_host_B - found_B
    return Memory(
        **sizes,
        capacity_B=cluster.device.memory_B,
        host_B=on_host_B,
        host_capacity_B=host_capacity_B(cluster),
        moment=moment,
        kept_frac=_kept_frac(job.recipe),
    )


def _kept_frac(recipe: Recipe) -> float:
    """What the allocator of a run's software holds besides."""
    return kept_frac(recipe.software.kernels, recipe.habits.expandable_segments)


def _room_B(job: Job, cluster: Cluster, grid: LayoutGrid, stage: int, others_B: Number) -> Number:
    """Bytes of a stage's paged states that find room on the device beside `others_B`."""
    room_B = np.maximum(cluster.device.memory_B - others_B, 0.0) / (1.0 + SLACK_FRAC)
    return np.where(grid.offload == PAGED, np.minimum(room_B, stage_host_states_B(job, grid, stage)), 0.0)


def paged_out_B(job: Job, cluster: Cluster, grid: LayoutGrid) -> Number:
    """Bytes of paged states that the rank with least room for them keeps on its host between updates."""
    if not np.any(grid.offload == PAGED):
        return 0.0
    found = [
        stage_host_states_B(job, grid, stage) - _room_B(job, cluster, grid, stage, sum(_stage_B(job, grid, stage)[0]))
        for stage, _ in job.telling_stages(grid.stages, grid.placement, grid.split)
    ]
    return np.where(grid.offload == PAGED, reduce(np.maximum, found), 0.0)


def memory(job: Job, cluster: Cluster, grid: LayoutGrid) -> Memory:
    """Memory of the fullest stage, for every layout of `grid`, with the categories of that stage."""
    telling = job.telling_stages(grid.stages, grid.placement, grid.split)
    found = [stage_memory(job, cluster, grid, stage) for stage, _ in telling]
    fullest = np.argmax(np.stack(np.broadcast_arrays(*(one.total_B for one in found))), axis=0)
    sizes_B = {name: np.choose(fullest, [getattr(one, name) for one in found]) for name in CATEGORIES}
    return Memory(
        **sizes_B,
        capacity_B=cluster.device.memory_B,
        host_B=reduce(np.maximum, [one.host_B for one in found]),
        host_capacity_B=host_capacity_B(cluster),
        moment=np.choose(fullest, [one.moment for one in found]),
        kept_frac=_kept_frac(job.recipe),
    )


def peak_B(job: Job, grid: LayoutGrid) -> Number:
    """Total bytes on the fullest stage, for every layout of `grid`: what a search needs of `memory`."""
    telling = job.telling_stages(grid.stages, grid.placement, grid.split)
    return reduce(np.maximum, [sum(_stage_B(job, grid, stage)[0]) for stage, _ in telling])


def _stage_B(job: Job, grid: LayoutGrid, stage: int) -> tuple[tuple[Number, ...], Whole]:
    """Bytes of one rank of a stage by category, in the order of `Memory`, and when they are there."""
    held = job.device_layers(grid.stages, grid.placement, grid.split)[stage]
    parameters, recipe = stage_parameters(job, grid, stage, held), job.recipe
    adapted = recipe.adapters is not None
    trained = trained_parameters(job, grid, held) if adapted else parameters
    if adapted:
        own_B = states_B(job, trained, partial(trained_parameters, job, grid, held))
        weights_B, gradients_B, optimizer_B = _adapted_states(job, grid, stage, held, parameters, trained, own_B)
    else:
        own_B = states_B(job, parameters, partial(stage_parameters, job, grid, stage, held))
        weights_B, gradients_B, optimizer_B = _states(recipe, grid, parameters, own_B)
    if recipe.objective.frozen:
        weights_B = weights_B + np.where(grid.offload == OFFLOAD_PARAMETERS, 0.0, copies_B(recipe, grid, parameters))
    kept_B, loss_B, layer_B = activations_B(job, grid, stage, held)
    layer_B = layer_B + restored_B(job, grid, held)
    first, last, _ = grid.pieces_on(stage)
    cast = casts(job, grid, held, last)
    kept_B, layer_B = kept_B + cast.kept_B, layer_B + cast.layer_B
    passing_B, buckets_B = reduction_buffers_B(recipe, grid)
    buckets_B = buckets_B + np.where(in_buckets(recipe, grid), gradients_B, 0.0)
    loss_B = np.maximum(loss_B, loss_B - _made_at_loss_B(job, grid, last) + cast.passed_B) + cast.head_B + passing_B
    layer_B = layer_B + passing_B
    one = trained * (1 / recipe.objective.models) if adapted else trained
    gathered_B = _gathered(job, grid, parameters, one, max(1, sum(held.values())))
    if recipe.habits.gradients_freed or recipe.habits.foreach_update:
        fresh = recipe.habits.gradients_freed & (grid.microbatches(recipe.batch) == 1)
        elems = trained.matrix_elems + trained.other_elems, trained.expert_elems
        passing = recipe.states.passing_B * (recipe.habits.foreach_update and not recipe.update_in_backward)
        update_B = sharded(grid, elems[0] * passing, elems[1] * passing, sharing_of(recipe, grid).sharded)
        update_B = update_B + updating_B(job, grid, held, (first, last))
        made = gradients_made(job, grid, held, (first, last))
        early_B, left_B = np.where(fresh, 0.0, gradients_B), np.where(fresh, 0.0, kept_B)
        found = (
            (early_B, kept_B, loss_B + _rooted_B(job, grid, (first, last), gathered_B)),
            (np.where(fresh, made.head_frac, 1.0) * gradients_B, kept_B, layer_B + gathered_B),
            (np.where(fresh, 1.0 - made.late_frac, 1.0) * gradients_B, left_B, layer_B + gathered_B),
            (gradients_B, left_B * (grid.stages > 1), np.where(fresh, made.again_frac, made.added_frac) * gradients_B),
            (gradients_B, 0.0, np.where(grid.offload == KEEP, update_B, 0.0)),
        )
        moment: Whole = np.argmax(np.stack(np.broadcast_arrays(*(sum(one) for one in found))), axis=0)
        gradients_B, kept_B, loose_B = (np.choose(moment, list(sizes)) for sizes in zip(*found, strict=True))
        moment = moment - (moment > 2)  # The end of the backward pass is a moment of two.
    else:
        moment, loose_B = np.where(loss_B > layer_B, 0, 1), np.maximum(loss_B, layer_B) + gathered_B
    loose_B = loose_B + buckets_B
    used_B = weights_B + gradients_B + optimizer_B + kept_B + loose_B
    sizes_B = weights_B, gradients_B, optimizer_B, kept_B, loose_B + SLACK_FRAC * used_B + FRAMEWORK_B
    return sizes_B, moment


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of state per matrix parameter before anything is sharded or offloaded, by category of `Memory`."""

    copy_B: Number
    """The copy that products read, where the device holds one among the parameters."""
    master_B: Number
    """The fp32 master where it is the parameter itself; else it is among the optimizer's bytes."""
    gradient_B: Number
    optimizer_B: Number

    @property
    def parameter_B(self) -> Number:
        """Bytes among the parameters."""
        return self.copy_B + self.master_B

    @property
    def total_B(self) -> Number:
        """Bytes of all three categories."""
        return self.parameter_B + self.gradient_B + self.optimizer_B


def state_bytes(recipe: Recipe, grid: LayoutGrid, own_B: float) -> StateBytes:
    """What each parameter takes for every layout of `grid`, with `own_B` of the optimizer's own states: what the
    categories of `Memory` are made of.
    """
    states, master_B = recipe.states, np.where(grid.on_host, 0.0, 0.0)
    copy_B = np.where(widened(recipe, grid), 0.0, recipe.parameter_B)  # there they are among the activations
    if states.master_B and not recipe.habits.working_copy:
        # Of offloaded masters a working copy stays; products in fp32 read the master itself.
        cast = np.logical_not(sharing_of(recipe, grid).keeps) | (recipe.element_B >= FP32_B)
        copy_B = np.where(cast & ~grid.on_host, 0.0, copy_B)
        master_B = np.where(grid.on_host, 0.0, states.master_B)
    own_B += states.master_B if recipe.habits.working_copy else 0.0
    return StateBytes(copy_B, master_B, np.where(gradients_pass(recipe, grid), 0.0, recipe.gradient_B), own_B)


def _states(
    recipe: Recipe, grid: LayoutGrid, parameters: RankParameters, own_B: tuple[Number, Number]
) -> tuple[Number, Number, Number]:
    """Bytes of parameters, gradients and optimizer states of one rank; `own_B` are those of one model's states."""
    models, sharing, each = recipe.objective.models, sharing_of(recipe, grid), state_bytes(recipe, grid, 0.0)
    dense, expert = models * (parameters.matrix_elems + parameters.other_elems), models * parameters.expert_elems
    weights_B = sharded(grid, dense * each.copy_B, expert * each.copy_B, np.logical_not(sharing.keeps))
    weights_B = weights_B + sharded(grid, dense * each.master_B, expert * each.master_B, sharing.sharded)
    weights_B = np.where(grid.offload == OFFLOAD_PARAMETERS, 0.0, weights_B)
    gradient_B = np.where(sums_whole(recipe, grid), np.minimum(each.gradient_B, recipe.element_B), each.gradient_B)
    gradients_B = sharded(grid, dense * gradient_B, expert * gradient_B, sharing.scatters)
    dense_B, expert_B = (
        models * own + elems * each.optimizer_B for own, elems in zip(own_B, (dense, expert), strict=True)
    )
    optimizer_B = sharded(grid, dense_B, expert_B, sharing.sharded)
    if recipe.local_steps > 1:
        optimizer_B = optimizer_B + sharded(grid, dense * OUTER_STATE_B, expert * OUTER_STATE_B, sharing.sharded)
    return weights_B, gradients_B, np.where(grid.offload == KEEP, optimizer_B, 0.0)


def _made_at_loss_B(job: Job, grid: LayoutGrid, last: bool) -> Number:
    """Bytes of the gradients that a loss makes itself, which are not there in a forward pass."""
    model, recipe = job.transformer, job.recipe
    if model is None or not last:
        return 0.0
    one = piece(recipe, grid, model)
    if recipe.loss_kind == "eager" and model.has_head:
        # Two gradients in fp32, where in the forward pass logits are there in both formats.
        return one.tokens * model.vocab / grid.tp * (FP32_B - one.element_B)
    rows = head_kept_tensors(model, one, loss=recipe.loss_kind)
    return sum((one.size_B for one in rows if one.name.endswith("gradient")), 0.0)


def _copied_states(job: Job, grid: LayoutGrid, stage: int) -> tuple[Number, Number, Number]:
    """The same of tables that are trained whole beside adapters: all in the format of the frozen ones (PEFT)."""
    recipe, sharing, elems = job.recipe, sharing_of(job.recipe, grid), copied_elems(job, grid, stage)
    each_B, states = recipe.parameter_B, recipe.states
    wide_B = states.table_B if recipe.habits.wide_tables else None
    states_B = states.other_states_B * min(each_B, FP32_B) / FP32_B if wide_B is None else wide_B

    def of(size_B: float, divided: Truth) -> Number:
        return sharded(grid, elems * size_B, 0.0, divided)

    weights_B = np.where(grid.offload == OFFLOAD_PARAMETERS, 0.0, of(each_B, np.logical_not(sharing.keeps)))
    gradients_B = np.where(gradients_pass(recipe, grid), 0.0, of(each_B, sharing.scatters))
    return weights_B, gradients_B, np.where(grid.offload == KEEP, of(states_B, sharing.sharded), 0.0)


def _adapted_states(
    job: Job,
    grid: LayoutGrid,
    stage: int,
    held: Counter[LayerKind],
    whole: RankParameters,
    trained: RankParameters,
    own_B: tuple[Number, Number],
) -> tuple[Number, Number, Number]:
    """The same of one rank that trains adapters, and maybe copies of tables, of as many models as there are."""
    recipe, sharing = job.recipe, sharing_of(job.recipe, grid)
    given_up, dense = np.logical_not(sharing.keeps), trained.matrix_elems + trained.other_elems
    base_B = sharded(grid, *frozen_B(job, grid, held, whole), given_up)

    def of(each_B: float, divided: Truth) -> Number:
        return sharded(grid, dense * each_B, trained.expert_elems * each_B, divided)

    weights_B = np.where(grid.offload == OFFLOAD_PARAMETERS, 0.0, base_B + of(recipe.of_adapters.parameter_B, given_up))
    gradients_B = np.where(gradients_pass(recipe, grid), 0.0, of(recipe.of_adapters.gradient_B, sharing.scatters))
    optimizer_B = of(recipe.of_adapters.master_B, sharing.sharded) + sharded(grid, *own_B, sharing.sharded)
    weights_B = weights_B + buffers_B(job)
    tables = _copied_states(job, grid, stage)
    optimizer_B = np.where(grid.offload == KEEP, optimizer_B, 0.0)
    return weights_B + tables[0], gradients_B + tables[1], optimizer_B + tables[2]


def _rooted_B(job: Job, grid: LayoutGrid, ends: tuple[bool, bool], gathered_B: Number) -> Number:
    """Whole parameters at the loss: of FSDP those of its root, an embedding and a head, when layers are given up."""
    model, recipe, sharing = job.transformer, job.recipe, sharing_in(job, grid)
    if model is None or sharing.held_frac is not None or recipe.sharding != "fsdp2":
        return gathered_B
    tables = (*embedding_weights(model) * ends[0], *head_weights(model) * ends[1])
    stored_B = recipe.base_B if recipe.adapters is not None else recipe.parameter_B
    elems = rank_parameters(tables, grid.tp, grid.ep, grid.expert_tp).total_elems
    return np.where(sharing.keeps, gathered_B, elems * stored_B)


def _gathered(job: Job, grid: LayoutGrid, parameters: RankParameters, trained: RankParameters, layers: int) -> Number:
    """Whole parameters at zero 3, of two layers (this and the prefetched one) or as many as DeepSpeed's limits leave;
    and one layer's passing gradients.
    """
    recipe, sharing = job.recipe, sharing_in(job, grid)
    adapted = recipe.adapters is not None
    layer = (parameters.matrix_elems + parameters.expert_elems) / layers
    passing = (trained.matrix_elems + trained.expert_elems) / layers
    each_B = recipe.of_adapters.wire_B if adapted else max(recipe.wire_B, recipe.parameter_B)
    gradients_B = np.where(sharing.scatters | gradients_pass(recipe, grid), passing * each_B, 0.0)
    stored_B = recipe.base_B if adapted else recipe.parameter_B
    held = 2.0 * layer if sharing.held_frac is None else sharing.held_frac * parameters.total_elems
    return gradients_B + np.where(sharing.keeps, 0.0, held * stored_B)
