"""Which experts tokens go to: a router with controllable skew, temperature and noise, drawn with a seed.

    score of expert e for a token = log(p_e) / temperature + noise * G,   p_e ~ 1 / (e + 1)^skew   (Zipf)
G: independent standard Gumbel noise; the k highest scores win. With temperature = noise = 1 the first choice follows p
exactly (Gumbel-max), and k choices are draws without replacement (Plackett-Luce). skew 0 is uniform, which is random
and still not balanced. A higher temperature flattens, noise 0 sends every token to the same k experts.

Source: N. Shazeer et al., "Outrageously large neural networks", ICLR 2017 (noisy top-k); E. Gumbel, 1954; W. Kool et
al., "Stochastic beams and where to find them", ICML 2019 (Gumbel top-k).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array

TOKENS_AT_ONCE = 4096
MOST_SCORES = 300_000_000
"""Tokens x experts: some ten seconds of drawing."""


@dataclass(frozen=True, eq=False, slots=True)
class Routing:
    """Choices of all tokens, best first, and the mean router probability of every expert."""

    experts: int
    choice: Array
    """[tokens, top_k]."""
    probability: Array
    """[experts], sums to 1."""

    @property
    def load(self) -> Array:
        """Assignments per expert [experts], before anything is dropped."""
        return np.bincount(self.choice.ravel(), minlength=self.experts)


def popularity(experts: int, skew: float) -> Array:
    """p_e ~ 1 / (e + 1)^skew, normalised: [experts]."""
    logs = -skew * np.log(np.arange(1, experts + 1))
    weight = np.exp(logs - logs.max())
    return np.asarray(weight / weight.sum())


def route(
    experts: int, top_k: int, tokens: int, *, skew: float = 0.0, temperature: float = 1.0, noise: float = 1.0,
    seed: int = 0,
) -> Routing:  # fmt: skip
    """Draws the choices. Raises BadInput."""
    _check(experts, top_k, tokens, skew, temperature, noise)
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    preferred = -skew * np.log(np.arange(1, experts + 1)) / temperature
    choice = np.empty((tokens, top_k), dtype=np.int64)
    total = np.zeros(experts)
    for low in range(0, tokens, TOKENS_AT_ONCE):
        number = min(TOKENS_AT_ONCE, tokens - low)
        score = np.broadcast_to(preferred, (number, experts))
        if noise:
            score = score + noise * generator.gumbel(size=(number, experts))
        choice[low : low + number] = _highest(score, top_k)
        gate = np.exp(score - score.max(axis=1, keepdims=True))
        total += (gate / gate.sum(axis=1, keepdims=True)).sum(axis=0)
    return Routing(experts, choice, total / tokens)


def _highest(score: Array, top_k: int) -> Array:
    """Columns of the k highest scores of each row, highest first; ties to the lower number."""
    if (score[0] == score[-1]).all():
        return np.argsort(-score, axis=1, kind="stable")[:, :top_k]
    some = np.argpartition(-score, top_k - 1, axis=1)[:, :top_k]
    order = np.argsort(-np.take_along_axis(score, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def _check(experts: int, top_k: int, tokens: int, skew: float, temperature: float, noise: float) -> None:
    if experts < 1 or experts > 100_000:
        raise BadInput(f"the number of experts must be 1 to 100,000, got {experts}", "experts")
    if not 1 <= top_k <= experts:
        raise BadInput(f"top-k = {top_k} of {experts} experts; k must be 1 to {experts}", "top-k")
    if tokens < 1 or tokens * experts > MOST_SCORES:
        most = MOST_SCORES // experts
        raise BadInput(f"{tokens} tokens; it must be 1 to {most:,} for {experts} experts", "tokens")
    for name, value, least in (("skew", skew, 0.0), ("noise", noise, 0.0)):
        if not least <= value < np.inf:
            raise BadInput(f"{name} must be finite and at least {least:g}, got {value}", name)
    if not 0 < temperature < np.inf:
        raise BadInput(f"temperature must be finite and above 0, got {temperature}", "temperature")
