"""`Series`: the values of a quantity over a run in constant memory, and whether they drift.

    slope  = median over i < j of (m_j - m_i) / (j - i)              Theil and Sen
    z      = S / sqrt(n (n - 1) (2 n + 5) / 18),   S = sum over i < j of sign(m_j - m_i)        Mann and Kendall

m_i the medians of n blocks of equally many values. A median of blocks is left unmoved by single slow steps, such as
those that save or evaluate, and neither statistic assumes a law of the values.

Sources: Sen, Journal of the American Statistical Association 63 (1968) 1379; Kendall, Rank Correlation Methods (1975).
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import MutableSequence
from statistics import median

import numpy as np

from lockstep.base.records import dataclass, field
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json, picked

MOST = 1 << 17
"""Values that are kept: when there are more, every second one is dropped, and so on."""
RECENT = 31
BLOCKS, FEWEST_BLOCKS = 40, 8
DRIFT_Z, DRIFT_FRAC = 3.0, 0.02
"""What is called a drift: a trend that chance gives once in 370 runs, which moves the step by at least 2 %. Chosen."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How a quantity moves over a run."""

    change_frac: float
    """From the first block to the last along the robust slope, as a fraction of the median."""
    z: float
    blocks: int

    @property
    def found(self) -> bool:
        """Whether it is more than chance and more than a trifle."""
        return abs(self.z) > DRIFT_Z and abs(self.change_frac) > DRIFT_FRAC

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "change_frac z blocks found")


@dataclass(slots=True)
class Series:
    """Values in their order."""

    count: int = 0
    _kept: MutableSequence[float] = field(default_factory=lambda: array("d"))
    _at: MutableSequence[float] = field(default_factory=lambda: array("d"))
    _every: int = 1
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, value: float, at: float = 0.0) -> None:
        """Adds a value, of the step `at`."""
        if self.count % self._every == 0:
            self._kept.append(value)
            self._at.append(at)
            if len(self._kept) >= MOST:
                self._kept, self._at, self._every = self._kept[::2], self._at[::2], 2 * self._every
        self.count += 1
        self._recent.append(value)

    @property
    def median(self) -> float | None:
        """Of all values; of evenly spaced ones where there are more than MOST."""
        return float(np.median(self._kept)) if self._kept else None

    @property
    def recent(self) -> float | None:
        """The median of the last values."""
        return median(self._recent) if self._recent else None

    def points(self, most: int) -> tuple[Floats, Floats]:
        """Steps and their values, at most so many, evenly spaced."""
        each = max(1, -(-len(self._kept) // most))
        return np.asarray(self._at)[::each], np.asarray(self._kept)[::each]

    def blocks(self) -> list[float]:
        """Medians of BLOCKS blocks of equally many values, or of single values where there are fewer; in order."""
        each = max(1, len(self._kept) // BLOCKS)
        values = np.asarray(self._kept)
        return [float(np.median(values[at : at + each])) for at in range(0, len(values) - each + 1, each)]

    def drift(self) -> Drift | None:
        """None of too few values."""
        found = np.asarray(self.blocks())
        n = len(found)
        if n < FEWEST_BLOCKS:
            return None
        first, second = np.triu_indices(n, 1)
        apart = found[second] - found[first]
        slope = float(np.median(apart / (second - first)))
        z = float(np.sign(apart).sum()) / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
        middle = float(np.median(found))
        return Drift(slope * (n - 1) / middle if middle else 0.0, z, n)
