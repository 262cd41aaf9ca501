"""Layers of experts that are drawn for questions to other software, and what Lockstep routes, drops and sends there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.parallel.expert import MoeLayer, Routing, experts, kept, route
from lockstep.simulate.parallel.expert.capacity import capacities

LINK = PlainLink(1e-6, 50e9)
TOKEN_B = 64.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """One layer, routed."""

    experts: int
    top_k: int
    tokens: int
    ranks: int
    skew: float
    factor: float | None
    seed: int

    @property
    def name(self) -> str:
        """What tells it from others."""
        return repr(self)

    def routing(self) -> Routing:
        """Which experts tokens choose: what `layer` routes too."""
        return route(self.experts, self.top_k, self.tokens, skew=self.skew, seed=self.seed)

    def layer(self) -> MoeLayer:
        """What Lockstep answers."""
        return experts(
            self.experts, self.top_k, self.tokens, self.ranks, LINK, skew=self.skew, capacity_factor=self.factor,
            token_B=TOKEN_B, seed=self.seed,
        )  # fmt: skip

    def kept(self) -> Any:
        """Which choices are not dropped [tokens, top_k]."""
        limits = self.factor and capacities(self.tokens, self.top_k, self.experts, self.factor, self.ranks)
        return kept(self.routing(), limits)

    def map(self, chosen: Any = True) -> Any:
        """Which experts each token goes to [tokens, experts], of the choices that are `chosen`."""
        found = np.zeros((self.tokens, self.experts), dtype=bool)
        np.put_along_axis(found, self.routing().choice, np.broadcast_to(chosen, (self.tokens, self.top_k)), axis=1)
        return found


def layers(number: int, seed: int, top_k: int | None = None, drops: bool = True) -> Iterator[Drawn]:
    """Drawn layers whose ranks have equally many tokens, some of them without a capacity unless `drops`."""
    chance = random.Random(seed)
    for one in range(number):
        ranks, each = chance.choice((1, 2, 4)), chance.choice((1, 2, 4, 8))
        count = max(2, ranks * each)
        choices = top_k or chance.randint(1, min(count, 6))
        factor = chance.choice((0.5, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, None if not drops else 1.0))
        yield Drawn(count, choices, ranks * chance.randint(1, 90), ranks, chance.choice((0.0, 0.5, 1.2)), factor, one)


def whole(tokens: int, top_k: int, number: int, factor: float) -> bool:
    """Whether the capacity of an expert is a whole number before it is rounded."""
    return (Fraction(tokens * top_k, number) * Fraction(str(factor))).denominator == 1
