"""`Piece`: a part of a pass in which traffic waits for kernels, runs beside them, or keeps them waiting.

    before   traffic that the kernels wait for
    beside   traffic that starts when the kernels start; what follows waits for both
    after    traffic that starts when both have ended

    exposed = before + max(0, beside - kernels) + after       seconds by which traffic lengthens the pass
    hidden  = traffic - exposed                                seconds of traffic that nobody waits for
    slack   = max(0, kernels - beside)                         how much more traffic those kernels would hide

The kinds of parallelism describe their traffic in pieces and do nothing else: how the pieces of a pass follow one
another is the same for all. The same pieces are priced over grids of layouts (`exposed_s`, arrays) and written out as
operations on lanes (`lanes`). A pass of n equal layers is the pieces of one layer times n, as every formula here is
linear in the seconds.

Traffic that takes a share d of the device from the kernels beside it (`slowing`) is a piece whose kernels are only
those that it lets through,  min(kernels, (1 - d) beside),  so that  max(beside - kernels, d beside)  is exposed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of traffic: a collective, or messages, of a group."""

    op: str
    """The collective, or `send`."""
    group: str
    """The group's name on the rank grid: tp, cp, ep, dp, shard, host, ..."""
    size_B: Number
    seconds: Number

    def __mul__(self, share: Number) -> Flow:
        return Flow(self.op, self.group, self.size_B * share, self.seconds * share)


def total_s(flows: Iterable[Flow]) -> Number:
    """Seconds of flows one after another."""
    seconds = [flow.seconds for flow in flows]
    return reduce(add, seconds) if seconds else 0.0


def slowing(pieces: Iterable[Piece], device_frac: float) -> tuple[Piece, ...]:
    """The same pieces where traffic takes `device_frac` of the device from the kernels beside it."""
    if not device_frac:
        return tuple(pieces)
    return tuple(
        replace(one, kernels_s=np.minimum(one.kernels_s, (1.0 - device_frac) * total_s(one.beside)))
        if one.beside
        else one
        for one in pieces
    )


@dataclass(frozen=True, slots=True)
class Hiding:
    """Seconds of traffic that hide, and that the same kernels would hide besides; adds up."""

    hidden_s: Number = 0.0
    slack_s: Number = 0.0

    def __add__(self, other: Hiding) -> Hiding:
        return Hiding(self.hidden_s + other.hidden_s, self.slack_s + other.slack_s)


@dataclass(frozen=True, slots=True)
class Piece:
    """Traffic of one kind and the kernels beside it."""

    part: str
    """Which part of a step its exposed seconds are: tp, cp, ep, pp, dp or host."""
    kernels_s: Number = 0.0
    before: tuple[Flow, ...] = ()
    beside: tuple[Flow, ...] = ()
    after: tuple[Flow, ...] = ()

    def __mul__(self, count: Number) -> Piece:
        before, beside, after = (
            tuple(one * count for one in flows) for flows in (self.before, self.beside, self.after)
        )
        return Piece(self.part, self.kernels_s * count, before, beside, after)

    def only(self, op: str) -> Piece:
        """The same without other collectives than `op`."""
        before, beside, after = (
            tuple(one for one in flows if one.op == op) for flows in (self.before, self.beside, self.after)
        )
        return replace(self, before=before, beside=beside, after=after)

    def part_of(self, ops: tuple[str, ...], share: Number) -> Piece:
        """The same with a share of the collectives `ops`, and of the kernels where nothing else runs beside these."""
        before, beside, after = (
            tuple(one * share if one.op in ops else one for one in flows)
            for flows in (self.before, self.beside, self.after)
        )
        alone = self.beside and all(one.op in ops for one in self.beside)
        return Piece(self.part, self.kernels_s * (share if alone else 1.0), before, beside, after)

    @property
    def plain(self) -> Piece:
        """The same of one layout: plain numbers, without traffic that takes no time."""
        before, beside, after = (
            tuple(Flow(one.op, one.group, float(one.size_B), float(one.seconds)) for one in flows if one.seconds > 0)
            for flows in (self.before, self.beside, self.after)
        )
        return Piece(self.part, float(self.kernels_s), before, beside, after)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """All traffic, in order."""
        return self.before + self.beside + self.after

    @property
    def exposed_s(self) -> Number:
        """Seconds by which the traffic lengthens the pass."""
        alone = self.before + self.after
        if not self.beside:
            return total_s(alone)
        left_s = np.maximum(0.0, total_s(self.beside) - self.kernels_s)
        return left_s + total_s(alone) if alone else left_s

    @property
    def hidden_s(self) -> Number:
        """Seconds of traffic that run beside kernels."""
        return np.minimum(total_s(self.beside), self.kernels_s) if self.beside else 0.0

    @property
    def slack_s(self) -> Number:
        """Seconds of traffic that the same kernels would hide besides."""
        return np.maximum(0.0, self.kernels_s - total_s(self.beside)) if self.beside else 0.0
