"""How far the experts of a token lie apart: the expected number of units (devices, nodes) that hold any of them.

E experts lie in order on n equal units. Of G groups of experts M are chosen, all alike, then k experts of these, all
alike. A unit holds none of them with a probability of

    sum over sets S of M groups of C(M E/G - held(S), k) / C(M E/G, k) / C(G, M)     held(S): its experts in groups of S

so without groups n (1 - C(E - E/n, k) / C(E, k)) units hold some. Exact, in whole numbers.

Source: the hypergeometric law; node-limited routing: DeepSeek-AI 2024 (arXiv 2412.19437), section 2.1.2.
"""

from __future__ import annotations

from collections import Counter
from functools import cache, cached_property
from math import comb

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array


@dataclass(frozen=True)
class Choices:
    """What a router chooses for a token: `top_k` of the `experts` in at most `top_groups` of `groups`."""

    experts: int
    top_k: int
    groups: int = 1
    top_groups: int = 1

    @property
    def limited(self) -> bool:
        """Whether tokens go to some groups of experts only."""
        return self.top_groups < self.groups

    @cached_property
    def units_of(self) -> Array:
        """Expected units with an expert of a token [units], for every number of units that divides the experts."""
        found = np.full(self.experts + 1, float(self.top_k))
        for units in range(1, self.experts + 1):
            if self.experts % units == 0:
                found[units] = expected_units(self, units)
        return found


@cache
def expected_units(choices: Choices, units: int) -> float:
    """Expected number of `units` equal runs of experts, which must divide them, that hold an expert of a token."""
    each = choices.experts // units
    empty = Counter(_held(choices, unit * each, each) for unit in range(units))
    return units - sum(count * _none(choices, held) for held, count in empty.items())


def _held(choices: Choices, first: int, number: int) -> tuple[int, ...]:
    """How many of a run of experts each group holds, without those that hold none."""
    size = choices.experts // choices.groups
    runs = (min(first + number, (group + 1) * size) - max(first, group * size) for group in range(choices.groups))
    return tuple(sorted(run for run in runs if run > 0))


def _none(choices: Choices, held: tuple[int, ...]) -> float:
    """Probability that none of a token's experts is among those `held` of some groups."""
    groups, most = choices.groups, choices.top_groups
    ways = Counter({(0, 0): 1})
    for count in held:
        ways += Counter({(chosen + 1, covered + count): many for (chosen, covered), many in ways.items()})
    of = most * choices.experts // groups
    free = sum(
        many * comb(groups - len(held), most - chosen) * comb(of - covered, choices.top_k)
        for (chosen, covered), many in ways.items()
        if chosen <= most
    )
    return free / (comb(groups, most) * comb(of, choices.top_k))
