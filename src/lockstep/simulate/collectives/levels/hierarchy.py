"""`Hierarchy`: the levels a group spans, as the network that its programs are simulated on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Number
from lockstep.simulate.collectives.cost import Counts, LinkLike, PlainLink

if TYPE_CHECKING:
    from lockstep.simulate.program import Program

Levels: TypeAlias = Sequence[tuple[Any, ...]]
"""(ranks, latency_s, bandwidth_Bps[, reduce_s_per_B[, switch[, start_s[, rates]]]]) per level, innermost first."""
Price: TypeAlias = Callable[[str, Sequence[Number], Sequence[LinkLike], Number], Number]
"""(op, ranks per level, link per level, size_B) -> seconds."""
Work: TypeAlias = Callable[[str, Sequence[int], Sequence[LinkLike], float], float]
"""The same arguments -> a forecast of that program's operations, with what its rounds cost as operations."""
Write: TypeAlias = Callable[[str, Sequence[int], Sequence[LinkLike], float], "Program"]
"""The same arguments -> the program that takes them."""
Count: TypeAlias = Callable[[str, Sequence[int], Sequence[LinkLike], float], "Sent"]
"""The same arguments -> what that program sends, by a closed form."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way across levels: its closed form, its program, forecast of the program's size, counts of its messages."""

    price: Price
    program: Write
    work: Work
    count: Count
    formula: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Latencies in series, and what all ranks together send over each level, innermost first."""

    latency_steps: Number
    over: tuple[Counts, ...]

    @property
    def total(self) -> Counts:
        """Over all levels."""
        return sum(self.over, start=Counts(0.0, 0.0))

    def beyond_B(self, sizes: Sequence[int], unit: int) -> float:
        """Bytes between units of `unit` consecutive ranks, which some levels fill."""
        beyond = [below >= unit for below in units_below(sizes)]
        return float(sum(each.total_B for each in compress(self.over, beyond)))


@dataclass(frozen=True, eq=False, slots=True)
class Hierarchy:
    """Two ranks talk over the link of the innermost level whose unit holds both.

    `sharing`: messages that a rank's port of each level carries at once, each at an equal share of its rate.
    `reductions`: reductions that a rank runs at once; they share its adder, and end together.
    """

    sizes: tuple[int, ...]
    links: tuple[LinkLike, ...]
    sharing: tuple[int, ...]
    reductions: int = 1

    def link_between(self, first: Array, second: Array) -> PlainLink:
        """Latency, rate and time to reduce a byte [pairs] of each pair of ranks `first` and `second` [pairs]."""
        level = np.zeros(np.shape(first), dtype=np.int64)
        for unit in units_below(self.sizes)[1:]:
            level += first // unit != second // unit
        latency_s = np.array([link.latency_s for link in self.links], dtype=np.float64)
        rate_Bps = np.array([link.bandwidth_Bps for link in self.links], dtype=np.float64) / self.sharing
        reduce_s_per_B = np.array([gamma(link) for link in self.links], dtype=np.float64)
        return PlainLink(latency_s[level], rate_Bps[level], reduce_s_per_B[level])


def product(ranks: Sequence[Number]) -> Number:
    """Ranks in a unit of all these levels."""
    total: Number = 1.0
    for size in ranks:
        total = total * size
    return total


def units_below(sizes: Sequence[int]) -> list[int]:
    """Ranks in one unit below each level: 1, r_0, r_0 r_1, ..."""
    return [int(product(sizes[:level])) for level in range(len(sizes))]


def places(sizes: Sequence[int]) -> Array:
    """[level, rank]: which child of its unit of the level above a rank belongs to."""
    index = np.arange(int(product(sizes)))
    return np.stack([index // below % size for below, size in zip(units_below(sizes), sizes, strict=True)])


def start_s(ranks: Sequence[Number], links: Sequence[LinkLike]) -> Number:
    """Seconds before the first message of a collective over all levels at once: as the outermost one spanned has it."""
    found: Number = 0.0
    for size, link in zip(ranks, links, strict=True):
        found = np.where(np.asarray(size) > 1, getattr(link, "start_s", 0.0), found)
    return found


def gamma(link: LinkLike) -> Number:
    """Seconds per reduced byte; 0 for a link that does not say."""
    return getattr(link, "reduce_s_per_B", 0.0)
