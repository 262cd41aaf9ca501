"""`fit_link`: latency, bandwidth and reduction rate of a link from measured collectives, and how far to trust them.

The headline link takes its latency from the smallest sizes' segment and its bandwidth from the largest sizes', which
are the same one where no protocol changes. Leave-one-out: every size in turn is left out, the rest is fitted, and the
missing times are predicted; those errors are the ones to expect at sizes that nobody measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.collectives import PlainLink
from lockstep.errors import BadInput
from lockstep.measure.bench.definition import REDUCING
from lockstep.measure.fit.points import LIBRARY, Points
from lockstep.measure.fit.segments import segment_edges, segment_of
from lockstep.measure.fit.solve import Solution, solve
from lockstep.measure.fit.spikes import spikes

Array = npt.NDArray[Any]
Interval = tuple[float, float]
SEPARABLE = 1e6
"""Largest condition number of the scaled columns at which gamma can be told from beta; assumed."""
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "from_B": self.from_B,
            "to_B": self.to_B,
            "latency_s": self.latency_s,
            "latency_ci95_s": list(self.latency_ci95_s),
            "bandwidth_Bps": self.bandwidth_Bps,
            "bandwidth_ci95_Bps": list(self.bandwidth_ci95_Bps),
            "reduce_s_per_B": self.reduce_s_per_B,
            "points": self.points,
        }


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        first, last = self.segments[0], self.segments[-1]
        return {
            "latency_s": self.latency_s,
            "bandwidth_Bps": self.bandwidth_Bps,
            "reduce_s_per_B": last.reduce_s_per_B,
            "ci95": {
                "latency_s": list(first.latency_ci95_s),
                "bandwidth_Bps": list(last.bandwidth_ci95_Bps),
            },
            "r2": self.r2,
            "leave_one_out": None
            if self.left_out is None
            else {"median_abs_frac": self.left_out[0], "max_abs_frac": self.left_out[1]},
            "segments": [segment.to_dict() for segment in self.segments],
            "outliers": [str(self.points.points[i]) for i in self.outliers],
            "points": len(self.points.points),
            "source": self.points.source,
            "date": self.points.date,
            "assumptions": list(self.assumptions),
        }


def fit_link(points: Points, *, taken_for: str | None = None) -> LinkFit:
    """The link that explains the times best. `taken_for`: the algorithm of a library's own collective.

    Raises BadInput for too few sizes, or times that do not grow with the size.
    """
    terms = points.terms(taken_for)
    sizes_B = np.array([point.size_B for point in points.points])
    times_s = np.array([point.time_s for point in points.points])
    if len(np.unique(sizes_B)) < 3:
        raise BadInput(f"{len(np.unique(sizes_B))} different sizes; give at least 3", points.source)
    with_gamma = _separable(terms, times_s)
    columns = terms if with_gamma else terms[:, :2]
    outliers = spikes([(point.op, point.algorithm, point.ranks) for point in points.points], sizes_B, times_s)
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
    return LinkFit(
        points=points,
        segments=segments,
        outliers=tuple(np.flatnonzero(outliers).tolist()),
        r2=_r2(times_s[~outliers], errors[~outliers]),
        errors_frac=errors,
        left_out_frac=_left_out(columns, sizes_B, times_s, number, outliers),
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


def _left_out(columns: Array, sizes_B: Array, times_s: Array, number: Array, outliers: Array) -> Array:
    """Signed errors of predicting each size from the others of its segment."""
    errors = np.full(len(times_s), np.nan)
    for size_B in np.unique(sizes_B):
        here = (sizes_B == size_B) & ~outliers
        if not here.any():
            continue
        rest = (number == number[here][0]) & (sizes_B != size_B) & ~outliers
        if len(np.unique(sizes_B[rest])) >= 2 and rest.sum() >= columns.shape[1]:
            values = solve(columns[rest], times_s[rest], robust=False).values
            errors[here] = columns[here] @ values / times_s[here] - 1
    return errors
