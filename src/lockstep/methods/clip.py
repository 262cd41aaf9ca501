"""Gradient clipping by norm: shorten a gradient that is longer than a limit, keep its direction.

    g <- g min(1, limit / |g|_2)                             |g| over all layers together
Not linear, so it does not commute with anything that changes a length: clip after the mean over ranks and
micro-batches, and after the loss scale is divided out; `limit` then means the same for every scale. It repairs no
overflow: one infinite entry gives a factor of 0 and 0 * infinity is not a number.

Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.errors import BadInput
from lockstep.methods.arrays import Array, ieee


@ieee
def clip_by_norm(gradients: Sequence[Array], limit: float) -> tuple[Array, ...]:
    """The layers, scaled together to a norm of at most `limit`. Raises `BadInput` unless the limit is positive."""
    if not 0 < limit < float("inf"):
        raise BadInput(f"limit = {limit:g}: a norm to clip to is positive and finite", "limit")
    length = float(sum(float((gradient * gradient).sum()) for gradient in gradients)) ** 0.5
    factor = min(1.0, limit / length) if length else 1.0
    return tuple(gradient * factor for gradient in gradients)
