"""Sums of floating-point numbers: one after the other, in pairs, compensated, and the same bits in any order.

    one by one    s <- s + x                                error <= (n - 1) u sum|x|           1 addition a term
    pairs         halves are summed alone, then added       error <= log2(n) u sum|x|           1
    Kahan         y = x - c; t = s + y; c = (t - s) - y     error <= 2 u sum|x| + O(n u^2)      4
    Neumaier      as Kahan, whichever is larger first       the same, also where x > s          6 and a comparison
    reproducible  x cut on fixed grids, each summed exactly error <= n grid_K / 2               4 a fold, and a maximum
u: unit roundoff. Kahan loses what s itself loses when a larger term comes: 1, 1e100, 1, -1e100 sums to 0, Neumaier to
2.

Reproducible: grid_1 = 2^(ceil(log2(n M)) + 2 - p), M the largest magnitude of all terms of all ranks; the multiples
of it nearest to the terms add without rounding, in any order. The rests, at most grid_1 / 2, are cut on the next
grid. Over ranks this costs an all-reduce of one maximum and an all-reduce of `folds` values for one.

Sources: Kahan, CACM 8 (1965); Neumaier, ZAMM 54 (1974); Higham, "Accuracy and Stability of Numerical Algorithms",
chapter 4 (bounds); Demmel, Nguyen, "Fast reproducible floating-point summation", ARITH 2013; Rump, Ogita, Oishi,
"Accurate floating-point summation", 2008 (cutting by adding a large number).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lockstep.learn.methods.arrays import Array, ieee, namespace

FOLDS = 3
"""Each keeps 22 - log2(n) bits of fp32: three are more than fp32 has, up to ten thousand terms."""


@ieee
def one_by_one(terms: Sequence[Array]) -> Array:
    """The sum [...] of `terms`, each [...], in the order given."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@ieee
def in_pairs(terms: Sequence[Array]) -> Array:
    """The sum [...] of `terms`, each [...]: that of the sums of both halves."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return in_pairs(terms[:middle]) + in_pairs(terms[middle:])


@ieee
def kahan(terms: Sequence[Array]) -> Array:
    """The sum [...] of `terms`, each [...], carrying the rounding error of each addition into the next."""
    total = terms[0]
    lost = total - total
    for term in terms[1:]:
        corrected = term - lost
        longer = total + corrected
        lost = (longer - total) - corrected
        total = longer
    return total


@ieee
def neumaier(terms: Sequence[Array]) -> Array:
    """The sum [...] of `terms`, each [...], with all rounding errors added at the end."""
    total = terms[0]
    lost = total - total
    library = namespace(total)
    for term in terms[1:]:
        longer = total + term
        larger = library.abs(total) >= library.abs(term)
        lost = lost + library.where(larger, (total - longer) + term, (term - longer) + total)
        total = longer
    return total + lost


def grids(largest: float, count: int, precision_bits: int, folds: int = FOLDS) -> tuple[float, ...]:
    """Spacings of the grids for `count` terms no larger than `largest`, coarse to fine."""
    found: list[float] = []
    size = largest
    for _ in range(folds):
        found.append(_spacing(count * size, precision_bits))
        size = found[-1] / 2
    return tuple(found)


def _spacing(reach: float, precision_bits: int) -> float:
    """Of the grid for sums up to `reach`; infinite, so that shares are NaN, where there is no largest term."""
    if not math.isfinite(reach):
        return math.inf
    return 2.0 ** (math.ceil(math.log2(reach)) + 2 - precision_bits) if reach > 0 else 0.0


@ieee
def parts(vector: Array, spacings: Sequence[float], precision_bits: int) -> tuple[Array, ...]:
    """The shares of `vector` [...] on every grid, each [...], whose sums over ranks are exact in any order."""
    found = []
    for spacing in spacings:
        # In the binade of this number the format's own spacing is the grid's, so the addition rounds to it.
        large = 1.5 * 2.0 ** (precision_bits - 1) * spacing
        share = (vector + large) - large
        found.append(share)
        vector = vector - share
    return tuple(found)


@ieee
def reproducible(terms: Sequence[Array], precision_bits: int = 24, folds: int = FOLDS) -> Array:
    """The sum [...] of `terms`, each [...]: same bits in any order of terms; all NaN if one of them is not finite."""
    library = namespace(terms[0])
    largest = float(np.max([float(library.abs(term).max()) for term in terms]))
    spacings = grids(largest, len(terms), precision_bits, folds)
    cut = [parts(term, spacings, precision_bits) for term in terms]
    return one_by_one([one_by_one(column) for column in zip(*cut, strict=True)])


SUMS: dict[str, Callable[[Sequence[Array]], Array]] = {
    "sequential": one_by_one,
    "pairwise": in_pairs,
    "Kahan": kahan,
    "Neumaier": neumaier,
    "reproducible": reproducible,
}
ADDITIONS_PER_TERM: dict[str, float] = {
    "sequential": 1, "pairwise": 1, "Kahan": 4, "Neumaier": 6, "reproducible": 4 * FOLDS,
}  # fmt: skip
"""Additions and subtractions, counted in the code above; comparisons and the maximum come on top."""
