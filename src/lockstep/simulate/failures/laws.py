"""Laws of the time between interruptions of a job: exponential, Weibull, or a trace.

    exponential:mean=3.1h
    weibull:mean=3.1h,shape=0.7       shape < 1: failures come in bunches; shape = 1 is exponential
    trace:gaps.csv                    column `time_s`, or the first one; drawn with replacement

    Weibull: P(gap > t) = exp(-(t / scale)^shape),   mean = scale * Gamma(1 + 1 / shape)
A gap is drawn anew after every interruption (a renewal process). For clusters in service, shapes of 0.7 to 0.8 fit.

Source: B. Schroeder and G. A. Gibson, "A large-scale study of failures in high-performance computing systems",
DSN 2006, section 5.3 (Weibull, shape 0.7 to 0.8).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.units import parse_number, parse_time_s
from lockstep.simulate.play import Empirical, Exponential

NAMES = ("exponential", "weibull", "trace")


class GapLaw(Protocol):
    """What a law of gaps must have; the laws of `lockstep.simulate.play` do."""

    @property
    def mean_s(self) -> float:
        """Mean gap."""

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        """Independent gaps in seconds: [number]."""


@dataclass(frozen=True, slots=True)
class Weibull:
    """Weibull law by its mean and shape."""

    mean_s: float
    shape: float

    def __post_init__(self) -> None:
        if not (0 < self.mean_s < math.inf and 0.1 <= self.shape <= 100):
            raise BadInput(f"a Weibull law needs a mean above 0 and a shape of 0.1 to 100, got {self}")

    @property
    def scale_s(self) -> float:
        """Time by which 1 - 1/e of the gaps have ended."""
        return self.mean_s / math.gamma(1 + 1 / self.shape)

    def survival_frac(self, time_s: float) -> float:
        """P(gap > time_s)."""
        return math.exp(-((time_s / self.scale_s) ** self.shape))

    def draw(self, generator: np.random.Generator, number: int) -> Array:
        """Independent gaps in seconds: [number]."""
        return self.scale_s * generator.weibull(self.shape, number)


def parse_gap_law(text: str, where: str | None = None) -> GapLaw:
    """The law behind text such as `weibull:mean=3h,shape=0.7`."""
    name, _, rest = text.strip().partition(":")
    if name == "trace":
        law = Empirical.read(rest.strip())
        if not law.mean_s > 0:
            raise BadInput("a trace of gaps needs a mean above 0", where)
        return law
    if name not in NAMES:
        raise UnknownName("law of failures", name, NAMES, where)
    keys = ("mean", "shape") if name == "weibull" else ("mean",)
    given = dict(part.partition("=")[::2] for part in rest.replace(" ", "").split(",") if part)
    if set(given) != set(keys):
        raise BadInput(f"the law {name} needs {' and '.join(keys)}, got {rest!r}", where)
    mean_s = parse_time_s(given["mean"], where)
    if not mean_s > 0:
        raise BadInput(f"the law {name} needs mean > 0, got {given['mean']}", where)
    if name == "exponential":
        return Exponential(mean_s)
    shape = parse_number(given["shape"], where)
    if not 0.1 <= shape <= 100:
        raise BadInput(f"a Weibull law needs a shape of 0.1 to 100, got {shape:g}", where)
    return Weibull(mean_s, shape)
