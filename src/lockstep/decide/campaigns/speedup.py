"""Speed-up of n workers: the laws of Amdahl and Gustafson, and the exact curve of a step that talks.

    Amdahl        S(n) = 1 / (s + (1 - s) / n)          the same problem; s: serial share of one worker's time
    Gustafson     S(n) = n - s (n - 1)                  n times the problem; s: serial share of the parallel time
    Karp-Flatt    s(n) = (1 / S - 1 / n) / (1 - 1 / n)  the serial share that a measured S looks like
    exact         S(n) = T / (s T + (1 - s) T / n + C(n))
T: one worker's step, which talks to nobody; C(n): the exchange of n workers, by the closed form of its collective. C
grows with n, so the exact curve has a best n and falls behind it, where Amdahl's only flattens:

    ring, latency alpha, b = S / bandwidth    n* = sqrt(((1 - s) T - 2 b) / (2 alpha))
    parameter server on one link              n* = sqrt((1 - s) T / (2 (alpha + b)))
With a constant exchange, and a single worker that pays it too, the curve is Amdahl's with s = rho / (1 + rho), rho =
C / T: a lower bound of what is printed as an upper bound in places ("S <= n / (1 + (n - 1) rho)").

Source: G. M. Amdahl, AFIPS 1967; J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31, 1988; A. H. Karp and H. P.
Flatt, "Measuring parallel processor performance", CACM 33, 1990.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Whole
from lockstep.base.types.plain import Json
from lockstep.base.types.shown import Shown
from lockstep.describe.hardware import Cluster
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.parallel.group import Levels, collective_s, on_link

MOST_WORKERS = 1_000_000
SERVER = "parameter-server"


def amdahl(workers: ArrayLike, serial_frac: ArrayLike) -> Array:
    """Speed-up on the same problem. Broadcasts."""
    serial = np.asarray(serial_frac, dtype=np.float64)
    return np.asarray(1 / (serial + (1 - serial) / np.asarray(workers, dtype=np.float64)))


def gustafson(workers: ArrayLike, serial_frac: ArrayLike) -> Array:
    """Speed-up on a problem that grows with the workers. Broadcasts."""
    number = np.asarray(workers, dtype=np.float64)
    return np.asarray(number - np.asarray(serial_frac) * (number - 1))


def karp_flatt(workers: ArrayLike, speedup: ArrayLike) -> Array:
    """Serial share that would give this speed-up by Amdahl's law, for more than one worker. Broadcasts."""
    share = 1 / np.asarray(workers, dtype=np.float64)
    return np.asarray((1 / np.asarray(speedup, dtype=np.float64) - share) / (1 - share))


@dataclass(frozen=True, slots=True, repr=False)
class SpeedUp(Shown):
    """A data-parallel step on up to `most_workers` workers."""

    compute_s: float
    """One worker's step."""
    size_B: float
    """Exchanged every step."""
    network: PlainLink | Cluster
    """One link, or the levels of a cluster, of which workers fill whole units."""
    exchange: str | None = "ring"
    """An all-reduce algorithm, or parameter-server; None is the fastest way across the levels."""
    serial_frac: float = 0.0
    most_workers: int = 4096
    alone_pays: bool = False
    """Whether the single worker that is compared with pays for the same exchange as the workers together."""

    def __post_init__(self) -> None:
        if not self.compute_s > 0:
            raise BadInput("must be above 0", "compute")
        if not 0 <= self.serial_frac <= 1:
            raise BadInput(f"must be from 0 to 1, got {self.serial_frac:g}", "serial")
        if not 1 <= self.most_workers <= MOST_WORKERS:
            raise BadInput(f"must be 1 to {MOST_WORKERS:,}, got {self.most_workers}", "workers")
        if isinstance(self.network, Cluster) and self.most_workers > self.network.num_devices:
            on = f"{self.most_workers} workers on the {self.network.num_devices} devices of {self.network.name}"
            raise BadInput(f"{on}; use more nodes", "workers")

    @property
    def collective(self) -> tuple[str, str]:
        """The exchange as a collective and its algorithm, which is empty for the fastest."""
        return (SERVER, "synchronous") if self.exchange == SERVER else ("all-reduce", self.exchange or "")

    def time_s(self, workers: ArrayLike) -> Array:
        """Seconds of a step on so many workers. Broadcasts."""
        number = np.asarray(workers, dtype=np.float64)
        serial_s = self.serial_frac * self.compute_s
        return np.asarray(serial_s + (self.compute_s - serial_s) / number + self._exchange_s(number))

    def speedup(self, workers: ArrayLike) -> Array:
        """One worker's time over that of `workers`. Broadcasts."""
        number = np.asarray(workers, dtype=np.float64)
        alone_s = self.compute_s + (self._exchange_s(number) if self.alone_pays else 0.0)
        return np.asarray(alone_s / self.time_s(number))

    @property
    def tried(self) -> Array:
        """Numbers of workers up to the most; on a cluster those that fill whole units of its levels."""
        number = np.arange(1, self.most_workers + 1)
        return np.asarray(number[number == _members(self._group(number))])

    @property
    def best_workers(self) -> int:
        """The number of workers with the shortest step, the smallest of equals."""
        return int(self.tried[np.argmin(self.time_s(self.tried))])

    def workers_at(self, efficiency_frac: float) -> int:
        """The most workers, of those tried, that are used to this share of their time."""
        number = self.tried
        enough = self.speedup(number) / number >= efficiency_frac
        return int(number[enough][-1])

    def to_dict(self) -> Json:
        """Plain JSON form: rows at powers of two, the best number and the end."""
        best = self.best_workers
        return {
            "best_workers": best,
            "best_speedup": float(self.speedup(best)),
            "best_time_s": float(self.time_s(best)),
            "half_efficiency_workers": self.workers_at(0.5),
            "exchange": self.exchange,
            "rows": [self.row(number) for number in self.numbers()],
        }

    def numbers(self) -> list[int]:
        """Powers of two or the next number that is tried, the most, and the best number."""
        tried = self.tried
        powers = [2**power for power in range(int(tried[-1]).bit_length())]
        return sorted({*tried[np.searchsorted(tried, powers)].tolist(), int(tried[-1]), self.best_workers})

    def row(self, workers: int) -> dict[str, float]:
        """One number of workers beside the laws."""
        speedup = float(self.speedup(workers))
        return {
            "workers": workers,
            "time_s": float(self.time_s(workers)),
            "speedup": speedup,
            "efficiency_frac": speedup / workers,
            "amdahl": float(amdahl(workers, self.serial_frac)),
            "gustafson": float(gustafson(workers, self.serial_frac)),
            "karp_flatt_frac": float(karp_flatt(workers, speedup)) if workers > 1 else 0.0,
        }

    def _exchange_s(self, workers: Array) -> Array:
        (op, name), group = self.collective, self._group(workers)
        if isinstance(self.network, Cluster) and (apart := workers[workers != _members(group)]).size:
            raise BadInput(f"{apart[0]:g} workers do not fill whole units of {self.network.name}'s levels", "workers")
        return np.where(workers > 1, collective_s(op, group, self.size_B, name), 0.0)

    def _group(self, workers: Array) -> Levels:
        return self.network.levels_of(workers) if isinstance(self.network, Cluster) else on_link(workers, self.network)


def _members(group: Levels) -> Whole:
    found: Whole = prod(level[0] for level in group)
    return found
