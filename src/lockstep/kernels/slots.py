"""Kernel work of the slots of a layer, which lie between its products, in the way of its software (`stacks/ways.toml`).

A step of a way moves passes x elements x bytes of an element, and takes its `xTIMES` as long where the device has as
much bandwidth for each FLOP/s as an H100 (`Clock.instruction_bound`). The sum runs at the rate of the way's kernels:
the software's library (`Stack.elementwise_factor`), torch's operations, a loss's, or as fast as memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from lockstep.kernels.clock import OPERATIONS, Clock, Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.layout import way
from lockstep.stacks import Way
from lockstep.types.arrays import Number, Truth

OF_LOSS = 1.11
"""Times as long as its bytes that a kernel of a loss takes: the mean measured on H100 (`tools/fit/products.py`)."""
Parts: TypeAlias = Mapping[str, tuple[Number, Number | Truth]]
"""By the name of a part of a way: over how many elements it is, and how often it comes."""


def slot_work(shard: Shard, slot: str, elements: Number, count: Number = 1, parts: Parts | None = None) -> Passes:
    """`count` slots of that name, over so many elements each, and those of its `parts` that the way has."""
    return way_work(shard.clock, way(shard.recipe, shard.model, slot), elements, count, parts)


def way_work(
    clock: Clock, chosen: Way, elements: Number, count: Number | Truth = 1, parts: Parts | None = None
) -> Passes:
    """The same in a given way."""
    found = Passes(Work(), Work())
    if any((*chosen.passes, *chosen.kernels)):
        size_B = count * elements * clock.element_B * _factor(clock, chosen.rate)
        sides = zip(way_passes(clock, chosen), chosen.kernels, strict=True)
        found = Passes(*(clock.stream(passes * size_B, count * kernels) for passes, kernels in sides))
    if idles := chosen.numbers.get("idles"):
        found += Passes(Work(stream_s=idles * count * clock.launches_s[0]), Work())
    for name, over in (parts or {}).items():
        if name in chosen.parts:
            found += way_work(clock, chosen.parts[name], *over)
    return found


def way_passes(clock: Clock, chosen: Way) -> tuple[float, float]:
    """Passes of a way forward and backward, as long as they take."""
    return _taken(clock, chosen, 0), _taken(clock, chosen, 1)


def _taken(clock: Clock, chosen: Way, side: int) -> float:
    bound, passes = clock.instruction_bound, chosen.passes[side]
    for step in chosen.slower[side]:
        passes += step.passes * (bound(step.times) - 1.0)
    return passes * bound(chosen.slow[side]) * chosen.takes[side]


def _factor(clock: Clock, rate: str) -> float:
    """Times as long as their bytes that kernels of this rate take."""
    return {"library": clock.stack.elementwise_factor, "torch": OPERATIONS, "loss": OF_LOSS}.get(rate, 1.0)
