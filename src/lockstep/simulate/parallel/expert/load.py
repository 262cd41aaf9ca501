"""How much more than the mean the busiest rank of experts gets: what routing that is not balanced costs.

A token chooses k of E experts; expert e has popularity p_e ~ 1 / (e + 1)^skew (`routing.py`) and is chosen with

    q_e = 1 - exp(-p_e t),    t so that the q_e add up to k

which is exact for skew 0 (k / E) and the limit of draws without replacement for many experts. A rank of the n that
divide the experts in order gets N sum(q_e) of the choices of N tokens in the mean, with a variance of N sum(q_e (1 -
q_e)) at most. The expected maximum over ranks, for normal and independent loads:

    E max = integral of 1 - product over ranks of Phi((x - mean) / deviation)      busiest = E max n / (N k)

Where a token crosses to each unit (device, node) once, the busiest of n units gets the expected maximum of the tokens
with an expert there, of mean N v_u and variance N v_u (1 - v_u), with v_u of `visited.py`.

Sources: B. Rosen, "Asymptotic theory for successive sampling", Annals of Mathematical Statistics 43, 1972 (q_e); H. A.
David, H. N. Nagaraja, Order Statistics, 2003, section 4.2 (maximum).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import hypot, sqrt

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Number
from lockstep.simulate.parallel.expert.placed import placed_frac
from lockstep.simulate.parallel.expert.routing import popularity
from lockstep.simulate.parallel.expert.spread import Choices
from lockstep.simulate.parallel.expert.visited import visited_frac

ROUTINGS = ("balanced", "forced", "natural")
"""Words of `--routing`, beside natural:C and skew:S. Balanced and forced give every expert as many tokens as others."""
MOST_SKEW, MOST_SPREAD = 5.0, 10.0


@dataclass(frozen=True, slots=True)
class Load:
    """How unequally popular experts are."""

    skew: float = 0.0
    """Exponent of a Zipf law of popularities, in the order of the experts."""
    spread: float = 0.0
    """Standard deviation of popularities over their mean, of experts that lie at random on ranks (`placed.py`)."""


SHARES = 400
"""Points of the integral."""


def routing_load(routing: str, natural: float = 0.0, where: str = "--routing") -> Load | None:
    """What a word of `--routing` says, with the spread that natural has by itself; None where loads are equal.

    Raises BadInput.
    """
    if routing in ("balanced", "forced"):
        return None
    if routing == "natural":
        return Load(spread=natural)
    word, _, text = routing.partition(":")
    most = {"skew": MOST_SKEW, "natural": MOST_SPREAD}.get(word, -1.0)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        allowed = f"natural:C with C from 0 to {MOST_SPREAD:g} or skew:S with S from 0 to {MOST_SKEW:g}"
        raise BadInput(f"routing must be {', '.join(ROUTINGS)}, {allowed}, got {routing!r}", where)
    return Load(skew=number) if word == "skew" else Load(spread=number)


@cache
def chosen_frac(experts: int, top_k: int, skew: float) -> Array:
    """Probability that a token chooses each expert [experts]; adds up to top_k."""
    if not skew or top_k == experts:
        return np.full(experts, top_k / experts)
    rates, low, high = popularity(experts, skew), 0.0, 1.0
    while np.sum(-np.expm1(-rates * high)) < top_k:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if np.sum(-np.expm1(-rates * middle)) < top_k else (low, middle)
    return np.asarray(-np.expm1(-rates * high))


@cache
def busiest_of(choices: Choices, ranks: int, tokens: float, skew: float) -> float:
    """Load of the busiest of `ranks` ranks over the mean, for `tokens` that choose."""
    chosen = chosen_frac(choices.experts, choices.top_k, skew).reshape(ranks, -1)
    mean, most = tokens * chosen.sum(axis=1), tokens * choices.top_k / ranks
    return _most(mean, np.sqrt(tokens * (chosen * (1.0 - chosen)).sum(axis=1))) / most


@cache
def copies_of(choices: Choices, units: int, tokens: float, skew: float) -> float:
    """Copies of a token on `units` units if all got as many as the busiest, for `tokens` that choose any experts."""
    visited = visited_frac(choices, units, skew)
    return _most(tokens * visited, np.sqrt(tokens * visited * (1.0 - visited).clip(0.0))) * units / tokens


def _most(mean: Array, deviation: Array) -> float:
    """Expected maximum of independent normal loads."""
    if len(mean) == 1 or not deviation.any():
        return float(mean.max())
    reach = 2.0 + sqrt(2.0 * np.log(2.0 * len(mean)))
    low, high = (float(np.max(mean + side * reach * deviation)) for side in (-1.0, 1.0))
    points = np.linspace(low, high, SHARES)
    below = _normal((points[:, np.newaxis] - mean) / np.maximum(deviation, 1e-300)).prod(axis=1)
    return float(low + np.trapezoid(1.0 - below, points))


def _normal(x: Array) -> Array:
    """The distribution function of the normal law, to 1.5e-7: Abramowitz and Stegun 1964, 7.1.26."""
    size = np.abs(x) / sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * series * np.exp(-(np.minimum(size, 26.0) ** 2))
    return np.asarray(np.where(x < 0, tail, 1.0 - tail))


def busiest_frac(choices: Choices, ranks: Number, tokens: Number, load: Load | None) -> Number:
    """The load of the busiest rank over the mean for arrays of ranks and tokens; 1 where loads are equal."""
    if load is None:
        return 1.0

    def found(count: int, number: float) -> float:
        most = count * min(1.0, choices.experts / count / choices.top_k)
        return min(_more(busiest_of(choices, count, number, load.skew), 1.0, choices, count, load), most)

    return _each(found, choices, ranks, tokens, 1.0)


def busiest_copies(choices: Choices, units: Number, tokens: Number, load: Load) -> Number:
    """Copies of a token on the busiest of some units times their number, for arrays of units and tokens."""

    def found(count: int, number: float) -> float:
        even = float(visited_frac(choices, count, 0.0).sum())
        return min(_more(copies_of(choices, count, number, load.skew), even, choices, count, load), count)

    return _each(found, choices, units, tokens, float(choices.top_k))


def _more(drawn: float, even: float, choices: Choices, units: int, load: Load) -> float:
    """The busiest of drawn loads, with what experts that lie at random add: both vary by themselves."""
    more = placed_frac(choices.experts, units, load.spread) - 1.0
    return even * (1.0 + hypot(drawn / even - 1.0, more)) if more else drawn


def _each(
    of: Callable[[int, float], float], choices: Choices, units: Number, tokens: Number, otherwise: float
) -> Number:
    """Values by units and tokens, each pair once; `otherwise` where units do not divide the experts."""
    many, some = np.broadcast_arrays(np.asarray(units), np.asarray(tokens, dtype=float))
    pairs, place = np.unique(np.stack([many.ravel(), some.ravel()]), axis=1, return_inverse=True)
    found = [of(int(count), float(number)) if choices.experts % count == 0 else otherwise for count, number in pairs.T]
    return np.asarray(found)[np.asarray(place).ravel()].reshape(many.shape)
