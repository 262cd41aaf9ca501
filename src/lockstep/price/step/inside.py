"""Operations inside of a step's passes: `device_rows` tells them, `operations_inside` draws them in spans of layers.

Forward they come in the order in which they run, backward in reverse behind those that recomputation runs again; then
come what software adds around them, the work over parameters and gradients, and what the device waits for its host. A
drawn layer is the mean of the layers of its device, so operations of layers of several kinds have their share of it.
They fill the time of the layer's kernels, also where traffic cuts that in several spans.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import FULL, LayerKind, Operation
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.layer import vocabulary_work
from lockstep.price.kernels.rows import ADAPTERS, Row, layer_rows, rows_again
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import Job, Layout, layer_parameters, way
from lockstep.price.step.network import Network
from lockstep.price.step.pieces import body_layers, kind_times, layer_kinds
from lockstep.price.step.stage import StageTimes, layer_alone, part_inside, repeated_frac
from lockstep.price.step.step import compose
from lockstep.simulate.program import Kind, Slice, Timeline

STATES, VOCABULARY, HOST = "parameters and gradients", "embedding and head", "wait for the host"
AGAIN = "{} again"
SLOTS = {"head norms": "norm", "copied heads": "heads", "exchanged rows": "permutation"}
"""Operations that are slots under another name."""
LAYER = re.compile(r"(?P<step>[FBIW])(?P<microbatch>\d+)(\.\d+)? layer \d+")
MOST_SLICES = 100_000
"""Beyond these, operations are drawn in the first micro-batches alone."""
LEAST_FRAC = 1e-9
"""Of a pass: what is below it is rounding."""


@dataclass(frozen=True, slots=True)
class Inside:
    """One operation in a pass over all layers of a device."""

    name: str
    work: Work
    weights: Work = field(default_factory=Work)
    """The part of it that gives gradients of weights."""
    way: str = ""
    """How the software runs it, where that differs between software."""
    layers: int = 1
    """Layers that have it."""
    operations: tuple[Operation, ...] = ()
    """None of what software adds, or of what is no operation of a layer."""

    def __add__(self, other: Inside) -> Inside:
        work, weights = self.work + other.work, self.weights + other.weights
        return replace(self, work=work, weights=weights, layers=self.layers + other.layers)

    def __mul__(self, count: int) -> Inside:
        return replace(self, work=self.work * count, weights=self.weights * count, layers=self.layers * count)

    @property
    def seconds(self) -> float:
        """Of all layers."""
        return float(np.asarray(self.work.device_s))


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The operations of all layers of a device in a pass of one micro-batch, both ways, in order."""

    forward: tuple[Inside, ...]
    backward: tuple[Inside, ...]
    layers: int

    def of(self, step: str) -> tuple[Inside, ...]:
        """Of a pass: F, B, or a backward pass's gradients of inputs (I) and of weights (W)."""
        if step in "FB":
            return self.forward if step == "F" else self.backward
        if step == "W":
            return tuple(replace(one, work=one.weights) for one in self.backward)
        return tuple(replace(one, work=one.work + one.weights * -1.0) for one in self.backward)


def device_rows(job: Job, cluster: Cluster, layout: Layout) -> list[DeviceRows]:
    """Of every device where layers are placed by hand, else once for all. Raises BadInput for a convolutional model."""
    if job.transformer is None:
        raise BadInput(f"{job.model.name} has no layers whose operations are known; take layers", "--expand")
    grid = layout.grid()
    clock = Clock.of(cluster.device, job.recipe)
    shard, parts = Shard(job.transformer, grid, job.recipe, clock), compose(job, cluster, grid)
    if grid.split:
        several = [held for _, held in job.telling_stages(grid.stages, grid.placement, grid.split)]
    else:
        kinds, stages = layer_kinds(job, grid, shard, Network(cluster, grid)), body_layers(job, grid)
        several = [max(stages, key=lambda held: float(np.asarray(kind_times(kinds, held).total_s)))]
    whole = layer_parameters(job, grid)
    known = {kind: _of_kind(shard, kind, states_work(shard, kind, whole[kind.stored])) for kind in set(job.kinds)}
    more: tuple[Iterable[Inside], ...] = ((), ())
    if job.recipe.spreads(grid.stages):
        passes = part_inside(clock, vocabulary_work(shard))
        often, halves = job.recipe.passes(grid), passes.backward.matmul_s / 2.0
        more = (
            [Inside(VOCABULARY, passes.forward * often[0])],
            [Inside(VOCABULARY, passes.backward * often[1], Work(matmul_s=halves * often[1]))],
        )
    return [_of_device(known, held, parts.of(place).body, more) for place, held in enumerate(several)]


def _of_device(
    known: dict[LayerKind, tuple[list[Inside], list[Inside]]],
    held: Counter[LayerKind],
    body: StageTimes,
    more: tuple[Iterable[Inside], ...],
) -> DeviceRows:
    """The layers `held`, what else the device's passes do, and what they wait for the host."""
    layers, sides = max(1, sum(held.values())), []
    for side, seconds in enumerate((body.compute_forward_s, body.compute_backward_s)):
        several = ([one * count for one in known[kind][side]] for kind, count in sorted(held.items()))
        rows = [*_joined(several), *more[side]]
        rest_s = float(np.asarray(seconds)) - sum(one.seconds for one in rows)
        if rest_s > LEAST_FRAC * float(np.asarray(seconds)):
            rows.append(Inside(HOST, Work(stream_s=rest_s), layers=layers))
        sides.append(tuple(rows))
    return DeviceRows(sides[0], sides[1], layers)


def _joined(lists: Iterable[list[Inside]]) -> list[Inside]:
    """Rows of several kinds of layers in an order that each of them has; those with one name are one."""
    found: dict[tuple[str, int], Inside] = {}
    order: list[tuple[str, int]] = []
    for rows in lists:
        place, times = 0, Counter[str]()
        for one in rows:
            times[one.name] += 1
            key = one.name, times[one.name]
            if key in found:
                place, found[key] = order.index(key), found[key] + one
            else:
                order.insert(place, key)
                found[key] = one
            place += 1
    return [found[key] for key in order]


def _of_kind(shard: Shard, kind: LayerKind, states: Passes) -> tuple[list[Inside], list[Inside]]:
    """The operations of one layer, forward and backward."""
    factors, objective = layer_alone(shard, kind)[2], shard.recipe.objective
    forwards, backwards = shard.recipe.passes(shard.grid)
    rows = layer_rows(shard, kind)

    def inside(row: Row, work: Work, often: Number, name: str = "{}") -> Inside:
        return Inside(
            name.format(row.name), (work * often).inside(factors), way=_way(shard, row), operations=row.operations
        )

    with_adapters = forwards - objective.bare
    there = [inside(one, one.passes.forward, with_adapters if one.name == ADAPTERS else forwards) for one in rows]
    again = backwards * (repeated_frac(shard) if np.all(shard.grid.recompute == FULL) else 1.0)
    back = [inside(one, one.passes.forward, again, AGAIN) for one in rows_again(shard, kind, rows)]
    ordered = [*(one for one in reversed(rows) if one.operations), *(one for one in rows if not one.operations)]
    for one in ordered:
        row = inside(one, one.passes.backward, backwards)
        trained = shard.recipe.adapters is None and not one.mixes
        back.append(replace(row, weights=Work(matmul_s=row.work.matmul_s / 2.0)) if trained else row)
    both = states.inside(factors)
    there.append(Inside(STATES, both.forward * with_adapters))
    back.append(Inside(STATES, both.backward * backwards, both.backward * backwards))
    return [one for one in there if one.seconds], [one for one in back if one.seconds]


def _way(shard: Shard, row: Row) -> str:
    """How the software runs an operation: the way of its slot, or the kernel of attention."""
    if not row.operations:
        return ""
    does = row.operations[0].does
    slot = SLOTS.get(does, does)
    if slot in shard.recipe.software.ways:
        return f"{slot}.{way(shard.recipe, shard.model, slot).name}"
    return shard.clock.attention[0] if does in ("core", "crossing core") else ""


def operations_inside(job: Job, cluster: Cluster, layout: Layout, timeline: Timeline) -> dict[int, list[Slice]]:
    """Operations of layers by the place of the span that they lie in, of a step that is written layer by layer.

    Of all micro-batches, unless these are more than MOST_SLICES: then of the first ones. Raises BadInput for a model
    without layers of operations.
    """
    rows, program = device_rows(job, cluster, layout), timeline.program
    spans: dict[int, dict[tuple[int, str], list[int]]] = defaultdict(lambda: defaultdict(list))
    for i in np.flatnonzero((program.kind == Kind.COMPUTE) & (timeline.end_s > timeline.start_s)).tolist():
        label = program.name(int(program.label[i]))
        if match := LAYER.fullmatch(label):
            spans[int(match["microbatch"])][int(program.rank[i]), label].append(i)
    found: dict[int, list[Slice]] = {}
    written = 0
    for _, layers in sorted(spans.items()):
        slices = [
            one
            for (rank, label), places in layers.items()
            for one in _slices(timeline, places, rows[rank if len(rows) > 1 else 0], label[0])
        ]
        written += len(slices)
        if found and written > MOST_SLICES:
            break
        for place, one in slices:
            found.setdefault(place, []).append(one)
    return found


def _slices(timeline: Timeline, places: Sequence[int], rows: DeviceRows, step: str) -> Iterator[tuple[int, Slice]]:
    """(place of a span, a part of an operation in it), of the spans of one layer in one pass."""
    each = [one for one in rows.of(step) if one.seconds > 0]
    if not each:
        return
    whole_s, places = sum(one.seconds for one in each), sorted(places, key=lambda i: float(timeline.start_s[i]))
    lengths = [float(timeline.end_s[i] - timeline.start_s[i]) for i in places]
    edges = np.concatenate(([0.0], np.cumsum([one.seconds for one in each]))) * (sum(lengths) / whole_s)
    begins = np.concatenate(([0.0], np.cumsum(lengths)))
    edges = np.minimum(edges, begins[-1])
    edges[-1] = begins[-1]
    at = 0
    for one, (low, high) in zip(each, pairwise(edges.tolist()), strict=True):
        args = _args(one, high - low, rows.layers)
        while low < high:
            end, start_s = min(high, float(begins[at + 1])), float(timeline.start_s[places[at]]) - float(begins[at])
            if end > low:
                yield places[at], Slice(one.name, start_s + low, start_s + end, args)
            low, at = end, at + (end >= begins[at + 1] and at + 1 < len(places))


def _args(one: Inside, seconds: float, layers: int) -> Json:
    """What a trace says of an operation in one layer, or in the mean of all."""
    each = {"kernels": one.work.kernels, "flops": one.work.flops}
    args: Json = {"seconds": seconds} | {
        name: float(np.asarray(value)) / layers for name, value in each.items() if np.any(value)
    }
    args |= {"way": one.way} if one.way else {}
    return args | ({"in layers": f"{one.layers} of {layers}"} if one.layers < layers else {})
