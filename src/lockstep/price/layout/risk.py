"""How probably a run runs out of memory.

    P = 1 / (1 + (f / f0)^(-1 / w))      f: predicted total over capacity;  f0: EVEN_FRAC;  w: WIDTH

A logistic law in log f, because predictions err and allocators fragment: where f is f0, one of two runs out. Fitted to
the published tables that record runs which ran out of memory beside those which ran, 40 of 436 of six programs; each
table predicted by the others, 43 are expected. Held between 1 and 99 %, as there are too few runs to say more.

Source: `python tools/fit/risk.py`.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Number, Truth

EVEN_FRAC = 0.985
"""Predicted share of memory at which one of two runs out."""
WIDTH = 0.041
LEAST_FRAC = 0.01
SAFE_RISK_FRAC = 0.10
"""Probability of running out of memory up to which a layout is safe. Chosen, not measured: a run that stops is started
again within minutes."""


def most_used_frac(risk_frac: float, where: str | None = None) -> float:
    """Share of memory that a run may be predicted to use so that it runs out with a probability of at most this.

    Raises BadInput for a probability that is not known: below LEAST_FRAC, or above 1 - LEAST_FRAC.
    """
    if not LEAST_FRAC <= risk_frac <= 1 - LEAST_FRAC:
        raise BadInput(f"must be from 1 % to 99 %, within which the probability is known, got {risk_frac:.3g}", where)
    return float(EVEN_FRAC * (risk_frac / (1 - risk_frac)) ** WIDTH)


def out_of_memory_frac(used_frac: Number, even_frac: float = EVEN_FRAC, width: float = WIDTH) -> Number:
    """Probability of running out of memory of a run that is predicted to use so much of it."""
    steps = np.log(np.maximum(used_frac, 1e-9) / even_frac) / width
    return np.clip(1 / (1 + np.exp(-np.clip(steps, -50, 50))), LEAST_FRAC, 1 - LEAST_FRAC)


SAFE_USED_FRAC = most_used_frac(SAFE_RISK_FRAC)
"""Predicted share of memory up to which a layout is safe."""


def is_safe(total_B: Number, capacity_B: float) -> Truth:
    """Whether a run that is predicted to use so much runs out with a probability of at most SAFE_RISK_FRAC."""
    return total_B <= SAFE_USED_FRAC * capacity_B
