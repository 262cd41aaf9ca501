"""What listings of the guide do when they run: layers split over ranks, and the order of messages in a pipeline."""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides


def _layer(rows: int, width: int) -> tuple[Array, Array, Array]:
    """Inputs, weights of a square layer and its bias, of whole numbers, so that sums are exact in any order."""
    x = np.arange(rows * width, dtype=float).reshape(rows, width)
    return x, np.arange(width * width, dtype=float).reshape(width, width), np.arange(width, dtype=float)


def _outputs(ranks: int, bias: str, rows: int, width: int) -> list[Array]:
    """Of a layer that is split by rows, by rank; the bias is added where `bias` says.

    `first`: on rank 0 after the all-reduce; `before`: on every rank before it; `after`: on every rank after it.
    """
    x, weights, added = _layer(rows, width)
    parts = [a @ b for a, b in zip(np.split(x, ranks, axis=1), np.split(weights, ranks), strict=True)]
    total = sum(part + added * (bias == "before") for part in parts)
    return [total + added * (bias == "after" or (bias == "first" and rank == 0)) for rank in range(ranks)]


@decides("simulated")
def right_ranks(ranks: int, bias: str, rows: int, width: int) -> int:
    """Ranks whose output of a layer that is split by rows is right, by where the bias is added."""
    x, weights, added = _layer(rows, width)
    return sum(bool(np.array_equal(output, x @ weights + added)) for output in _outputs(ranks, bias, rows, width))


@decides("simulated")
def bias_times(ranks: int, bias: str, rank: int, rows: int, width: int) -> float:
    """How often the bias is in the output of a rank."""
    x, weights, added = _layer(rows, width)
    over = _outputs(ranks, bias, rows, width)[rank] - x @ weights
    return float(over.sum() / (rows * added.sum()))


@decides("simulated")
def right_gradients(ranks: int, reduced: bool, rows: int, width: int) -> int:
    """Ranks whose gradient of the inputs of a layer split by columns is right, with or without its all-reduce."""
    x, weights, _ = _layer(rows, width)
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

    `fused`: a stage posts the message after the one it waits in together with that.
    """
    left = _orders(stages, microbatches)

    def posted(stage: int) -> list[tuple[str, int]]:
        """What the stage waits in."""
        return left[stage][: 1 + fused]

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
    return next((number for number in range(most) if not finishes(stages, number + 1, fused)), most)
