"""`fit_link`: latency, bandwidth and reduction rate of a link from measured collectives, and how far to trust them.

The headline link takes its latency from the smallest sizes' segment and its bandwidth from the largest sizes', which
are the same one where no protocol changes. Leave-one-out: every size in turn is left out, the rest is fitted, and the
missing times are predicted; those errors are the ones to expect at sizes that nobody measured. Where a constant, the
median of the other times of the series, predicts sizes left out about as well, the times are not those of a link.

Source: L. Breiman et al., "Classification and Regression Trees" (1984), 3.4.3, for the rule of one standard error.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked, plain
from lockstep.run.bench.definition import REDUCING
from lockstep.run.fit.points import LIBRARY, Points
from lockstep.run.fit.solve import Solution, segment_edges, segment_of, solve, spikes
from lockstep.simulate.collectives import PlainLink

Interval = tuple[float, float]
LEAST_SIZES, MOST_SIZES, MOST_TIMES = 3, 200, 5_000
"""Every pair of sizes may be where protocols change, so time grows with the square of their number."""
SEPARABLE = 1e6
"""Largest condition number of the scaled columns at which gamma can be told from beta; assumed."""
TINY_S = 1e-15
"""Shortest time that a prediction distinguishes from zero."""
DISTURBED_FRAC = 0.2
"""Share of outliers from which a measurement says that it was disturbed; assumed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One protocol: sizes from `from_B` to `to_B` and their constants with 95 % intervals."""

    from_B: float
    to_B: float
    latency_s: float
    latency_ci95_s: Interval
    s_per_B: float
    s_per_B_ci95: Interval
    reduce_s_per_B: float
    points: int

    @property
    def bandwidth_Bps(self) -> float | None:
        """None where the times do not grow with the size."""
        return 1 / self.s_per_B if self.s_per_B > 0 else None

    @property
    def bandwidth_ci95_Bps(self) -> tuple[float, float | None]:
        """The upper end is None where the slope may be zero."""
        low, high = self.s_per_B_ci95
        return 1 / high if high > 0 else 0.0, 1 / low if low > 0 else None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(
            self, "from_B to_B latency_s latency_ci95_s bandwidth_Bps bandwidth_ci95_Bps reduce_s_per_B points"
        )


@dataclass(frozen=True, slots=True)
class LinkFit:
    """A link found from measured times."""

    points: Points
    segments: tuple[Segment, ...]
    outliers: tuple[int, ...]
    r2: float
    """Of the logarithms of the times, outliers left out."""
    errors_frac: Array
    """Signed error of the fit at every point."""
    left_out_frac: Array
    """Signed error at every point when its size was left out; NaN for outliers and where too few sizes remain."""
    taken_for: str | None
    gamma_found: bool

    @property
    def latency_s(self) -> float:
        """Of the smallest sizes."""
        return self.segments[0].latency_s

    @property
    def bandwidth_Bps(self) -> float:
        """Of the largest sizes."""
        return self.segments[-1].bandwidth_Bps or 0.0

    @property
    def link(self) -> PlainLink:
        """The headline link."""
        return PlainLink(self.latency_s, self.bandwidth_Bps, self.segments[-1].reduce_s_per_B)

    @property
    def left_out(self) -> tuple[float, float] | None:
        """(median, largest) absolute leave-one-out error; None when there were too few sizes."""
        known = np.abs(self.left_out_frac[np.isfinite(self.left_out_frac)])
        return (float(np.median(known)), float(known.max())) if len(known) else None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the constants rest on."""
        ops = sorted({point.op for point in self.points.points if not point.algorithm and point.op != "send-recv"})
        said = [f"the library's {op} counts as {self.taken_for or LIBRARY[op]}" for op in ops]
        if not self.gamma_found and any(point.op in REDUCING for point in self.points.points):
            said.append("reductions are part of the bandwidth: these times cannot tell them apart")
        if len(self.outliers) > DISTURBED_FRAC * len(self.points.points):
            share = f"{len(self.outliers)} of {len(self.points.points)} times are left out as outliers"
            said.append(f"{share}: something disturbed the measurement; repeat it")
        return (*said, *self.points.notes)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        first, last = self.segments[0], self.segments[-1]
        names = ("median_abs_frac", "max_abs_frac")
        return {
            **picked(self, "latency_s bandwidth_Bps"),
            "reduce_s_per_B": last.reduce_s_per_B,
            "ci95": {"latency_s": plain(first.latency_ci95_s), "bandwidth_Bps": plain(last.bandwidth_ci95_Bps)},
            "r2": self.r2,
            "leave_one_out": None if self.left_out is None else dict(zip(names, self.left_out, strict=True)),
            "segments": plain(self.segments),
            "outliers": [str(self.points.points[i]) for i in self.outliers],
            "points": len(self.points.points),
            **picked(self.points, "source date"),
            "assumptions": plain(self.assumptions),
        }


def fit_link(points: Points, *, taken_for: str | None = None) -> LinkFit:
    """The link that explains the times best. `taken_for`: the algorithm of a library's own collective.

    Raises BadInput for too few sizes, or times that do not grow with the size; Infeasible where a constant predicts
    sizes left out about as well.
    """
    terms = points.terms(taken_for)
    sizes_B = np.array([point.size_B for point in points.points])
    times_s = np.array([point.time_s for point in points.points])
    sizes = len(np.unique(sizes_B))
    if not LEAST_SIZES <= sizes <= MOST_SIZES or len(sizes_B) > MOST_TIMES:
        allowed = f"give {LEAST_SIZES} to {MOST_SIZES} sizes and at most {MOST_TIMES:,} times"
        raise BadInput(f"{sizes:,} different sizes in {len(sizes_B):,} times; {allowed}", points.source)
    with_gamma = _separable(terms, times_s)
    columns = terms if with_gamma else terms[:, :2]
    series = [(point.op, point.algorithm, point.ranks) for point in points.points]
    outliers = spikes(series, sizes_B, times_s)
    edges = segment_edges(columns[~outliers], sizes_B[~outliers], times_s[~outliers])
    number, errors, found = segment_of(sizes_B, edges), np.zeros(len(times_s)), []
    for k in range(len(edges) + 1):
        here, kept = number == k, (number == k) & ~outliers
        solution = solve(columns[kept], times_s[kept])
        outliers[kept] = solution.outliers
        errors[here] = columns[here] @ solution.values / times_s[here] - 1
        found.append(_segment(sizes_B[here], solution))
    segments = tuple(found)
    if segments[-1].bandwidth_Bps is None:
        raise BadInput("times do not grow with the size, so there is no bandwidth; measure larger sizes", points.source)
    predicted_s = _predicted(columns, sizes_B, times_s, number, outliers)
    r2 = _r2(times_s[~outliers], errors[~outliers])
    _check_is_line(predicted_s, _constant(series, sizes_B, times_s), times_s, r2)
    return LinkFit(
        points=points,
        segments=segments,
        outliers=tuple(np.flatnonzero(outliers).tolist()),
        r2=r2,
        errors_frac=errors,
        left_out_frac=np.where(outliers, np.nan, predicted_s / times_s - 1),
        taken_for=taken_for,
        gamma_found=with_gamma,
    )


def _separable(terms: Array, times_s: Array) -> bool:
    """Whether reductions vary apart from messages, as between an all-reduce and an all-gather."""
    if not terms[:, 2].any() or len(terms) < 6:
        return False
    relative = terms / times_s[:, np.newaxis]
    return bool(np.linalg.cond(relative / np.linalg.norm(relative, axis=0)) < np.sqrt(SEPARABLE))


def _segment(sizes_B: Array, solution: Solution) -> Segment:
    values, low, high = (column.tolist() for column in (solution.values, solution.low, solution.high))
    return Segment(
        from_B=float(sizes_B.min()),
        to_B=float(sizes_B.max()),
        latency_s=values[0],
        latency_ci95_s=(low[0], high[0]),
        s_per_B=values[1],
        s_per_B_ci95=(low[1], high[1]),
        reduce_s_per_B=values[2] if len(values) > 2 else 0.0,
        points=int((~solution.outliers).sum()),
    )


def _r2(times_s: Array, errors_frac: Array) -> float:
    """Share of the variance of log time that the fit explains."""
    observed = np.log(times_s)
    residual = np.log(np.maximum(1 + errors_frac, 1e-12))
    total = float(((observed - observed.mean()) ** 2).sum())
    return 1 - float(residual @ residual) / total if total else 1.0


def _predicted(columns: Array, sizes_B: Array, times_s: Array, number: Array, outliers: Array) -> Array:
    """Time of each size from the others of its segment, outliers not among them; NaN where too few sizes remain."""
    predicted_s = np.full(len(times_s), np.nan)
    for size_B in np.unique(sizes_B):
        here = sizes_B == size_B
        rest = (number == number[here][0]) & ~here & ~outliers
        if len(np.unique(sizes_B[rest])) >= 2 and rest.sum() >= columns.shape[1]:
            predicted_s[here] = columns[here] @ solve(columns[rest], times_s[rest], robust=False).values
    return predicted_s


def _constant(series: Sequence[Hashable], sizes_B: Array, times_s: Array) -> Array:
    """Time of each size as the median of the other sizes of its series; NaN where there are none."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(series))}
    code = np.array([numbers[name] for name in series])
    same = (code[:, np.newaxis] == code) & (sizes_B[:, np.newaxis] != sizes_B)
    return np.array([np.median(times_s[others]) if others.any() else np.nan for others in same])


def _check_is_line(line_s: Array, constant_s: Array, times_s: Array, r2: float) -> None:
    """Infeasible unless the line predicts sizes left out better than a constant does, by a standard error.

    Better in the mean of |log error|; outliers count, as they are as far from both. A line through times that no link
    made leaves some out and fits the others, so an R2 of 0 or less is none either.
    """
    known = np.isfinite(line_s) & np.isfinite(constant_s)
    if known.sum() < 2:
        return
    line, constant = (
        np.abs(np.log(np.maximum(predicted_s[known], TINY_S) / times_s[known])) for predicted_s in (line_s, constant_s)
    )
    gain = constant - line
    if r2 <= 0 or gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
        wrong = [f"{np.expm1(min(float(error.mean()), 50.0)):.0%}" for error in (line, constant)]
        raise Infeasible(
            f"not a line: a size left out is predicted within {wrong[0]} by latency and bandwidth, within {wrong[1]} "
            f"by one time for all sizes (mean of logarithms), and R2 is {r2:.2f}; "
            "measure larger sizes, or again on an idle machine"
        )
