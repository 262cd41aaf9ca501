"""Alpha, beta and gamma from times, by weighted least squares on relative errors, robust against outliers.

    minimise  sum_i ((a_i alpha + b_i beta + g_i gamma - t_i) / t_i)^2,   alpha, beta, gamma >= 0
with a, b, g the latency steps, bytes and reduced bytes in series of the algorithm that ran. First over the KEPT_FRAC of
the points that fit best (least trimmed squares, by concentration steps); points farther from that fit than OUTLIER
robust standard deviations of log time are named and left out; then over the rest. Intervals are Student's t with the
covariance of linear least squares.

Sources: P. Rousseeuw, K. Van Driessen, "Computing LTS regression for large data sets" (2006), for the steps; P.
Rousseeuw, C. Croux, "Alternatives to the median absolute deviation", JASA 88 (1993), for the constant 1.4826.

`segment_edges` finds where the protocol changes: sizes at which one line of time over size stops fitting and
another begins. Libraries send small messages eagerly, larger ones by rendezvous, the largest in pieces. Every way to
cut the sizes into at most MOST_SEGMENTS runs of LEAST_SIZES or more is tried, each with constants of its own; the cut
with the smallest

    BIC = n log(mean squared relative error) + k log n
wins, k the constants and cuts. The mean leaves out the worst TRIMMED_FRAC of the n points, so that outliers are no
evidence for a cut. A further segment must lower it by MARGIN (strong evidence).

Sources: G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6 (1978); R. Kass, A. Raftery, "Bayes
factors", JASA 90 (1995), for the margin; T. Hoefler, A. Lichei, W. Rehm, "Low-overhead LogGP parameter assessment"
(2007), for protocol changes in measured times; P. Rousseeuw, "Least median of squares regression", JASA 79 (1984), for
trimming.

`spikes` are times that no protocol explains: far longer than those of larger messages, or far less than those of
smaller ones. Within one series (one collective, algorithm and number of ranks) a spike is more than SPIKE times slower
than both of the next two sizes, or than the one that is left near the end, or as much faster than both of the two
before. A change of protocol is no spike: what follows it stays slow, or stays fast."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput, not_installed
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

KEPT_FRAC = 0.75
STEPS = 20
OUTLIER = 8.0
"""Robust standard deviations beyond which a point is named; assumed. Few points tell their spread badly: 5 would throw
out good ones and make the intervals too narrow."""
MAD_TO_SIGMA = 1.4826
LEAST_SPREAD_FRAC = 0.02
"""Relative errors below this are never outliers, however exact the rest is; assumed."""
TINY = 1e-12
MOST_SEGMENTS = 3
LEAST_SIZES = 4
MARGIN = 10.0
TRIMMED_FRAC = 0.1
EXACT_FRAC = 1e-3
"""Relative errors below this are taken for this: a computed table is not evidence for ever finer cuts; assumed."""
SPIKE = 1.5
"""Assumed: beyond the scatter of medians, below what a foreign process does to a message."""
MOST_FRAC = 1 / 3
"""When more of the times would be spikes, none is: then the times do not grow with the size at all."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Constants with 95 % intervals; a constant at its bound of zero has no interval below it."""

    values: Array
    low: Array
    high: Array
    errors_frac: Array
    """Signed relative error at every point, outliers included."""
    outliers: Array
    """Which points were left out."""


def solve(terms: Array, times_s: Array, *, robust: bool = True) -> Solution:
    """Constants of the columns of `terms`, shape (points, constants).

    Raises BadInput with fewer points than constants, or when scipy is missing.
    """
    if len(times_s) < terms.shape[1]:
        raise BadInput(f"{len(times_s)} times cannot give {terms.shape[1]} constants; measure more sizes")
    try:
        outliers = (
            _outliers(terms, times_s) if robust and len(times_s) > terms.shape[1] + 1 else np.zeros(len(times_s), bool)
        )
        relative = terms / times_s[:, np.newaxis]
        values, low, high = _with_intervals(relative[~outliers])
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise BadInput(f"these sizes and times give no constants ({error}); look for a wrong unit") from None
    return Solution(values, low, high, relative @ values - 1, outliers)


def _scaled(relative: Array) -> tuple[Array, Array]:
    """Columns of about one, and what they were divided by."""
    scale = np.maximum(np.linalg.norm(relative, axis=0), np.finfo(float).tiny)
    return relative / scale, scale


def _trimmed_errors(terms: Array, times_s: Array) -> Array:
    """Logarithm of fitted over measured time at every point, by the least trimmed squares."""
    columns, _ = _scaled(terms / times_s[:, np.newaxis])
    most = max(int(np.ceil(KEPT_FRAC * len(columns))), terms.shape[1])
    kept, error = np.arange(len(columns)), np.zeros(len(columns))
    for _ in range(STEPS):
        values, _ = _scipy("optimize").nnls(columns[kept], np.ones(len(kept)))
        error = np.log(np.maximum(columns @ values, TINY))
        best = np.sort(np.argsort(np.abs(error), kind="stable")[:most])
        if np.array_equal(best, kept):
            break
        kept = best
    return error


def _outliers(terms: Array, times_s: Array) -> Array:
    error = _trimmed_errors(terms, times_s)
    spread = MAD_TO_SIGMA * float(np.median(np.abs(error - np.median(error))))
    return np.asarray(np.abs(error) > np.log1p(max(OUTLIER * spread, LEAST_SPREAD_FRAC)))


def _with_intervals(relative: Array) -> tuple[Array, Array, Array]:
    """(values, low, high) of non-negative least squares; constants at zero are taken out before the covariance."""
    columns, scale = _scaled(relative)
    values, _ = _scipy("optimize").nnls(columns, np.ones(len(columns)))
    free = values > 0
    width = np.zeros_like(values)
    freedom = len(columns) - int(free.sum())
    if freedom > 0 and free.any():
        inside = columns[:, free]
        residual = inside @ values[free] - 1
        covariance = np.linalg.pinv(inside.T @ inside) * float(residual @ residual) / freedom
        width[free] = _scipy("stats").t.ppf(0.975, freedom) * np.sqrt(np.maximum(np.diag(covariance), 0))
    low, high = np.maximum(values - width, 0), values + width
    return values / scale, low / scale, high / scale


def _scipy(part: str) -> Any:
    """A part of scipy. Raises BadInput when the extra is not installed."""
    from importlib import import_module

    try:
        return import_module(f"scipy.{part}")
    except ImportError:
        raise not_installed("fits need scipy", "fit", "scipy") from None


def segment_edges(terms: Array, sizes_B: Array, times_s: Array) -> tuple[float, ...]:
    """Smallest sizes of the segments but the first, ascending; empty when one line does."""
    levels = np.unique(sizes_B)
    best: tuple[float, ...] = ()
    best_bic = _bic(terms, sizes_B, times_s, ())
    for cuts in range(1, min(MOST_SEGMENTS, len(levels) // LEAST_SIZES)):
        places = itertools.combinations(range(LEAST_SIZES, len(levels) - LEAST_SIZES + 1), cuts)
        tried = [tuple(float(levels[p]) for p in place) for place in places if _wide(place, len(levels))]
        found = min(((_bic(terms, sizes_B, times_s, edges), edges) for edges in tried), default=None)
        if found is not None and found[0] < best_bic - MARGIN:
            best_bic, best = found
    return best


def _wide(place: tuple[int, ...], count: int) -> bool:
    return all(high - low >= LEAST_SIZES for low, high in itertools.pairwise((0, *place, count)))


def segment_of(sizes_B: Array, edges: tuple[float, ...]) -> Array:
    """Number of the segment of each size."""
    return np.searchsorted(np.array(edges), sizes_B, side="right")


def _bic(terms: Array, sizes_B: Array, times_s: Array, edges: tuple[float, ...]) -> float:
    number = segment_of(sizes_B, edges)
    errors = np.zeros(len(times_s))
    for segment in range(len(edges) + 1):
        here = number == segment
        errors[here] = solve(terms[here], times_s[here], robust=False).errors_frac
    kept = len(errors) - int(TRIMMED_FRAC * len(errors))
    mean = max(float(np.mean(np.sort(errors**2)[:kept])), EXACT_FRAC**2)
    constants = terms.shape[1] * (len(edges) + 1) + len(edges)
    return float(kept * np.log(mean) + constants * np.log(kept))


def spikes(series: Sequence[Hashable], sizes_B: Array, times_s: Array) -> Array:
    """Which times are spikes; `series` names the series of every point."""
    found = np.zeros(len(times_s), dtype=bool)
    for name in dict.fromkeys(series):
        here = np.array([i for i, other in enumerate(series) if other == name])
        here = here[np.argsort(sizes_B[here], kind="stable")]
        found[here[_slow(times_s[here])]] = True
        # A usual time must not look fast beside a slow spike.
        here = here[~found[here]]
        found[here[_slow(1 / times_s[here][::-1])[::-1]]] = True
    return found if found.mean() <= MOST_FRAC else np.zeros_like(found)


def _slow(times: Array) -> Array:
    """Which entries are far above both of the next two."""
    later = (times[place + 1 : place + 3] for place in range(len(times)))
    return np.array([len(two) > 0 and times[i] > SPIKE * two.max() for i, two in enumerate(later)], dtype=bool)
