"""What was kept of a run: arrays by step and name, each of a kind by which it is compared before others.

A step reads data, takes a learning rate, has a loss, then gradients, then new weights. What differs first in this order
is where two runs part; what comes after follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Array

KINDS = ("data", "setting", "loss", "gradient", "state")
DATA, SETTING, LOSS, GRADIENT, STATE = KINDS
_DATA = {"data", "batch", "sample", "samples", "tokens", "inputs", "indices"}
"""With which a name begins or ends."""
_RATES = {"lr", "rate"}
"""With which one ends."""
_CLOCK = re.compile(
    r"tim(?:e|ing)|elapsed|second|\bsec|_sec|\bms\b|_ms\b|/s\b|per[_ ]s|tps|flop|mfu|hfu|mem|throughput|speed"
    r"|\bdate|\beta\b|wall|s/it\b|\bgib?\b|\bmib?\b|reserved|alloc|util|consumed|skipped|world|\bdt\b|epoch",
    re.IGNORECASE,
)
"""What a log says of the machine and of how far it is, which differs from run to run or follows from the step."""


def kind_of(name: str) -> str:
    """One of KINDS, by the words of a name."""
    words = [word for word in re.split(r"[^a-z]+", name.lower()) if word]
    if "loss" in words or "losses" in words:
        return LOSS
    if any(word.startswith("grad") for word in words):
        return GRADIENT
    if _DATA & {*words[:1], *words[-1:]}:
        return DATA
    return SETTING if _RATES & {*words[-1:]} else STATE


def is_of_the_clock(name: str) -> bool:
    """Whether a log's number is of time, speed or memory."""
    return bool(_CLOCK.search(name))


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A run's arrays by step, then by name."""

    name: str
    steps: Mapping[int, Mapping[str, Array]]
    digits: Mapping[str, int] = field(default_factory=dict)
    """Significant digits that a log prints of a number; nothing of arrays that are kept to the bit."""

    def has(self, kind: str, step: int) -> bool:
        """Whether anything of that kind is kept of the step."""
        return any(kind_of(name) == kind for name in self.steps[step])
