"""The outer update: what is done with the mean movement of a round.

    b <- mu b + delta
    x <- x - eta b                   heavy ball (FedAvgM, SlowMo)
    x <- x - eta (delta + mu b)      Nesterov (DiLoCo: eta = 0.7, mu = 0.9)
delta start of the round minus mean of its ends (`averaging`). eta = 1 and mu = 0 is plain parameter averaging.

Sources: A. Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023, algorithm 1;
T.-M. Hsu, H. Qi, M. Brown, 2019 (FedAvgM); J. Wang et al., "SlowMo", ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockstep.errors import BadInput

Array = Any


@dataclass(frozen=True, slots=True)
class Outer:
    """Rate, momentum and its kind. The state is the buffer b, zeros at first."""

    rate: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise BadInput(f"an outer rate must be above 0, got {self.rate:g}", "outer rate")
        if not 0 <= self.momentum < 1:
            raise BadInput(f"an outer momentum is from 0 to below 1, got {self.momentum:g}", "outer momentum")

    def update(self, start: Array, delta: Array, buffer: Array) -> tuple[Array, Array]:
        """(parameters of the next round, buffer)."""
        buffer = self.momentum * buffer + delta
        direction = delta + self.momentum * buffer if self.nesterov else buffer
        return start - self.rate * direction, buffer
