"""Kernel work of the slots of a layer, which lie between its products, in the way of its software (`stacks/ways.toml`).

A step of a way moves passes x elements x bytes of an element, and takes its `xTIMES` as long where the device has as
much bandwidth for each FLOP/s as an H100 (`Clock.instruction_bound`). The sum runs at the rate of the way's kernels:
the software's library (`Stack.elementwise_factor`), torch's operations, a loss's, or as fast as memory.

Where numbers are fp32, a part of the way says what runs (`widened`, `mixed`). Under torch.autocast that is the residual
stream and what is turned by fp32 cosines and sines, as products give half precision; above a quantised base that reads
and gives fp32 it is all but attention and its output (`layout/sharing.py`: widened, wide_base).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.kernels.clock import Clock, Work
from lockstep.kernels.shard import Passes, Shard
from lockstep.layout import way
from lockstep.layout.sharing import wide_base, widened
from lockstep.stacks import Way
from lockstep.types.arrays import Number, Truth

OF_LOSS = 1.11
"""Times as long as its bytes that a kernel of a loss takes: the mean measured on H100 (`tools/fit/products.py`)."""
TIMES = {"loss": OF_LOSS}


def slot_work(shard: Shard, slot: str, elements: Number, count: Number = 1) -> Passes:
    """`count` slots of that name, over so many elements each, in half precision."""
    return way_work(shard.clock, way(shard.recipe, shard.model, slot), elements, count)


def stream_work(shard: Shard, slot: str, elements: Number, count: Number = 1) -> Passes:
    """The same over what is fp32 under torch.autocast too, as the residual stream."""
    chosen = way(shard.recipe, shard.model, slot)
    found, wide = (work(shard.clock, chosen, elements, count) for work in (way_work, wider_work))
    return _where(found, wide, casts(shard) | gives_fp32(shard))


def inner_work(shard: Shard, slot: str, elements: Number, count: Number = 1, share: float = 1.0) -> Passes:
    """The same over what products give, which is half precision under torch.autocast.

    Args: `share`: of rotary embedding, what of each head is turned; without autocast the whole is priced as turned.
    """
    clock, chosen = shard.clock, way(shard.recipe, shard.model, slot)
    found = way_work(clock, chosen, elements, count)
    if "mixed" in chosen.parts:
        mixed = chosen.parts["mixed"]
        other = way_work(clock, mixed, share * elements, count)
        if share < 1.0:
            for name, of in (("joined", share), ("rest", 1.0 - share)):
                if name in mixed.parts:
                    other += way_work(clock, mixed.parts[name], of * elements, count)
        found = _where(found, other, casts(shard))
    return _where(found, wider_work(clock, chosen, elements, count), gives_fp32(shard))


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


def way_work(clock: Clock, chosen: Way, elements: Number, count: Number = 1) -> Passes:
    """The same in a given way."""
    if not chosen.forward and not chosen.backward:
        return Passes(Work(), Work())
    size_B, run = count * elements * clock.element_B * TIMES.get(chosen.rate, 1.0), _rate(clock, chosen.rate)
    sides = zip(way_passes(clock, chosen), chosen.kernels, strict=True)
    return Passes(*(run(passes * size_B, count * kernels) for passes, kernels in sides))


def way_passes(clock: Clock, chosen: Way) -> tuple[float, float]:
    """Passes of a way forward and backward, as long as they take."""
    return _taken(clock, chosen, 0), _taken(clock, chosen, 1)


def _taken(clock: Clock, chosen: Way, side: int) -> float:
    bound, passes = clock.instruction_bound, chosen.passes[side]
    for step in chosen.slower[side]:
        passes += step.passes * (bound(step.times) - 1.0)
    return passes * bound(chosen.slow[side]) * chosen.takes[side]


def _rate(clock: Clock, rate: str) -> Callable[[Number, Number], Work]:
    """The work of so many bytes and kernels."""
    return {"library": clock.elementwise, "torch": clock.operations}.get(rate, clock.stream)
