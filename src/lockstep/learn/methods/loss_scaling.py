"""Loss scaling: multiply the loss so that small gradients survive 16 bits, divide before they are used.

    static:  scale S for ever; a step whose gradients are not all finite is skipped
    dynamic: S <- S * backoff and skip the step when any gradient of any rank is not finite,
             S <- S * growth after `interval` steps in a row that were
A power of two changes no significand, so scaling up and down is exact while nothing leaves the range. The decision
must be one for all ranks: look after the all-reduce, or reduce the flag. When a gradient of steady size overflows at
the next scale up, growing tries it every `interval` steps: 1 step in interval + 1 is lost.

Sources: Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2; PyTorch's GradScaler (defaults).

`clip_by_norm`: shorten a gradient that is longer than a limit, keep its direction.

    g <- g min(1, limit / |g|_2)                             |g| over all layers together
Not linear, so it does not commute with anything that changes a length: clip after the mean over ranks and
micro-batches, and after the loss scale is divided out; `limit` then means the same for every scale. It repairs no
overflow: one infinite entry gives a factor of 0 and 0 * infinity is not a number.

Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.learn.methods.arrays import Array, ieee, namespace

START_SCALE = 2.0**16  # PyTorch GradScaler's init_scale
GROWTH = 2.0  # PyTorch GradScaler's growth_factor
BACKOFF = 0.5  # PyTorch GradScaler's backoff_factor
GROWTH_INTERVAL = 2000  # PyTorch GradScaler's growth_interval


@dataclass(frozen=True, slots=True)
class LossScale:
    """A scale and its rule. Immutable: `after` gives the next one."""

    scale: float = START_SCALE
    growth: float = GROWTH
    backoff: float = BACKOFF
    interval: int = GROWTH_INTERVAL
    """Finite steps in a row before the scale grows."""
    finite_steps: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise BadInput(f"scale = {self.scale:g}: a loss scale is positive and finite, best a power of two", "scale")
        if not 1 <= self.growth < math.inf:
            raise BadInput(f"growth = {self.growth:g}: at least 1 (1 never grows) and finite", "growth")
        if not 0 < self.backoff <= 1:
            raise BadInput(f"backoff = {self.backoff:g}: above 0 and at most 1 (1 never shrinks)", "backoff")
        if self.interval < 1:
            raise BadInput(f"interval = {self.interval}: at least one step", "interval")

    def after(self, finite: bool) -> LossScale:
        """The scale for the next step, given whether all gradients of this one were finite."""
        if not finite:
            return replace(self, scale=self.scale * self.backoff, finite_steps=0)
        if self.finite_steps + 1 < self.interval:
            return replace(self, finite_steps=self.finite_steps + 1)
        grown = self.scale * self.growth
        return replace(self, scale=grown if grown < math.inf else self.scale, finite_steps=0)


def static(scale: float) -> LossScale:
    """A scale that never changes."""
    return LossScale(scale, growth=1.0, backoff=1.0)


def all_finite(gradients: Sequence[Array]) -> bool:
    """Whether no entry of any layer [...] is infinite or NaN."""
    return all(bool(namespace(gradient).isfinite(gradient).all()) for gradient in gradients)


@ieee
def unscaled(gradients: Sequence[Array], scale: float) -> tuple[Array, ...]:
    """The layers [...] divided by the scale."""
    return tuple(gradient / scale for gradient in gradients)


def lost_steps_frac(interval: int) -> float:
    """Share of steps skipped in the long run when one doubling too many overflows: 1 / (interval + 1)."""
    return 1 / (interval + 1)


@ieee
def clip_by_norm(gradients: Sequence[Array], limit: float) -> tuple[Array, ...]:
    """The layers [...], scaled together to a norm of at most `limit`. Raises BadInput unless the limit is positive."""
    if not 0 < limit < float("inf"):
        raise BadInput(f"limit = {limit:g}: a norm to clip to is positive and finite", "limit")
    length = float(sum(float((gradient * gradient).sum()) for gradient in gradients)) ** 0.5
    factor = min(1.0, limit / length) if length else 1.0
    return tuple(gradient * factor for gradient in gradients)
