"""`layer_operations`: what the operations of a dense layer take in a profile, beside what each is priced at.

Kernels are distinguished as far as `layer_kernels.py` can; a group of operations takes what these are priced at
together, without the gaps between kernels. Sums and casts that software adds around operations count with the norms and
residual sums. Only the first rank is analysed, if its layers all have attention and a dense block, are trained as a
whole and have no traffic inside of products; only the forward pass is where the backward pass recomputes anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Ints
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain import layer_kernels as told
from lockstep.explain.classes import COMMUNICATION
from lockstep.explain.seen import Seen
from lockstep.explain.trace import RankTrace
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout import Job
from lockstep.price.step.inside import HOST, VOCABULARY, DeviceRows, Inside, device_rows

CASTS = "casts of autocast"
SILENT = (HOST, VOCABULARY, "launches of collectives", "sequences joined anew")
"""What is no kernel of a layer that computes, or stands beside collectives."""
PRODUCTS = {
    ("mixer", "first"): told.HEADS_IN, ("mixer", "last"): told.HEADS_OUT,
    ("dense", "first"): told.UP, ("dense", "last"): told.DOWN,
}  # fmt: skip
PARTS = {"stream": told.STREAM, "mixer": told.HEADS, "dense": told.ACTIVATION}
MATERIAL_FRAC = 0.02
"""Of a step: what takes less more or less than it is priced at is not spoken of."""
Priced = Mapping[str, Mapping[str, Sequence[Inside]]]
"""By group and pass."""


@dataclass(frozen=True, slots=True)
class LayerOperation:
    """Operations of one layer that kernels do not distinguish, in a pass of one micro-batch."""

    operation: str
    """Their names, as they are priced."""
    way: str
    """forward or backward."""
    count: int
    """Layers of a step, in every micro-batch."""
    kernels_profile: float
    kernels_priced: float
    measured_s: float
    priced_s: float

    @property
    def difference_s(self) -> float:
        """Measured less priced, of a step."""
        return self.count * (self.measured_s - self.priced_s)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "operation") | {"pass": self.way} | picked(self, without="operation way")


def furthest(rows: Sequence[LayerOperation], step_s: float) -> tuple[LayerOperation, ...]:
    """Both passes of the operations that differ most from what they are priced at, if that is a material part of a step
    of `step_s`; else none.
    """
    apart_s: dict[str, float] = defaultdict(float)
    for one in rows:
        apart_s[one.operation] += one.difference_s
    most = max(apart_s, key=lambda name: abs(apart_s[name]), default="")
    material = bool(most) and abs(apart_s[most]) > MATERIAL_FRAC * step_s
    return tuple(one for one in rows if material and one.operation == most)


def layer_operations(estimate: Estimate, seen: Seen) -> tuple[LayerOperation, ...]:
    """Groups of operations of one layer in both passes; none where the profile or the layer does not tell them."""
    trace = seen.traces[0]
    if trace.on_host or not _plain(estimate.job):
        return ()
    several = device_rows(estimate.job, estimate.cluster, estimate.layout)
    rows = several[trace.stage or 0 if len(several) > 1 else 0]
    priced, known, found = _priced(rows), kernels_of(estimate, seen, rows), []
    gap_s = float(np.asarray(Clock.of(estimate.cluster.device, estimate.job.recipe).gap_s))
    count = rows.layers * estimate.accumulation_steps
    for group, passes in priced.items():
        name = ", ".join(dict.fromkeys(one.name for inside in passes.values() for one in inside))
        for way, inside in passes.items():
            measured_s, kernels = known.of_layer(way, group)
            launched = sum(float(np.asarray(one.work.kernels)) for one in inside)
            priced_s = sum(one.seconds for one in inside) - launched * gap_s
            if known.tells(way):
                per_layer = launched / rows.layers, measured_s, priced_s / rows.layers
                found.append(LayerOperation(name, way, count, kernels, *per_layer))
    return tuple(found)


def kernels_of(estimate: Estimate, seen: Seen, rows: DeviceRows) -> told.LayerKernels:
    """Groups of the first rank's kernels in the steps used, by their place in its trace."""
    trace, found, model = seen.traces[0], told.LayerKernels(), estimate.job.transformer
    casts = any(one.name == CASTS for one in rows.forward)
    gated = model is not None and model.mlp is not None and model.mlp.gated
    for one in seen.partitions[0]:
        inside = (trace.spans.start_s >= one.window.start_s) & (trace.spans.start_s < one.window.end_s)
        places = _computing(trace, np.flatnonzero(inside))
        spans = trace.spans.at(places)
        names = [trace.name(name) for name in spans.name.tolist()]
        backward = estimate.layout.recompute == "none"
        here = told.layer_kernels(spans.kind, names, spans.end_s - spans.start_s, gated, casts, backward)
        here.group = {int(places[i]): key for i, key in here.group.items()}
        found.add(here)
    return found


def _computing(trace: RankTrace, places: Ints) -> Ints:
    """Of some operations, those that compute on the stream with most products."""
    spans = trace.spans
    products = spans.stream[places][spans.kind[places] == told.MATMUL]
    if not len(products):
        return places[:0]
    streams, often = np.unique(products, return_counts=True)
    found: Ints = places[(spans.stream[places] == streams[np.argmax(often)]) & (spans.kind[places] != COMMUNICATION)]
    return found


def _plain(job: Job) -> bool:
    """Whether layers are of attention and a dense block alone, one after the other, and trained as a whole."""
    model, recipe = job.transformer, job.recipe
    if model is None or model.attention.latent or model.parallel_block or model.modulation is not None:
        return False
    dense = all(kind.block == "dense" and kind.attends and not kind.crosses for kind in job.kinds)
    return dense and recipe.adapters is None and recipe.overlap_tp == "none" and not recipe.objective.repeats


def _priced(rows: DeviceRows) -> Priced:
    """What is priced, by group and pass."""
    found: dict[str, dict[str, list[Inside]]] = defaultdict(lambda: defaultdict(list))
    for way, inside in ((told.FORWARD, rows.forward), (told.BACK, rows.backward)):
        for one in inside:
            if one.name not in SILENT:
                found[group_of(one)][way].append(one)
    return found


def group_of(one: Inside) -> str:
    """The group whose kernels are those of an operation, or of what software adds around them."""
    if not one.operations:
        return told.STREAM
    first = one.operations[0]
    if first.does == "product":
        return PRODUCTS[first.part, first.edge]
    return told.CORE if first.does == "core" else PARTS[first.part]
