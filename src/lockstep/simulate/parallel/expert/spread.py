"""How far the experts of a token lie apart: the expected number of units (devices, nodes) that hold any of them.

E experts lie in order on n equal units. Where k of all may be chosen, all alike, a unit holds none of them with a
probability of C(E - E/n, k) / C(E, k), so that

    n (1 - C(E - E/n, k) / C(E, k))

units hold some: exact, in whole numbers. Where a token goes to M of G groups of experts only, routers take the groups
whose best k / M experts score most together, and of these the k best experts. So a chosen group has high scores, and
is rarely passed over: tokens of DeepSeek-V3 go to 3.97 of their 4 groups, and to 3.63 were the 8 experts drawn among
those of 4 groups. Counted over drawn tokens, with independent normal scores; uniform ones and those of a softmax give
the same within 1 %.

Source: the hypergeometric law; node-limited routing: DeepSeek-AI 2024 (arXiv 2412.19437), section 2.1.2, as Megatron
Core does it (`group_limited_topk`; tests/real asks it).
"""

from __future__ import annotations

from functools import cache, cached_property
from math import comb

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

SCORES = 1 << 20
"""Drawn for each router that is limited to groups, of at least TOKENS tokens."""
TOKENS = 256


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
    number, each = choices.experts, choices.experts // units
    if not choices.limited:
        return units * (1 - comb(number - each, choices.top_k) / comb(number, choices.top_k))
    chosen = np.sort(drawn(choices) // each, axis=1)
    return float(np.mean(1 + np.count_nonzero(np.diff(chosen, axis=1), axis=1)))


@cache
def drawn(choices: Choices) -> Array:
    """The experts of drawn tokens, in no order [tokens, top_k]."""
    tokens, each = max(TOKENS, SCORES // choices.experts), choices.experts // choices.groups
    score = np.random.Generator(np.random.PCG64(0)).standard_normal((tokens, choices.groups, each))
    best = min(each, max(1, choices.top_k // choices.top_groups))
    together = np.partition(score, each - best, axis=2)[:, :, each - best :].sum(axis=2)
    left = np.argpartition(together, choices.groups - choices.top_groups, axis=1)
    np.put_along_axis(score, left[:, : choices.groups - choices.top_groups, np.newaxis], -np.inf, axis=1)
    score = score.reshape(tokens, choices.experts)
    return np.argpartition(score, choices.experts - choices.top_k, axis=1)[:, choices.experts - choices.top_k :]
