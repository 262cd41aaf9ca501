"""A group of ranks: seconds of its collectives and messages, and the links that it shares with others.

A group is a list of levels, innermost first: (ranks, latency_s, bandwidth_Bps of one rank, reduce_s_per_B, switch,
start_s, rates), where `ranks` says how many children of the level the group spans (`Cluster.group_levels`). Everything
broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number, Truth, Whole
from lockstep.simulate.collectives import LinkLike, PlainLink, best_on_levels_time_s, get, times_on_levels
from lockstep.simulate.collectives.levels import Levels as Levels


def on_link(ranks: Whole, link: LinkLike) -> Levels:
    """The group of ranks that share one link."""
    gamma, start_s = (getattr(link, name, 0.0) for name in ("reduce_s_per_B", "start_s"))
    switch, rates = (getattr(link, name, None) for name in ("switch", "rates"))
    return ((ranks, link.latency_s, link.bandwidth_Bps, gamma, switch, start_s, rates),)


def collective_s(op: str, group: Levels, size_B: Number, algorithm: str = "") -> Number:
    """Seconds of `op` on a buffer of `size_B`, by the way across the levels that is fastest at that size.

    A named algorithm is a way across levels, or any at all for consecutive ranks within the first level spanned.
    """
    if not algorithm:
        return best_on_levels_time_s(op, group, size_B)
    (ranks, *link), *beyond = [level for level in group if np.any(np.asarray(level[0]) > 1)] or group[:1]
    none: Truth = np.False_
    wide = reduce(np.logical_or, (level[0] > 1 for level in beyond), none)
    alone_s = 0.0 if np.all(wide) else get(op, algorithm).price_time_s(ranks, size_B, PlainLink(*link))
    across_s = times_on_levels(op, group, size_B, [algorithm])[algorithm] if np.any(wide) else 0.0
    return np.where(wide, across_s, alone_s)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Collectives of one group, all by one `algorithm`; by the fastest where it is empty."""

    group: Levels
    algorithm: str = ""

    @property
    def ranks(self) -> int:
        """Members of the group."""
        return math.prod(int(level[0]) for level in self.group)

    def time_s(self, op: str, size_B: Number) -> Number:
        """Seconds of one collective of `size_B` bytes (in the definition of nccl-tests); nothing to send takes none."""
        return np.where(np.asarray(size_B) > 0, collective_s(op, self.group, size_B, self.algorithm), 0.0)


def send_s(group: Levels, size_B: Number) -> Number:
    """Seconds of a message of `size_B` to the next rank of the group, at the outermost level that it spans."""
    seconds: Number = 0.0
    for ranks, latency_s, bandwidth_Bps, *_ in group:
        seconds = np.where(ranks > 1, latency_s + size_B / bandwidth_Bps, seconds)
    return seconds


def inner(group: Levels, ranks: Whole) -> Levels:
    """The `ranks` innermost members of the group."""
    found: list[tuple[object, ...]] = []
    for here, *link in group:
        taken = np.gcd(ranks, here)
        found.append((taken, *link))
        ranks = ranks // taken
    return found


def outer(group: Levels, inside: Levels) -> Levels:
    """One member each of the parts that `inside` divides the group into."""
    return [(whole[0] // part[0], *whole[1:]) for whole, part in zip(group, inside, strict=True)]


def share_links(one: Levels, other: Levels) -> Truth:
    """Whether two groups use links of the same level."""
    found: Truth = reduce(np.logical_or, ((a[0] > 1) & (b[0] > 1) for a, b in zip(one, other, strict=True)))
    return found


def shared_s_per_B(group: Levels, others: Sequence[Levels]) -> Number:
    """Seconds per byte that a gather or scatter of the group spends on levels which any of `others` uses too."""
    seconds: Number = 0.0
    inside: Whole = 1
    for level, (ranks, _, bandwidth_Bps, *_) in enumerate(group):
        met = reduce(np.logical_or, (other[level][0] > 1 for other in others))
        seconds = seconds + np.where(met, (ranks - 1) / ranks / inside / bandwidth_Bps, 0.0)
        inside = inside * ranks
    return seconds
