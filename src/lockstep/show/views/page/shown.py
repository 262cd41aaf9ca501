"""Numbers as a page shows them: the steps of units for `format.js`, and values rounded to the digits that are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Floats, Ints
from lockstep.base.types.plain import Json
from lockstep.base.units import SIZE_STEPS, STEP_FROM, TIME_STEPS

Steps = Sequence[tuple[float, float, str]]
UNITS: Json = {
    "from": STEP_FROM,
    "time": {"zero": "0 s", "steps": TIME_STEPS},
    "size": {"zero": "0 B", "steps": SIZE_STEPS},
}
DIGITS = 4
"""Of a layout's time and memory."""


def as_shown(values: Floats, steps: Steps, digits: int = DIGITS) -> Floats:
    """Each value as it reads when it is written with so many digits: few different ones, and none reads otherwise."""
    factors = np.array([step[1] for step in steps])
    chosen = _unit(values, steps)
    scaled = values / factors[chosen]
    whole = np.floor(np.log10(np.maximum(np.abs(scaled), 1e-300)))
    tens = 10.0 ** np.maximum(0, digits - 1 - whole)
    rounded: Floats = np.rint(scaled * tens) / tens * factors[chosen]
    # 119.6 min is written 120 min, but 120 min 2 h.
    return np.where(_unit(rounded, steps) == chosen, rounded, values)


def _unit(values: Floats, steps: Steps) -> Ints:
    """Which step each value is written in."""
    above = np.array([step[0] for step in steps])
    chosen: Ints = np.minimum((np.abs(values)[:, None] < above * STEP_FROM).sum(axis=1), len(steps) - 1)
    return chosen
