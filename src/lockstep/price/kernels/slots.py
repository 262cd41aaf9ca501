"""Kernel work of the slots of a layer, which lie between its products, as its software runs them (`ways.toml`).

A step of a way moves passes x elements x bytes of an element, and takes its `xTIMES` as long where the device has as
much bandwidth for each FLOP/s as an H100 (`Clock.instruction_bound`). The sum runs at the rate of the way's kernels:
the software's library (`Stack.elementwise_factor`), torch's operations, a loss's, or as fast as memory.

Where numbers are fp32, a part of the way says what runs (`widened`, `mixed`). Under torch.autocast that is the residual
stream and what is turned by fp32 cosines and sines, as products give half precision; above a quantised base that reads
and gives fp32 it is all but attention and its output (`price/layout/sharing.py`: widened, wide_base).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.stacks import Way
from lockstep.price.kernels.clock import OPERATIONS, Clock, Work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.layout import way
from lockstep.price.layout.sharing import wide_base, widened

OF_LOSS = 1.11
"""Times as long as its bytes that a kernel of a loss takes: the mean measured on H100 (`tools/fit/products.py`)."""
Parts: TypeAlias = Mapping[str, tuple[Number, Number | Truth]]
"""By the name of a part of a way: over how many elements it is, and how often it comes."""


def slot_work(
    shard: Shard, slot: str, elements: Number, count: Number | Truth = 1, parts: Parts | None = None
) -> Passes:
    """`count` slots of that name, over so many elements each, and those of its `parts` that the way has, in half
    precision.
    """
    return way_work(shard.clock, way(shard.recipe, shard.model, slot), elements, count, parts)


def stream_work(shard: Shard, slot: str, elements: Number, count: Number = 1) -> Passes:
    """The same over what is fp32 under torch.autocast too, as the residual stream."""
    chosen = way(shard.recipe, shard.model, slot)
    found = way_work(shard.clock, chosen, elements, count)
    if not shard.recipe.habits.autocast:
        return found
    return _where(found, wider_work(shard.clock, chosen, elements, count), casts(shard) | gives_fp32(shard))


def inner_work(
    shard: Shard, slot: str, elements: Number, count: Number = 1, share: float = 1.0, part: str = "mixed"
) -> Passes:
    """The same over what products give, which is half precision under torch.autocast.

    Args: `share`: of rotary embedding, what of each head is turned; ways that say nothing of the rest turn the whole.
    `part`: what of the way is run under it.
    """
    clock, chosen = shard.clock, way(shard.recipe, shard.model, slot)
    found = _shared_work(clock, chosen, elements, count, share if "joined" in chosen.parts else 1.0)
    if not shard.recipe.habits.autocast:
        return found
    if part in chosen.parts:
        found = _where(found, _shared_work(clock, chosen.parts[part], elements, count, share), casts(shard))
    return _where(found, wider_work(clock, chosen, elements, count), gives_fp32(shard))


def _shared_work(clock: Clock, chosen: Way, elements: Number, count: Number, share: float) -> Passes:
    """The work of a way over a `share` of the elements, and of its parts that join these with the rest."""
    found = way_work(clock, chosen, share * elements, count)
    for name, of in (("joined", share), ("rest", 1.0 - share)):
        if share < 1.0 and name in chosen.parts:
            found += way_work(clock, chosen.parts[name], of * elements, count)
    return found


def casts(shard: Shard) -> Truth:
    """Where torch.autocast keeps the residual stream in fp32, and products cast what they read."""
    return widened(shard.recipe, shard.grid)


def gives_fp32(shard: Shard) -> Truth:
    """Where a quantised base reads fp32 and gives it."""
    return wide_base(shard.recipe, shard.grid, shard.model.norm)


def wider_work(clock: Clock, chosen: Way, elements: Number, count: Number = 1) -> Passes:
    """The work of a way over numbers in fp32."""
    part = chosen.parts.get("widened")
    return way_work(clock, part, elements, count) if part else way_work(clock, chosen, 2.0 * elements, count)


def _where(found: Passes, other: Passes, where: Truth) -> Passes:
    """The `other` work where a condition holds."""
    return found.when(np.logical_not(where)) + other.when(where) if np.any(where) else found


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
