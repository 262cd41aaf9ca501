"""What a check allows: a round number, a round share of what it expects, or their sum, and nothing that was tuned."""

from __future__ import annotations

import math
import re

from lockstep.learn.lab import Findings

SHARES = [digit * 10.0**power for power in range(-12, 1) for digit in range(1, 10)]
COMPUTED = {
    "aggregation-error": "^gap under a constant error after",
    "compression-factors": "^lost by|power-sgd|PowerSGD|sends|payload",
    "critical-batch-digits": "^log of",
    "delay-stability": "^stability limit at",
    "gradient-range": " at scale 2",
    "implicit-bias": "largest error of a coordinate$|what its steps leave$",
    "implicit-bias-epochs": ": residual$|what the first epoch leaves|largest error of a coordinate$",
    "index-bits": "^coded gaps",
    "loss-scaling": "converges$|flushed$",
    "master-weights": "stall|squared distance",
    "noise-scale": "from two batches$",
    "reduction-orders": "^ring: the error",
    "trajectory-divergence": "not weighted",
    "varying-delay": "^limit against|^window",
}
"""Checks whose allowance follows from another number: a bound, a step of a grid, counts, what is left of a start."""
ODD = {("critical-batch", 0.15)}
"""Two digits: between a tenth and a fifth."""


DRAWN = (
    "bounds the floor", "gap on the digits", "loss of a payload", "variance of a flat direction",
    "spread under curvature and unequal optima", "compression over sampling noise", "less at large batches",
)  # fmt: skip
"""Examples that draw random numbers; all others are counted, so that nothing about them is uncertain."""


def one_digit(value: float) -> bool:
    """A digit and zeros, or a power of two, as far as sums and products of floats keep it."""
    if value <= 0:
        return False
    digits = f"{value:.8e}".partition("e")[0].replace(".", "").rstrip("0")
    return len(digits) <= 1 or math.log2(value).is_integer()


def is_round(tolerance: float, expected: float) -> bool:
    """Whether it is a + b |expected| with an a and a b of one digit, or 0."""
    size = abs(expected)
    if one_digit(tolerance) or (size and one_digit(tolerance / size)):
        return True
    return any(one_digit(tolerance - share * size) for share in SHARES if 0 < share * size < tolerance)


def tolerances_are_round(found: Findings) -> None:
    """The law, of all checks of an answer."""
    computed = re.compile(COMPUTED.get(found.experiment, "$."))
    for one in found.checks:
        known = computed.search(one.what) or (found.experiment, one.tolerance) in ODD
        assert not (one.holds.example and one.standard_error) or any(words in one.what for words in DRAWN), one.what
        assert not one.tolerance or known or is_round(one.tolerance, one.expected), f"{one.what}: {one.tolerance}"
