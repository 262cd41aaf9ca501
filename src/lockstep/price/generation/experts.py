"""Routed experts of one pass, on one rank: how many of them tokens visit, and the grouped products over their weights.

    seconds               START_S + max(bytes / (r s B), SLOWER 2 R elements / (e P)), as `products.py`
    experts visited       V = (E / p) (1 - (1 - k / E)^m)
    rows                  R = m k / p                                     of all experts of a rank
    bytes                 V w h f / c  per matrix, + R (h + f / c) a

Symbols: m tokens that the ranks of a stage pass together, E experts, k of a token, p ranks among which experts are
divided, c ranks that one expert is cut over, h hidden and f inner width, w and a bytes per element of weights and
activations. Tokens choose experts alike and without regard to one another, so that the mean of V is exact (each of m
tokens misses a given expert with probability 1 - k / E); ranks are taken to visit equally many.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Experts
from lockstep.price.generation.engine import WIDE_B, Engine
from lockstep.price.generation.products import busy_s

START_S = 30e-6
"""Of the kernels of a layer's experts together, which choose, sort, cast, multiply twice and sum: 20 to 45 us, the
median of three engines on H100, B200, B300 and GB300 in bf16, fp8 and nvfp4 (fitted to kernels of up to 4,096 tokens,
ai-dynamo/aiconfigurator@095f58a). This and the next were chosen after the tables of tokens were asked first, and from
kernels alone."""
SLOWER = 2.2
"""Times as long as one large product that grouped ones of few rows an expert take: 1.9 to 2.9 there."""


def visited(experts: Experts, tokens: Number) -> Number:
    """Experts of a layer that at least one of the tokens visits, in the mean."""
    return experts.experts * (1.0 - (1.0 - experts.top_k / experts.experts) ** tokens)


def experts_s(engine: Engine, tokens: Number) -> Number:
    """Seconds of choice, order, products and sum for the tokens of all ranks of a stage; broadcasts."""
    experts = engine.model.experts
    if experts is None:
        return 0.0
    weight_B, dtype = engine.format_of("routed_experts")
    hidden, inner = engine.model.hidden, experts.ffn / engine.experts_tp
    here, rows = visited(experts, tokens) / engine.ep, tokens * experts.top_k / engine.ep
    found: Number = START_S
    for a, b in ((hidden, inner * (1 + experts.gated)), (inner, hidden)):
        size_B = here * a * b * weight_B + rows * (a + b) * WIDE_B
        found = found + busy_s(engine, dtype, 2.0 * rows * a * b, size_B, SLOWER)
    return found
