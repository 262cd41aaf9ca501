"""How to sum n numbers: error and cost of five ways, and whether the order of the terms changes a bit.

    one by one   |error| <= (n - 1) u sum|x|      grows like n^(1/2) in practice        1 addition a term
    in pairs     |error| <= log2(n) u sum|x|                                            1
    Kahan, Neumaier   |error| <= 2 u sum|x|       whatever n is                         4, 6
    reproducible the same bits in every order     |error| <= n grid / 2 + 2 u |sum|     4 per fold and one maximum
u: unit roundoff of fp32. Refuted beside it: that 1e30 + 1 - 1e30 shows the order (both orders give 0; 1e30 - 1e30 + 1
gives 1 and 0), a gap of 5e30 between two orders, that compensation makes a sum reproducible, that Kahan always helps
(1, 1e100, 1, -1e100 gives 0 for 2).

Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, chapter 4; Demmel and Nguyen 2013.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.learn.lab import ALWAYS, Check, Curve, Findings, Law, Picture, Progress, example, watched, when
from lockstep.learn.lab.statistics import streams
from lockstep.learn.methods.number_format import number_format
from lockstep.learn.methods.summation import ADDITIONS_PER_TERM, FOLDS, SUMS, grids, kahan, neumaier, one_by_one

QUESTION = "How should many numbers be summed, and does the order change the result?"
SOURCE = "Higham 2002, chapter 4; Demmel and Nguyen 2013"

SINGLE = number_format("fp32")
U = SINGLE.unit_roundoff


@dataclass(frozen=True, slots=True)
class Settings:
    """How many terms, and how many sums of them."""

    terms: tuple[int, ...] = setting((10, 100, 1000, 10_000), "Numbers of terms in a sum.", least=2, most=1_000_000)
    sums: int = setting(30, "Number of independent sums.", least=10, most=10_000)
    orders: int = setting(20, "Number of random orders of the same terms.", least=2, most=1000)


def run(settings: Settings, seed: int, progress: Progress) -> Findings:
    """Errors over the number of terms, then the orders."""
    counts = sorted(settings.terms)
    rows: list[Json] = []
    checks: list[Check] = []
    for place, count in enumerate(watched(counts, progress, more=1)):
        found, made = _measured(count, settings, seed + place)
        rows += found
        checks += made
    patterns = _patterns(settings, seed, terms=1000)
    progress(len(counts) + 1, len(counts) + 1)
    return Findings(
        checks=(*checks, *_order_checks(patterns, settings.orders), *_classics()),
        theory=(
            Law("bound, sequential, per term", U, "(n - 1) u", "Higham 2002, 4.4"),
            Law("bound, compensated", 2 * U, "2 u", "Higham 2002, 4.8"),
            *(Law(f"additions per term, {name}", cost, "counted", "learn/methods/summation.py")
              for name, cost in ADDITIONS_PER_TERM.items()),
        ),
        rows=tuple(row for row in rows if row["terms"] == counts[-1]),
        curves=tuple(_curves(rows, counts)),
        picture=Picture("terms", "error_in_unit_roundoffs", log_x=True, log_y=True),
        conclusion=f"{settings.orders} orders of the same terms give {patterns['sequential']} different sums when "
                   "added sequentially, "
        f"{patterns['Neumaier']} when compensated and {patterns['reproducible']} with the reproducible sum, at "
        f"{4 * FOLDS} additions per term",
        assumptions=("standard normal terms in fp32; errors relative to the sum of magnitudes",),
    )  # fmt: skip


def _terms(count: int, settings: Settings, seed: int) -> list[Array]:
    (draw,) = streams(seed, 1)
    return list(draw.standard_normal((count, settings.sums)).astype(np.float32))


def _measured(count: int, settings: Settings, seed: int) -> tuple[list[Json], list[Check]]:
    """Rows and bounds of every way on the same terms."""
    terms = _terms(count, settings, seed)
    table = np.array(terms, dtype=np.float64)
    exact = np.array([math.fsum(column) for column in table.T])
    sizes = np.abs(table).sum(axis=0)
    grid = grids(float(np.abs(table).max()), count, SINGLE.precision_bits)[-1]
    bounds = {
        "sequential": (count - 1) * U * sizes,
        "pairwise": math.ceil(math.log2(count)) * U * sizes,
        "Kahan": (2 * U + 4 * count * U**2) * sizes,
        "Neumaier": (2 * U + 4 * count**2 * U**2) * sizes,
        "reproducible": count * grid / 2 + 2 * U * np.abs(exact) + U**2 * sizes,
    }
    rows, checks = [], []
    for name, add in SUMS.items():
        errors = np.abs(add(terms).astype(np.float64) - exact)
        beyond = int((errors > bounds[name] * (1 + 1e-6)).sum())
        checks.append(Check(f"{name}, {count} terms: errors beyond the bound", 0, beyond, holds=ALWAYS))
        rows.append({
            "way": name, "terms": count, "error_in_unit_roundoffs": float((errors / sizes).mean() / U),
            "bound_in_unit_roundoffs": float((bounds[name] / sizes).mean() / U),
            "additions_per_term": ADDITIONS_PER_TERM[name],
        })  # fmt: skip
    return rows, checks


def _patterns(settings: Settings, seed: int, terms: int) -> dict[str, int]:
    """Different bits over random orders of the same terms, for every way; sums that differ count once."""
    given = _terms(terms, settings, seed)
    found: dict[str, set[bytes]] = {name: set() for name in SUMS}
    for draw in streams(seed + 1, settings.orders):
        mixed = [given[i] for i in draw.permutation(terms)]
        for name, add in SUMS.items():
            found[name].add(add(mixed).tobytes())
    return {name: len(patterns) for name, patterns in found.items()}


def _order_checks(patterns: dict[str, int], orders: int) -> list[Check]:
    seen = when(orders >= 10, "at least 10 orders")
    return [
        Check("different sums over orders, reproducible", 1, patterns["reproducible"], holds=ALWAYS),
        Check(
            "different sums over orders, sequential",
            orders,
            patterns["sequential"],
            tolerance=orders // 2,
            holds=ALWAYS,
        ),
        Check(
            "sequential summation gives one sum in every order", 1, patterns["sequential"], false_law=True, holds=ALWAYS
        ),
        Check("compensation makes sums reproducible", 1, patterns["Kahan"], false_law=True, holds=seen),
    ]


def _classics() -> list[Check]:
    """Three terms in both orders, and four that defeat Kahan."""

    def both(*values: float) -> tuple[float, float]:
        single = [np.float32(value) for value in values]
        return float(one_by_one(single)), float(one_by_one(single[::-1]))

    hidden, shown = both(1e30, 1.0, -1e30), both(1e30, -1e30, 1.0)
    large = [np.float64(value) for value in (1.0, 1e100, 1.0, -1e100)]
    return [
        Check("1e30 + 1 - 1e30, forwards and backwards", 0.0, abs(hidden[0]) + abs(hidden[1]), holds=example("fp32")),
        Check("1e30 - 1e30 + 1, forwards", 1.0, shown[0], holds=example("fp32")),
        Check("1e30 - 1e30 + 1, backwards", 0.0, shown[1], holds=example("fp32")),
        Check("1e30 + 1 - 1e30 depends on the order: a gap of 5e30", 5e30, float(np.ptp(hidden)), false_law=True,
              holds=example("fp32")),
        Check("Kahan: 1 + 1e100 + 1 - 1e100 is 2", 2.0, float(kahan(large)), false_law=True, holds=example("fp64")),
        Check("Neumaier: 1 + 1e100 + 1 - 1e100", 2.0, float(neumaier(large)), holds=example("fp64")),
    ]  # fmt: skip


def _curves(rows: list[Json], counts: list[int]) -> Iterator[Curve]:
    """Errors of every way, and the bounds of the first two."""
    x = np.array(counts, dtype=float)
    for name in SUMS:
        mine = [row for row in rows if row["way"] == name]
        yield Curve(name, x, np.maximum(np.array([row["error_in_unit_roundoffs"] for row in mine]), 1e-6))
        yield Curve(f"{name}, bound", x, np.array([row["bound_in_unit_roundoffs"] for row in mine]), theory=True)
