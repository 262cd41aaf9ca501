"""The verb `pipeline` with `--schedule all`: every schedule over numbers of stages and micro-batches, and the front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.api.calling import strict
from lockstep.api.network import flags
from lockstep.api.quantity import Counts, Quantity, Time
from lockstep.api.question import whole
from lockstep.errors import BadInput
from lockstep.units import list_parts, parse_time_s

if TYPE_CHECKING:
    from lockstep.parallel.pipeline import Point

MOST_COMBINATIONS = 400
MOST_MICROBATCHES = 1 << 16


@dataclass(frozen=True, slots=True)
class PipelineChoices:
    """Every schedule that runs on the given stages and micro-batches, and those that none beats."""

    points: tuple[Point, ...]
    front: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form; utilisation falls, and on the front memory rises with it."""
        front = set(self.front)
        rows = [point.to_dict() | {"pareto": point in front} for point in self.points]
        return {"points": sorted(rows, key=lambda row: -float(row["utilization_frac"]))}


@strict
def pipeline_choices(
    *,
    stages: Counts,
    microbatches: Counts,
    forward_s: Time = 1.0,
    backward_s: Time = 2.0,
    weight_s: Time | None = None,
    transfer_s: Time = 0.0,
) -> PipelineChoices:
    """Utilisation against memory of all schedules, each by its closed form.

    `stages` and `microbatches`: one number, or several between commas. Times are of a stage; with several numbers of
    stages, of a stage of the first, and the same model is cut into more or fewer. Raises BadInput.
    """
    from lockstep.parallel.pipeline import pareto, points

    cuts, numbers = _several(stages, "--stages"), _several(microbatches, "--microbatches")
    if len(cuts) * len(numbers) > MOST_COMBINATIONS:
        raise BadInput(f"{len(cuts)} x {len(numbers)} combinations; at most {MOST_COMBINATIONS}", "--microbatches")
    if max(numbers) > MOST_MICROBATCHES:
        raise BadInput(f"must be at most {MOST_MICROBATCHES:,}, got {max(numbers):,}", "--microbatches")
    with flags("--stages"):
        found = points(
            cuts, numbers,
            forward_s=cuts[0] * _positive_s(forward_s, "--forward-s"),
            backward_s=cuts[0] * _positive_s(backward_s, "--backward-s"),
            weight_s=None if weight_s is None else cuts[0] * parse_time_s(weight_s, "--weight-s"),
            transfer_s=parse_time_s(transfer_s, "--transfer-s"),
        )  # fmt: skip
    return PipelineChoices(tuple(found), tuple(pareto(found)))


def _several(value: Quantity, where: str) -> list[int]:
    """Whole numbers between commas, each once."""
    parts = list_parts(value, where) if isinstance(value, str) else [value]
    return list(dict.fromkeys(whole(part, where) for part in parts))


def _positive_s(value: Quantity, where: str) -> float:
    time_s = parse_time_s(value, where)
    if time_s == 0:
        raise BadInput("must be above 0 to compare schedules", where)
    return time_s
