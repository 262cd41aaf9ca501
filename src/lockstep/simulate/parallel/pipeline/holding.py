"""What a device holds at most where its chunks are not alike: read off the order of its passes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lockstep.simulate.parallel.pipeline.schedule import Order, Schedule


@lru_cache(maxsize=64)
def known_order(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> Order:
    """The order of passes, made once; not to be changed."""
    return schedule.order(stages, microbatches, chunks)


def peak_held(schedule: Schedule, stages: int, microbatches: int, device: int, sizes: Sequence[float]) -> float:
    """The most that `device` holds at once, where chunk c of a micro-batch holds `sizes[c]` from F to B, or to W."""
    most = held = 0.0
    for step, _, chunk in known_order(schedule, stages, microbatches, len(sizes))[device]:
        held += {"F": sizes[chunk], "I": 0.0}.get(step, -sizes[chunk])
        most = max(most, held)
    return most
