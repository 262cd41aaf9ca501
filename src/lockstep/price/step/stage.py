"""`StageTimes`: seconds that a pipeline stage spends on one micro-batch, forward and backward, by what they go to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import TypeAlias

import numpy as np

from lockstep.base.records import dataclass, fields, replace
from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.workload import FULL, SELECTIVE, Experts, LayerKind
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.layer import LayerWork, layer_work, product_pairs, tensor_rounds
from lockstep.price.kernels.recompute import modules_again, stops_early, whole_again
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.layout import (
    LayoutGrid,
    Recipe,
    busiest_rank_frac,
    choices_of,
    context_blocks,
    group_tokens,
    load_of,
    piece,
)
from lockstep.price.layout.groups import DATA
from lockstep.price.step.network import Network
from lockstep.simulate.parallel import context
from lockstep.simulate.parallel.expert import traffic as expert
from lockstep.simulate.parallel.group import share_links
from lockstep.simulate.parallel.piece import Flow, Piece, slowing, total_s
from lockstep.simulate.parallel.tensor import asynchronous
from lockstep.simulate.parallel.tensor import traffic as tensor

Pair: TypeAlias = tuple[tuple[Piece, ...], tuple[Piece, ...]]


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds of one micro-batch by kind. Adds up; scales by a count of layers."""

    compute_forward_s: Number = 0.0
    compute_backward_s: Number = 0.0
    weight_s: Number = 0.0
    """The part of the backward compute that gives weight gradients."""
    tp_forward_s: Number = 0.0
    tp_backward_s: Number = 0.0
    cp_forward_s: Number = 0.0
    cp_backward_s: Number = 0.0
    pp_forward_s: Number = 0.0
    """Of vocabulary layers that are spread over stages."""
    pp_backward_s: Number = 0.0
    ep_forward_s: Number = 0.0
    ep_backward_s: Number = 0.0
    ep_hidden_forward_s: Number = 0.0
    """Of the experts' exchange, what runs beside shared experts; no part of the passes."""
    ep_hidden_backward_s: Number = 0.0
    hidden_forward_s: Number = 0.0
    """Tensor and context traffic that hides in a pass on links of data-parallel traffic: this cannot hide there too."""
    hidden_backward_s: Number = 0.0
    beside_forward_s: Number = 0.0
    """Kernels beside which traffic of the layers runs; told where vocabulary layers are spread over stages."""
    beside_backward_s: Number = 0.0

    def __add__(self, other: StageTimes) -> StageTimes:
        return StageTimes(*(getattr(self, name) + getattr(other, name) for name in TIMES))

    def __mul__(self, count: Number) -> StageTimes:
        return StageTimes(*(getattr(self, name) * count for name in TIMES))

    __rmul__ = __mul__

    @property
    def forward_s(self) -> Number:
        """A whole forward pass."""
        waits_s = self.tp_forward_s, self.cp_forward_s, self.pp_forward_s, self.ep_forward_s
        return _sum((self.compute_forward_s, *waits_s))

    @property
    def backward_s(self) -> Number:
        """A whole backward pass, recomputation included."""
        waits_s = self.tp_backward_s, self.cp_backward_s, self.pp_backward_s, self.ep_backward_s
        return _sum((self.compute_backward_s, *waits_s))

    @property
    def ep_hidden_s(self) -> Number:
        """What of the experts' exchange runs beside shared experts in both passes."""
        return self.ep_hidden_forward_s + self.ep_hidden_backward_s

    @property
    def total_s(self) -> Number:
        """Both passes."""
        return self.forward_s + self.backward_s

    def passed(self, forwards: Number, backwards: int) -> StageTimes:
        """So many forward and backward passes, one after another."""
        if backwards == 1 and np.all(forwards == 1):
            return self
        times = ((name, forwards if "forward" in name else backwards) for name in TIMES)
        return StageTimes(**{name: getattr(self, name) * count for name, count in times})

    def where(self, mask: Truth, other: StageTimes) -> StageTimes:
        """These times where `mask` holds, the other's elsewhere."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in TIMES)
        return StageTimes(*(one_s if one_s is other_s else np.where(mask, one_s, other_s) for one_s, other_s in pairs))


TIMES = tuple(field.name for field in fields(StageTimes))


def _sum(seconds: Iterable[Number]) -> Number:
    """The sum, without a turn over the grid for what takes no time anywhere."""
    return reduce(add, [one for one in seconds if isinstance(one, np.ndarray) or one != 0.0] or [0.0])


def layer_pieces(shard: Shard, network: Network, work: LayerWork, kind: LayerKind) -> Pair:
    """Traffic of one layer with the kernels `work` as pieces (tp, cp, ep) of its forward and its backward pass."""
    model, grid, recipe = shard.model, shard.grid, shard.recipe
    element_B, tokens = shard.clock.element_B, shard.tokens * model.hidden
    routed = model.experts if kind.experts else None
    exchanged: Pair = _exchange(shard, network, work, routed) if routed else ((), ())
    split, rounds = grid.sequence_parallel > 0, tensor_rounds(model, kind)
    products_s = work.passes.forward.matmul_s, work.passes.backward.matmul_s
    taken_s: list[Number] = [sum(one.kernels_s for one in side) for side in exchanged]
    narrow, levels = recipe.narrow_traffic, network.levels("tp")
    there = back = tensor.flows(levels, tokens * element_B, split, rounds, narrow[0])
    if narrow[1] != narrow[0]:
        back = tensor.flows(levels, tokens * element_B, split, rounds, narrow[1])
    inside: Pair
    if recipe.overlap_tp == "async":
        pairs = product_pairs(shard, kind)
        inside = asynchronous.pieces(there, grid.tp, pairs), asynchronous.pieces(back, grid.tp, pairs, backward=True)
    else:
        gathers = recipe.habits.gathers_again
        again = tensor.gathered_again(back[0], recipe.overlap_tp, products_s[1]) if gathers else None
        if again and recipe.overlap_tp == "all":
            taken_s[1] = taken_s[1] + np.where(split, again.kernels_s, 0.0)
        whole = tensor.pieces((there, back), recipe.overlap_tp, products_s, (taken_s[0], taken_s[1]))
        inside = whole[:1], (*whole[1:], *((again,) if again else ()))
    sides = inside
    if kind.attends:
        core_s = work.core.forward.device_s, work.core.backward.device_s
        blocks = context_blocks(model, piece(recipe, grid, model), core_s)
        around = context.pieces(recipe.cp_kind, network.levels("cp"), grid.cp, blocks)
        sides = (*inside[0], around[0]), (*inside[1], around[1])
    forward, backward = (slowing(side, shard.clock.traffic_device_frac) for side in sides)
    return (*forward, *exchanged[0]), (*backward, *exchanged[1])


def _exchange(shard: Shard, network: Network, work: LayerWork, routed: Experts) -> Pair:
    """The experts' traffic of one layer."""
    recipe, ways = shard.recipe, shard.grid.expert_tp
    # The busiest rank receives most of a dispatch and sends most of a combine; the others wait for it.
    uneven = expert.Uneven(
        group_tokens(recipe, shard.grid), load_of(routed, recipe), busiest_rank_frac(routed, recipe, shard.grid)
    )
    each = shard.loose_tokens * shard.model.hidden
    sizes_B = each * recipe.dispatched_B, each * shard.clock.element_B
    choices = choices_of(routed)
    once = recipe.once_per_node(choices.limited)
    dispatch, combine = expert.flows(network.levels("ep"), *sizes_B, choices, once, uneven)
    there: tuple[Flow, ...] = (dispatch,)
    back: tuple[Flow, ...] = (combine,)
    if np.any(ways > 1):
        rows_B = tuple(size_B * routed.top_k * uneven.busiest for size_B in sizes_B)
        gather, scatter = expert.gathered(network.levels("etp"), ways, *rows_B)
        there, back = (*there, gather), (scatter, *back)
    beside = work if recipe.overlap_ep == "passes" else work.shared
    beside_s = beside.forward.device_s, beside.backward.device_s
    forward, backward = expert.pieces(there, back, recipe.overlap_ep, beside_s, recipe.exchange_device_frac)
    return (forward,), (backward,)


def stage_pieces(shard: Shard, network: Network, held: Mapping[LayerKind, int]) -> Pair:
    """Traffic of the layers `held` by a stage as pieces of its forward and its backward pass."""
    found: Pair = ((), ())
    whole = repeated_frac(shard)
    forwards, backwards = shard.recipe.passes(shard.grid)
    for kind, count in sorted(held.items()):
        forward, backward = layer_pieces(shard, network, layer_inside(shard, kind)[0], kind)
        again = (*_block_again(shard, kind, forward), *(one * whole for one in _forward_again(shard, kind, forward)))
        found = (
            found[0] + _times(forward, count * forwards),
            found[1] + _times((*again, *backward), count * backwards),
        )
    return found


def layer_inside(shard: Shard, kind: LayerKind, states: Passes | None = None) -> tuple[LayerWork, Work, Passes]:
    """Work of a layer as its kernels run beside each other, what is recomputed of it, and its `states`."""
    work, again, factors = layer_alone(shard, kind)
    return work.inside(factors), again.inside(factors), (states or Passes(Work(), Work())).inside(factors)


def layer_alone(shard: Shard, kind: LayerKind) -> tuple[LayerWork, Work, tuple[Number, Number, Number]]:
    """Work of a layer and what is recomputed of it, and by what kernels beside each other differ (`Work.inside`)."""
    work, mode = layer_work(shard, kind), shard.grid.recompute
    again = whole_again(shard, kind, work) * repeated_frac(shard)
    if np.any(mode == SELECTIVE):
        again += modules_again(shard, kind, work.core).when(mode == SELECTIVE)
    return work, again, shard.clock.factors_inside(work.forward + work.backward + again)


def repeated_frac(shard: Shard) -> Number:
    """Forward passes of a layer that full recomputation runs again, in the mean over those of a stage."""
    return np.where(shard.grid.recompute == FULL, again_frac(shard), 0.0)


def again_frac(shard: Shard) -> Number:
    """Of a stage's layers the share that full recomputation runs again."""
    grid = shard.grid
    chunks = len(grid.split) // grid.stages if grid.split else grid.vpp
    return shard.recipe.recomputed_frac(shard.model.layers / grid.stages, chunks)


def _block_again(shard: Shard, kind: LayerKind, forward: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Traffic that selective recomputation repeats: the exchange of experts; of a dense block one round's share of the
    forward pass; per operation the gathers, as torchtitan keeps what reductions give and not what gathers give
    (`_save_list`), beside half of the products that read them, which it keeps the other half of.
    """
    modules, selective = shard.recipe.recompute_modules, np.where(shard.grid.recompute == SELECTIVE, 1.0, 0.0)
    inside = tuple(one for one in forward if one.part == "tp")
    if "op" in modules:
        gathers = (one.only("all-gather") for one in inside)
        return tuple(replace(one, kernels_s=0.5 * one.kernels_s) * selective for one in gathers if one.flows)
    if "moe" in modules and kind.block == "experts":
        return tuple(one * selective for one in forward if one.part in ("ep", "etp"))
    if "mlp" not in modules or kind.block != "dense":
        return ()
    return tuple(one * (selective / tensor_rounds(shard.model, kind)) for one in inside)


def _forward_again(shard: Shard, kind: LayerKind, forward: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Traffic that full recomputation repeats of a forward pass: what is not computed again is not added up either."""
    if not stops_early(shard, kind):
        return forward
    share = 1.0 - 1.0 / tensor_rounds(shard.model, kind)
    return tuple(one.part_of(("reduce-scatter", "all-reduce"), share) if one.part == "tp" else one for one in forward)


def _times(pieces: tuple[Piece, ...], count: Number) -> tuple[Piece, ...]:
    """The pieces of `count` equal layers, without those that move nothing in any layout."""
    return tuple(one * count for one in pieces if np.any(total_s(one.flows) > 0))


def layer_times(shard: Shard, network: Network, kind: LayerKind, states: Passes) -> StageTimes:
    """Seconds of one layer. `states` is what its parameters and gradients cost besides, per micro-batch.

    Full recomputation repeats the forward pass and its traffic before the backward pass, selective the modules'. Where
    some layers of a stage are recomputed and others are not, this is the mean of them.
    A pass takes at least what the host needs to launch its kernels; the wait for the host counts as compute. What the
    host is ahead after the forward pass it has less to do in the backward pass. If it waits for every kernel, its time
    is added instead.
    """
    work, again, states = layer_inside(shard, kind, states)
    clock, repeated = shard.clock, repeated_frac(shard)
    forward, backward = layer_pieces(shard, network, work, kind)
    backward = (*_block_again(shard, kind, forward), *backward)
    there, kernels = work.forward + states.forward, work.backward + states.backward + again
    exposed = _exposed(forward, "forward_s") | _exposed(backward, "backward_s")
    repeats = _forward_again(shard, kind, forward)
    for part, seconds in _exposed(repeats, "backward_s").items():
        exposed[part] = exposed[part] + repeated * seconds
    waits_s = [sum(value for name, value in exposed.items() if way in name) for way in ("forward", "backward")]
    hidden_s = [_meeting_data(network, side) for side in (forward, backward, repeats)]
    exchange_s = [sum(one.kernels_s for one in side if one.part == "ep") for side in (forward, backward)]
    beside_s: list[Number] = [0.0, 0.0]
    if shard.recipe.vocab_parallel != "none":
        beside_s = [sum(one.kernels_s for one in side) for side in (forward, backward)]
        beside_s[1] = beside_s[1] + repeated * beside_s[0]
    blocking = _blocks(shard)
    launches, (forward_launch_s, backward_launch_s) = kernels.kernels - again.kernels, clock.launches_s
    host_backward_s = launches * backward_launch_s + again.kernels * forward_launch_s
    host_backward_s = host_backward_s + repeated * clock.recompute_host_s
    host_forward_s = there.kernels * forward_launch_s
    forward_s = _pass_s(there, host_forward_s, waits_s[0], blocking)
    if work.counted is not None:
        forward_s = np.maximum(forward_s, _counted_s(shard, there, work.counted) - waits_s[0])
    if shard.grid.stages == 1:
        # What the host is ahead after the forward pass; between stages it waits for what it sends.
        ahead_s = np.maximum(0.0, there.device_s + waits_s[0] - host_forward_s)
        host_backward_s = host_backward_s - np.where(blocking, 0.0, ahead_s)
    objective = shard.recipe.objective
    found = StageTimes(
        compute_forward_s=forward_s,
        compute_backward_s=_pass_s(kernels, host_backward_s, waits_s[1], blocking),
        weight_s=_weights_s(shard, work) + states.backward.device_s,
        **exposed,
        hidden_forward_s=hidden_s[0],
        hidden_backward_s=hidden_s[1] + repeated * hidden_s[2],
        beside_forward_s=beside_s[0],
        beside_backward_s=beside_s[1],
        ep_hidden_forward_s=exchange_s[0],
        ep_hidden_backward_s=exchange_s[1] + repeated * exchange_s[0],
    ).passed(*shard.recipe.passes(shard.grid))
    if not objective.bare or work.frozen is None:
        return found
    frozen_s = _pass_s(work.frozen, work.frozen.kernels * forward_launch_s, waits_s[0], blocking)
    return found + StageTimes(compute_forward_s=objective.bare * (frozen_s - forward_s))


def _weights_s(shard: Shard, work: LayerWork) -> Number:
    """Seconds of a backward pass that go into weight gradients, which may wait; of adapters next to none."""
    return 0.0 if shard.recipe.adapters is not None else work.passes.backward.matmul_s / 2.0


def _exposed(pieces: tuple[Piece, ...], way: str) -> dict[str, Number]:
    """Exposed seconds by part, as fields of `StageTimes`."""
    found: dict[str, Number] = {}
    for one in pieces:
        name = f"{one.part}_{way}"
        found[name] = found[name] + one.exposed_s if name in found else one.exposed_s
    return found


def _meeting_data(network: Network, pieces: tuple[Piece, ...]) -> Number:
    """Seconds of tensor and context traffic that hides on links which data-parallel traffic needs too."""
    data = network.levels(*DATA)
    seconds: Number = 0.0
    for one in pieces:
        if one.beside and one.part != "ep":
            seconds = seconds + np.where(share_links(network.levels(one.part), data), one.hidden_s, 0.0)
    return seconds


def _blocks(shard: Shard) -> Truth:
    """Whether the host waits for kernels before it launches the next ones."""
    recipe = shard.recipe
    wrapped = recipe.habits.wrapped_adapters and recipe.adapters is not None
    found: Truth = recipe.habits.launch_blocking | (wrapped & (shard.grid.zero == 3))
    return found


def _pass_s(work: Work, host_s: Number, waits_s: Number, blocking: Truth) -> Number:
    """Seconds of a pass apart from its waits for traffic, during which a host that does not block goes on launching."""
    return np.where(blocking, work.device_s + host_s, np.maximum(work.device_s, host_s - waits_s))


def _counted_s(shard: Shard, there: Work, counted: Work) -> Number:
    """Seconds of a forward pass whose host waits for the router: it launches the experts' kernels only when it has read
    how many tokens each gets. What is replayed or compiled as a whole has shapes that do not depend on it.

    Source: NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (cuda_sync_point).
    """
    if shard.clock.stack.compiled or shard.recipe.cuda_graphs == "step":
        return 0.0
    return there.device_s - counted.device_s + counted.kernels * shard.clock.launches_s[0]


def part_inside(clock: Clock, parts: Passes) -> Passes:
    """Work outside the layers as its kernels run beside each other."""
    return parts.inside(clock.factors_inside(parts.forward + parts.backward))


def part_times(clock: Clock, recipe: Recipe, grid: LayoutGrid, parts: Passes) -> StageTimes:
    """Seconds of work outside the layers (embedding, head), or of a whole ConvNet: never recomputed."""
    launch_s, blocking = clock.launches_s, recipe.habits.launch_blocking
    parts = part_inside(clock, parts)
    return StageTimes(
        compute_forward_s=parts.forward.seconds(launch_s[0], blocking),
        compute_backward_s=parts.backward.seconds(launch_s[1], blocking),
        weight_s=parts.backward.matmul_s / 2.0,
    ).passed(*recipe.passes(grid))
