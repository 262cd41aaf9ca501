"""What a collective costs: the terms on its critical path, the bytes it moves, the seconds it takes.

The machine (Hockney's model with reductions, one port, full duplex):
    message    S bytes take  alpha + S * beta   seconds on the sender's send port and on the receiver's receive port
    reduction  S bytes take  S * gamma          seconds, on the receive port of the rank that reduces
    ports      one send and one receive port per rank, which overlap; `ports` tells when an algorithm needs more
    start      seconds before the first message, once per collective; 0 on most links
Every closed form here is  time = start + steps * alpha + critical_B * beta + reduced_B * gamma,  and equals the event
simulation of the algorithm's program exactly.

Source: R. Hockney, "The communication challenge for MPP", Parallel Computing 20 (1994); R. Thakur, R. Rabenseifner,
W. Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19 (2005), section 3.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lockstep.base.records import dataclass, fields
from lockstep.base.types.arrays import Array, Floats, Number
from lockstep.base.types.plain import Json, picked


class LinkLike(Protocol):
    """Anything with a latency and a rate; `reduce_s_per_B` (seconds per reduced byte) is 0 when it has none."""

    @property
    def latency_s(self) -> Number: ...

    @property
    def bandwidth_Bps(self) -> Number: ...


class SwitchLike(Protocol):
    """A switch behind a link (`collectives.switching`): seconds per message and before the first, share of the link's
    rate (may be above 1), whether a sum goes to one rank for everyone, least bytes of a rank's share of a segment."""

    @property
    def latency_s(self) -> float: ...

    @property
    def achieved_frac(self) -> float: ...

    @property
    def start_s(self) -> float: ...

    @property
    def to_owner(self) -> bool: ...

    @property
    def piece_B(self) -> float: ...


class RatesLike(Protocol):
    """The rate of a link by collective, where what a rank copies itself takes time; None for that of the link."""

    def of(self, op: str) -> Number | None: ...


@dataclass(frozen=True, slots=True)
class PlainLink:
    """alpha, 1/beta, gamma and start as numbers or arrays."""

    latency_s: Number
    bandwidth_Bps: Number
    reduce_s_per_B: Number = 0.0
    switch: SwitchLike | None = None
    """None for one that neither reduces nor copies."""
    start_s: float = 0.0
    """Before the first message of a collective."""
    rates: RatesLike | None = None
    """By collective, among as many ranks as the group has; None where all have the link's."""


@dataclass(frozen=True, slots=True)
class SwitchedLink:
    """A link as collectives in its switch use it."""

    latency_s: Number
    bandwidth_Bps: Number
    start_s: float
    to_owner: bool
    piece_B: float = 0.0


def used_by(op: str, link: LinkLike) -> LinkLike:
    """The link at the rate that its ranks reach in one collective; itself where that is the link's."""
    rate_Bps = link.rates.of(op) if isinstance(link, PlainLink) and link.rates is not None else None
    if rate_Bps is None or not isinstance(link, PlainLink):
        return link
    return PlainLink(link.latency_s, rate_Bps, link.reduce_s_per_B, None, link.start_s)


@dataclass(frozen=True, slots=True)
class Terms:
    """Critical path of a collective: `steps` latencies, `critical_B` bytes and `reduced_B` reduced bytes in series."""

    steps: Number
    critical_B: Number
    reduced_B: Number = 0.0

    def __add__(self, other: Terms) -> Terms:
        return Terms(self.steps + other.steps, self.critical_B + other.critical_B, self.reduced_B + other.reduced_B)

    def time_s(self, link: LinkLike) -> Number:
        """Seconds: start + steps * alpha + critical_B * beta + reduced_B * gamma; no steps take none."""
        time_s = self.steps * link.latency_s + self.critical_B / link.bandwidth_Bps
        if start_s := getattr(link, "start_s", 0.0):
            time_s = time_s + start_s * (np.asarray(self.steps) > 0)
        gamma = getattr(link, "reduce_s_per_B", 0.0)
        return time_s if isinstance(gamma, float) and gamma == 0.0 else time_s + self.reduced_B * gamma


@dataclass(frozen=True, slots=True)
class Counts:
    """What all ranks together do: `messages`, `total_B` bytes sent, `total_reduced_B` bytes reduced.

    Switches that reduce count too; of the bytes they send `switch_B`.
    """

    messages: Number
    total_B: Number
    total_reduced_B: Number = 0.0
    switch_B: Number = 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.messages + other.messages,
            self.total_B + other.total_B,
            self.total_reduced_B + other.total_reduced_B,
            self.switch_B + other.switch_B,
        )

    def times(self, groups: Number) -> Counts:
        """The same collective in `groups` groups at once."""
        reduced_B, switch_B = self.total_reduced_B * groups, self.switch_B * groups
        return Counts(self.messages * groups, self.total_B * groups, reduced_B, switch_B)


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of one collective, or of several one after another (`+`). Fields are numbers or arrays.

    `latency_steps`, `critical_B` and `critical_reduced_B` lie on the critical path; `messages`, `total_B` and
    `total_reduced_B` count all ranks, and switches that reduce; `bytes_sent_per_rank_B` is the mean over ranks alone,
    `lower_bound_s` no algorithm beats.
    """

    time_s: Number = 0.0
    latency_steps: Number = 0.0
    critical_B: Number = 0.0
    critical_reduced_B: Number = 0.0
    messages: Number = 0.0
    total_B: Number = 0.0
    total_reduced_B: Number = 0.0
    bytes_sent_per_rank_B: Number = 0.0
    lower_bound_s: Number = 0.0
    algorithm: str | Array = ""

    def __add__(self, other: Cost) -> Cost:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "algorithm"}
        return Cost(**sums, algorithm=_joined(self.algorithm, other.algorithm))

    def to_dict(self) -> Json:
        """Plain JSON form; arrays become lists."""
        return picked(self)


def _joined(one: str | Array, other: str | Array) -> str | Array:
    if isinstance(one, str) and isinstance(other, str):
        return " + ".join(name for name in (one, other) if name)
    return np.char.add(np.char.add(np.asarray(one), " + "), np.asarray(other))


def as_float(value: Number) -> Floats | float:
    """One number [] as float, anything else as a float array [...]."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
