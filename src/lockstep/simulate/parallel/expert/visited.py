"""How often tokens have experts on each unit (device, node) when some experts are more popular than others.

k experts of E are drawn without replacement, with popularities p_e: those of the k earliest of independent exponential
times of rates p_e. A token has an expert on a unit U, of summed popularity P_U, if fewer than k experts of other units
are earlier than the first one there:

    visited_U = integral over t of P_U exp(-P_U t) Pr(fewer than k of the others before t),

where each of the others is before t with probability 1 - exp(-p_e t), independently. Exact but for the integral, which
the trapezoidal rule in log t gives to ten digits, as the integrand is analytic and vanishes at both ends. The expected
number of different units is the sum of it over them; for equal popularities that is `spread.py`'s.

Sources: R. Luce, Individual choice behavior, 1959; R. Plackett, Applied Statistics 24, 1975 (the law); W. Kool et al.,
ICML 2019 (exponential times); L. Trefethen, J. Weideman, SIAM Review 56, 2014 (the rule).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.expert.routing import popularity
from lockstep.simulate.parallel.expert.spread import Choices

SPACING = 0.2
"""Of log t; halved, no result changes by more than 1e-11."""
EARLIEST, LATEST = 1e-16, 60.0
"""Where the integrand is nothing: times of the unit popularity of all, and of the least popular expert."""


@cache
def visited_frac(choices: Choices, units: int, skew: float) -> Array:
    """Share of tokens with an expert on each of `units` equal runs of experts [units], which must divide them.

    Every expert may be chosen: groups to which `choices` limits tokens are not known here.
    """
    kept = choices.top_k
    if kept == choices.experts:
        return np.ones(units)
    rates = popularity(choices.experts, skew).reshape(units, -1)
    times = np.exp(np.arange(np.log(EARLIEST), np.log(LATEST / rates.min()), SPACING))
    inside = _early(rates, times, kept)
    before, behind = (_products(part) for part in (inside, inside[::-1]))
    fewer = np.einsum("upa,upa->up", before, np.cumsum(behind[::-1], axis=2)[:, :, ::-1])
    passed = np.outer(rates.sum(axis=1), times)
    return np.asarray(SPACING * np.sum(passed * np.exp(-passed) * fewer, axis=1))


def _early(rates: Array, times: Array, kept: int) -> Array:
    """Probability that a of a unit's experts are early, a below `kept` [units, times, kept]."""
    found = np.zeros((len(rates), len(times), kept))
    found[:, :, 0] = 1.0
    for expert in rates.T:
        late = np.exp(-np.outer(expert, times))[:, :, np.newaxis]
        more = found * late
        more[:, :, 1:] += found[:, :, :-1] * (1.0 - late)
        found = more
    return found


def _products(early: Array) -> Array:
    """The same of all units before each one together [units, times, kept]."""
    found = np.zeros_like(early)
    found[0, :, 0] = 1.0
    for unit in range(1, len(early)):
        for many in range(early.shape[2]):
            found[unit, :, many:] += found[unit - 1, :, : early.shape[2] - many] * early[unit - 1, :, many, np.newaxis]
    return found
