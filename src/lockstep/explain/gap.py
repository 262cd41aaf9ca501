"""`attribute`: the gap between two steps as a sum over factors, by substitution.

v(S) is the simulated step with the factors of S as measured and all others as predicted. Subtracting parts from one
another would count what is hidden; substituting does not, but its result depends on the order. The mean over all orders
is the Shapley value, whose sum over factors is v(all) - v(none) exactly:

    value_f = sum over S without f of  |S|! (n - |S| - 1)! / n!  (v(S + f) - v(S))

`first_s` = v({f}) - v(none) and `last_s` = v(all) - v(all - f) bound what one order would say. Factors that change
neither by 0.02 % of the step are taken together as `rest`, so that n stays small.

Source: L. S. Shapley, A value for n-person games, 1953; the idea of replaying with ideal durations: J. Lin et al.,
Understanding stragglers in large model training using what-if analysis, arXiv 2505.05713, section 3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence

from lockstep.base.records import dataclass

REST = "rest"
SMALL_FRAC = 2e-4
MOST = 8


@dataclass(frozen=True, slots=True)
class Share:
    """What one factor adds to the step, in seconds."""

    factor: str
    seconds: float
    first_s: float
    last_s: float


def attribute(step_s: Callable[[Collection[str]], float], names: Sequence[str]) -> tuple[Share, ...]:
    """The share of every factor; they add up to `step_s(names) - step_s(())`."""
    none_s, whole_s = step_s(()), step_s(names)
    ends = {
        name: (step_s((name,)) - none_s, whole_s - step_s([other for other in names if other != name]))
        for name in names
    }
    size = {name: max(map(abs, both)) for name, both in ends.items()}
    large = sorted((name for name in names if size[name] > SMALL_FRAC * none_s), key=lambda name: -size[name])[:MOST]
    small = [name for name in names if name not in large]
    players = [*large, REST] if small else large

    def value(chosen: Collection[str]) -> float:
        return step_s([*(one for one in chosen if one != REST), *(small if REST in chosen else ())])

    if small:
        others = [name for name in names if name not in small]
        ends[REST] = value((REST,)) - none_s, whole_s - step_s(others)
    return tuple(Share(name, _mean(value, players, name), *ends[name]) for name in players)


def _mean(value: Callable[[Collection[str]], float], players: Sequence[str], name: str) -> float:
    """The Shapley value of one factor."""
    others = [one for one in players if one != name]
    count, total = len(players), 0.0
    for size in range(count):
        weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
        for chosen in itertools.combinations(others, size):
            total += weight * (value((*chosen, name)) - value(chosen))
    return total
