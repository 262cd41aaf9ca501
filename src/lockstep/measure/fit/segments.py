"""Where the protocol changes: sizes at which one line of time over size stops fitting and another begins.

Libraries send small messages eagerly, larger ones by rendezvous, the largest in pieces. Every way to cut the sizes into
at most MOST_SEGMENTS runs of LEAST_SIZES or more is tried, each with constants of its own; the cut with the smallest

    BIC = n log(mean squared relative error) + k log n
wins, k the constants and cuts. The mean leaves out the worst TRIMMED_FRAC of the n points, so that outliers are no
evidence for a cut. A further segment must lower it by MARGIN (strong evidence).

Sources: G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 6 (1978); R. Kass, A. Raftery, "Bayes
factors", JASA 90 (1995), for the margin; T. Hoefler, A. Lichei, W. Rehm, "Low-overhead LogGP parameter assessment"
(2007), for protocol changes in measured times; P. Rousseeuw, "Least median of squares regression", JASA 79 (1984), for
trimming.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.measure.fit.solve import solve

Array = npt.NDArray[Any]
MOST_SEGMENTS = 3
LEAST_SIZES = 4
MARGIN = 10.0
TRIMMED_FRAC = 0.1
EXACT_FRAC = 1e-3
"""Relative errors below this are taken for this: a computed table is not evidence for ever finer cuts; assumed."""


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
