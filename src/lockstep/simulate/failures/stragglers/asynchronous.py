"""Asynchronous workers: nobody waits, rates add up, and gradients are old.

    updates per second   sum over i of 1 / t_i             (not 1 / mean t_i: the harmonic mean decides)
    time for n updates   n / sum(1 / t_i) = harmonic mean of the t_i
    delay of worker i    t_i * sum over j != i of 1 / t_j  updates by others between its read and its write
    mean delay           n - 1 exactly, whatever the speeds
t_i seconds per update of worker i, fixed. One update uses one gradient, a synchronous step n of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """Throughput and staleness without any waiting, beside the barrier's."""

    updates_per_s: float
    batch_s: float
    """Seconds for as many updates as there are workers: the harmonic mean of their times."""
    synchronous_s: float
    speedup: float
    delays: tuple[float, ...]
    mean_delay: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def asynchronous(times_s: Sequence[float]) -> Asynchronous:
    """The laws above for workers that take `times_s` per update."""
    times = np.asarray(times_s, dtype=np.float64)
    if not times.size or not ((times > 0) & np.isfinite(times)).all():
        raise BadInput("every worker needs a time above 0 and finite", "times")
    rates = 1 / times
    total = float(rates.sum())
    delays = times * (total - rates)
    return Asynchronous(
        updates_per_s=total,
        batch_s=len(times) / total,
        synchronous_s=float(times.max()),
        speedup=float(times.max()) * total / len(times),
        delays=tuple(delays.tolist()),
        mean_delay=float((delays * rates).sum() / total),
    )
