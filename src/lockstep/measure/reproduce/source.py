"""`Source`: one thing that makes two runs of the same mathematics differ in bits, and how to switch it.

    reduction-order   gradients are added in another order of ranks: the all-reduce by another algorithm
    rank-order        worker k takes the share of worker n - 1 - k
    dtype             64 bits instead of 32
    data-order        another shuffle of the samples
    dropout-seed      other inputs are dropped
The first two change no sum of real numbers, only its rounding: addition of floating-point numbers is not associative.

Source: D. Goldberg, "What every computer scientist should know about floating-point arithmetic", ACM Computing Surveys
23 (1991), section 1.4 (addition is not associative).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lockstep.measure.train import Task, find_method

Change = Callable[[Task, Mapping[str, object]], "tuple[Task, dict[str, object]]"]
OTHER_ALGORITHM = "recursive-doubling"


@dataclass(frozen=True, slots=True)
class Source:
    """A name, what it changes in words, and the change."""

    name: str
    summary: str
    change: Change

    def fits(self, method: str) -> bool:
        """Whether the method has it."""
        return self.name != "reduction-order" or "algorithm" in find_method(method).setting_names


def _dtype(task: Task, settings: Mapping[str, object]) -> tuple[Task, dict[str, object]]:
    return replace(task, dtype="float64" if task.dtype == "float32" else "float32"), dict(settings)


SOURCES = {
    source.name: source
    for source in (
        Source(
            "reduction-order",
            f"all-reduce by {OTHER_ALGORITHM}",
            lambda task, settings: (task, {**settings, "algorithm": OTHER_ALGORITHM}),
        ),
        Source(
            "rank-order",
            "shares of the batch dealt from the last rank",
            lambda task, settings: (replace(task, reversed_ranks=True), dict(settings)),
        ),
        Source("dtype", "weights and gradients in the other type", _dtype),
        Source(
            "data-order",
            "another shuffle",
            lambda task, settings: (replace(task, data_seed=task.shuffle_seed + 1), dict(settings)),
        ),
        Source(
            "dropout-seed",
            "other inputs dropped",
            lambda task, settings: (replace(task, dropout_seed=task.dropout_seed + 1), dict(settings)),
        ),
    )
}
