"""What listings of the guide do when they run: layers split over ranks, and the order of messages in a pipeline."""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides

WIDTH, OUT, ROWS = 12, 6, 5
"""Of the small layer that is split: no answer depends on them as long as ranks divide the width."""


def _layer() -> tuple[Array, Array, Array]:
    """Inputs, weights and bias of whole numbers, so that sums are exact in any order."""
    x = np.arange(ROWS * WIDTH, dtype=float).reshape(ROWS, WIDTH) % 7 - 3
    weights = np.arange(WIDTH * OUT, dtype=float).reshape(WIDTH, OUT) % 5 - 2
    return x, weights, np.arange(1.0, OUT + 1)


@decides("simulated")
def right_ranks(ranks: int, bias: str) -> int:
    """Ranks whose output of a layer that is split by rows is right, by where the bias is added.

    `first`: on rank 0 after the all-reduce; `before`: on every rank before it; `after`: on every rank after it.
    """
    x, weights, added = _layer()
    parts = [a @ b for a, b in zip(np.split(x, ranks, axis=1), np.split(weights, ranks), strict=True)]
    total = sum(part + added * (bias == "before") for part in parts)
    outputs = [total + added * (bias == "after" or (bias == "first" and rank == 0)) for rank in range(ranks)]
    return sum(bool(np.array_equal(output, x @ weights + added)) for output in outputs)


@decides("simulated")
def right_gradients(ranks: int, reduced: bool) -> int:
    """Ranks whose gradient of the inputs of a layer split by columns is right, with or without its all-reduce."""
    x, weights, _ = _layer()
    slope = x @ weights
    parts = [a @ b.T for a, b in zip(np.split(slope, ranks, axis=1), np.split(weights, ranks, axis=1), strict=True)]
    found = [sum(parts)] * ranks if reduced else parts
    return sum(bool(np.array_equal(one, slope @ weights.T)) for one in found)


def _orders(stages: int, microbatches: int) -> list[list[tuple[str, int]]]:
    """Of each stage of 1F1B its sends and receives in order, each (way, peer); F to the next stage, B back."""
    orders = []
    for stage in range(stages):
        warm = min(stages - 1 - stage, microbatches)
        take = [("from", stage - 1)] if stage else []
        give = [("to", stage + 1)] if stage < stages - 1 else []
        back_in = [("from", stage + 1)] if stage < stages - 1 else []
        back_out = [("to", stage - 1)] if stage else []
        steady = microbatches - warm
        orders.append((take + give) * warm + (take + give + back_in + back_out) * steady + (back_in + back_out) * warm)
    return orders


@decides("simulated")
def finishes(stages: int, microbatches: int, fused: bool) -> int:
    """Whether a 1F1B pipeline of sends that wait for their receiver ends (1), or all wait for one another (0).

    `fused`: a send and the receive after it from the same peer are posted together.
    """
    left = _orders(stages, microbatches)

    def posted(stage: int) -> list[tuple[str, int]]:
        """What the stage waits in: one message, or two that go both ways."""
        rest = left[stage]
        both = fused and len(rest) > 1 and rest[0][1] == rest[1][1] and rest[0][0] != rest[1][0]
        return rest[: 2 if both else 1]

    def meets(stage: int) -> bool:
        """Whether one of its messages meets one that its peer has posted; both are through then."""
        for way, peer in posted(stage):
            other = ("from" if way == "to" else "to", stage)
            if other in posted(peer):
                left[stage].remove((way, peer))
                left[peer].remove(other)
                return True
        return False

    while any(meets(stage) for stage in range(stages)):
        pass
    return int(not any(left))


@decides("simulated")
def most_that_end(stages: int, most: int, fused: bool) -> int:
    """Largest number of micro-batches, of `most`, up to which such a pipeline ends."""
    ends = [finishes(stages, number, fused) for number in range(1, most + 1)]
    return ends.index(0) if 0 in ends else most
