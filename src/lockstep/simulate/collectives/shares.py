"""How a buffer is cut into shares, and whole-number logarithms of the number of ranks. All functions broadcast.

A buffer of N elements cut in n shares gives the first N mod n shares one element more than the rest. With `element_B =
0` (the default everywhere) the buffer is a fluid: every share is exactly size_B / n, the textbook formula. With
`element_B = 4` shares are whole 4-byte elements and the largest one, ceil(N / n), sets the pace.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number


def floor_log2(count: Number) -> Number:
    """Largest k with 2^k <= count, for count >= 1; exact."""
    found: Number = np.frexp(count)[1] - 1
    return found


def ceil_log2(count: Number) -> Number:
    """Smallest k with 2^k >= count, for count >= 1; exact."""
    mantissa, exponent = np.frexp(count)
    found: Number = exponent - (mantissa == 0.5)
    return found


def power_of_two_core(ranks: Number) -> tuple[Number, Number]:
    """(core, extra): the largest power of two <= ranks, and how many ranks are folded into it."""
    core = np.ldexp(1.0, floor_log2(ranks))
    return core, ranks - core


def sum_min_powers(exponents: Number, cap: Number) -> Number:
    """Sum of min(2^s, cap) for s = 0 .. exponents - 1, for whole cap >= 0."""
    below = np.minimum(np.where(cap >= 1, floor_log2(np.maximum(cap, 1)) + 1, 0), exponents)
    total: Number = np.ldexp(1.0, below) - 1 + (exponents - below) * cap
    return total


@dataclass(frozen=True, slots=True)
class Split:
    """Rule of cutting: shares of whole elements of `element_B` bytes, or exact shares when it is 0."""

    element_B: float = 0.0

    def elements(self, size_B: Number) -> Number:
        """Number of elements; raises BadInput when the size is not a whole number of them."""
        count = np.rint(np.asarray(size_B) / self.element_B)
        if np.any(np.abs(count * self.element_B - size_B) > 1e-9 * np.maximum(np.abs(size_B), 1.0)):
            raise BadInput(f"size {size_B} B is not a whole number of {self.element_B} B elements")
        return count

    def largest_B(self, size_B: Number, parts: Number) -> Number:
        """Bytes of the largest of `parts` shares."""
        if self.element_B == 0.0:
            return size_B / parts
        return np.ceil(self.elements(size_B) / parts) * self.element_B

    def deal(self, size_B: Number, parts: Number) -> tuple[Number, Number]:
        """(bytes of a smaller share, how many of the `parts` shares have one element more)."""
        if self.element_B == 0.0:
            return size_B / parts, 0.0 * parts
        num_elems = self.elements(size_B)
        each = np.floor(num_elems / parts)
        return each * self.element_B, num_elems - each * parts

    def leading_B(self, size_B: Number, parts: Number, count: Number) -> Number:
        """Bytes of the first `count` of `parts` shares together."""
        if self.element_B == 0.0:
            return size_B * (count / parts)
        num_elems = self.elements(size_B)
        each = np.floor(num_elems / parts)
        return (count * each + np.minimum(count, num_elems - each * parts)) * self.element_B

    def doubling_B(self, size_B: Number, ranks: Number) -> Number:
        """Bytes in series of doubling over a power of two of ranks: sum over s of the first 2^s shares."""
        if self.element_B == 0.0:
            return size_B * ((ranks - 1) / ranks)
        num_elems = self.elements(size_B)
        each = np.floor(num_elems / ranks)
        larger = num_elems - each * ranks
        return ((ranks - 1) * each + sum_min_powers(floor_log2(ranks), larger)) * self.element_B


FLUID = Split()


def square_divisor(ranks: Number) -> Number:
    """Largest divisor of the number of ranks that is at most its square root."""
    distinct, place = np.unique(np.asarray(ranks, dtype=np.float64), return_inverse=True)
    best = np.ones_like(distinct)
    for divisor in range(2, int(np.sqrt(distinct.max(initial=1.0))) + 1):
        best[(distinct % divisor == 0) & (distinct >= divisor * divisor)] = divisor
    return best[place].reshape(np.shape(ranks)) if np.ndim(ranks) else float(best[0])


def whole_choice(name: str, value: Number) -> Number:
    """`value`, checked to be whole and at least 1; raises BadInput that names the choice."""
    if np.any(np.asarray(value) < 1) or np.any(np.asarray(value) != np.floor(value)):
        raise BadInput(f"{name} = {value}: it must be a whole number, at least 1", name)
    return value


def whole_nodes(ranks: Number, node_ranks: Number) -> Number:
    """`node_ranks`, checked to divide the ranks; raises BadInput with what would."""
    bad = (np.asarray(node_ranks) < 1) | (np.asarray(ranks) % np.maximum(node_ranks, 1) != 0)
    if np.any(bad):
        total = int(np.broadcast_to(ranks, bad.shape)[bad].flat[0])
        given = int(np.broadcast_to(node_ranks, bad.shape)[bad].flat[0])
        fitting = ", ".join(str(d) for d in range(1, min(total, 4096) + 1) if total % d == 0)
        raise BadInput(f"node_ranks = {given} does not divide {total} ranks; try one of {fitting}", "node_ranks")
    return node_ranks
