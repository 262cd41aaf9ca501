"""A pipeline schedule, for given times or layers."""

import re
from typing import TYPE_CHECKING, Annotated, TypedDict

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import list_parts, parse_frac, parse_time_s
from lockstep.show.verbs.words.calling import strict, verb
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.quantity import Counts, Quantity, Time, Times
from lockstep.show.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.base.types.arrays import Floats
    from lockstep.simulate.parallel.pipeline import Partition, Pipeline, Point
    from lockstep.simulate.program import Program, Timeline


MOST_PASSES = 200_000

MOST_LAYERS = 4096


_TIMES = "Times per micro-batch: one value, or one per stage, separated by commas"
_CHUNKS = Option("V", "Model chunks per stage, if the schedule allows a choice.")
_FORWARD = Option("T", "Time of a stage's forward pass.", panel=_TIMES, default="1 s")
_BACKWARD = Option("T", "Time of a stage's whole backward pass.", panel=_TIMES, default="2 s")
_WEIGHT = Option("T", "Time for weight gradients, part of --backward-s.", panel=_TIMES, default="half of it")
TRANSFER = Option("T", "Time of a message between neighbouring stages.", panel=_TIMES, default="0")


class StageWords(TypedDict, total=False):
    """Keywords about the passes of a pipeline whose stages are known; see the verb `pipeline`."""

    microbatches: Annotated[Quantity | None, Option("M", "Micro-batches per step.")]
    schedule: Annotated[str | None, Option("S", "Pipeline schedule.", names="schedules", default="1f1b")]
    chunks: Annotated[Quantity | None, _CHUNKS]
    forward_s: Annotated[Times | None, _FORWARD]
    backward_s: Annotated[Times | None, _BACKWARD]
    weight_s: Annotated[Times | None, _WEIGHT]


@dataclass(frozen=True, slots=True, repr=False)
class PipelineRun(Shown):
    """A pipeline step and when everything in it happens."""

    pipeline: "Pipeline"
    timeline: "Timeline"
    partition: "Partition | None" = None
    """How layers were split into stages, when they were given."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return self.pipeline.to_dict() | picked(self, "partition")


STAGES = Option("P", "Number of pipeline stages; several values, separated by commas, with --schedule all.")
MICROBATCHES = Option("M", "Micro-batches per step; several values, separated by commas, with --schedule all.")
TARGET = Option(
    "FRAC", "Utilization, e.g. 95%: finds the fewest micro-batches that reach it; instead of --microbatches."
)
SCHEDULE = Option(
    "S",
    "Schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v ... or all, to compare them.",
    names="schedules",
    default="1f1b, interleaved with --chunks",
)
LAYERS = Option(
    "L", "Forward times of the layers in order, e.g. 30x10ms,1x14ms; they are split evenly into stages.", panel=_TIMES
)
FORWARD_COMM_S = Option(
    "T", "Part of --forward-s that is the experts' all-to-all; hidden in DualPipe's cells.", panel=_TIMES
)
BACKWARD_COMM_S = Option(
    "T", "Part of --backward-s that is the experts' all-to-all; hidden in DualPipe's cells.", panel=_TIMES
)
RECOMPUTE = Option("FRAC", "Share of the forward pass that is recomputed in the backward pass.")


@verb
def pipeline(
    *,
    stages: Annotated[Quantity, STAGES],
    microbatches: Annotated[Quantity | None, MICROBATCHES] = None,
    target: Annotated[Quantity | None, TARGET] = None,
    schedule: Annotated[str | None, SCHEDULE] = None,
    chunks: Annotated[Quantity | None, _CHUNKS] = None,
    layers: Annotated[str | None, LAYERS] = None,
    forward_s: Annotated[Times | None, _FORWARD] = None,
    backward_s: Annotated[Times | None, _BACKWARD] = None,
    weight_s: Annotated[Times | None, _WEIGHT] = None,
    transfer_s: Annotated[Times, TRANSFER] = 0.0,
    forward_comm_s: Annotated[Times, FORWARD_COMM_S] = 0.0,
    backward_comm_s: Annotated[Times, BACKWARD_COMM_S] = 0.0,
    recompute: Annotated[Quantity, RECOMPUTE] = 0.0,
    progress: Progress | None = None,
) -> PipelineRun:
    """One step of a schedule: the one named, else 1f1b, or interleaved with `chunks`.

    Times per micro-batch: one value, or one per stage between commas. `forward_comm_s` and `backward_comm_s`: of the
    passes, traffic that hides where a schedule pairs them.

    Without `microbatches`: the fewest that keep the devices busy for a share `target` of the step. `layers` (forward
    times in order, as `30x10ms,1x14ms`; backward takes twice as long) are split into stages so that the slowest is as
    fast as it can be. `progress` hears (done, total) now and then. Raises BadInput, and
    Infeasible for a target out of reach.
    """
    from lockstep.simulate.parallel.pipeline import pipeline as find
    from lockstep.simulate.play import simulate, unseen

    p = whole(stages, "--stages")
    v = None if chunks is None else whole(chunks, "--chunks")
    name = schedule if schedule is not None else "1f1b" if v in (None, 1) else "interleaved"
    split, times = _times(p, layers, forward_s, backward_s)
    times["transfer_s"] = parse_time_s(transfer_s, "--transfer-s")
    times["forward_comm_s"] = parse_time_s(forward_comm_s, "--forward-comm-s")
    times["backward_comm_s"] = parse_time_s(backward_comm_s, "--backward-comm-s")
    if weight_s is not None:
        times["weight_s"] = parse_time_s(weight_s, "--weight-s")
    times["recompute_frac"] = parse_frac(recompute, "--recompute")
    with flags("--schedule"):
        m = _microbatches(name, p, v, microbatches, target, times)
        if p * m * (v or 1) > MOST_PASSES:
            raise BadInput(f"{p} stages x {m} micro-batches are more than {MOST_PASSES:,} passes", "--microbatches")
        found = find(name, p, m, chunks=v, progress=progress or unseen, **times)
    check_weight_s(weight_s, found.program, name)
    if p == 1 and times["transfer_s"]:
        raise BadInput("one stage has no neighbour to send to", "--transfer-s")
    if found.makespan_s == 0:
        raise BadInput("all times are 0, so there is no pipeline to schedule", "--forward-s")
    return PipelineRun(found, simulate(found.program), split)


def few_layers(number: int) -> int:
    if number > MOST_LAYERS:
        raise BadInput(f"{number} layers; at most {MOST_LAYERS} can be swept; merge several into one", "--layers")
    return number


def check_weight_s(weight_s: Times | None, program: "Program", schedule: str) -> None:
    """Refuses a time for gradients of the weights where no pass of the program is theirs alone (W0, W1, ...)."""
    if weight_s is not None and not any(re.match(r"W\d", name) for name in program.names):
        raise BadInput(f"{schedule} runs the backward pass in one piece, so its parts change nothing", "--weight-s")


def _times(
    stages: int, layers: str | None, forward_s: Times | None, backward_s: Times | None
) -> "tuple[Partition | None, Json]":
    """Forward and backward seconds of the stages, and the split they come from when layers are given."""
    import numpy as np

    if layers is None:
        forward_s, backward_s = 1.0 if forward_s is None else forward_s, 2.0 if backward_s is None else backward_s
        return None, {
            "forward_s": per_stage(forward_s, stages, "--forward-s"),
            "backward_s": per_stage(backward_s, stages, "--backward-s"),
        }
    from lockstep.simulate.parallel.pipeline import partition

    if forward_s is not None or backward_s is not None:
        raise BadInput("conflicts with --layers", "--backward-s" if forward_s is None else "--forward-s")
    with flags("--layers"):
        split = partition([time for count, time in _groups(layers) for time in [time] * count], stages)
    held_s = np.array(split.stage_s)
    return split, {"forward_s": held_s, "backward_s": 2.0 * held_s}


def _groups(layers: str) -> list[tuple[int, float]]:
    """(number, forward seconds) of groups of equal layers."""
    groups: list[tuple[int, float]] = []
    for part in list_parts(layers, "--layers"):
        count, cross, time = part.partition("x")
        if not cross:
            raise BadInput(f"{part!r} is not a group of layers; write it like 30x10ms", "--layers")
        groups.append((whole(count, "--layers"), parse_time_s(time, "--layers")))
        few_layers(sum(number for number, _ in groups))
    return groups


def _microbatches(
    schedule: str, stages: int, chunks: int | None, given: Quantity | None, target: Quantity | None,
    times: Json,
) -> int:  # fmt: skip
    """The number given, or the fewest that reach the target."""
    import numpy as np

    from lockstep.simulate.parallel.pipeline import smallest_microbatches

    if (given is None) == (target is None):
        raise BadInput("give --microbatches, or --target for the fewest that reach it", "--microbatches")
    if given is not None:
        return whole(given, "--microbatches")
    if any(np.ndim(time) for time in times.values()) or times["recompute_frac"]:
        raise BadInput("needs equal stages without recomputation; give --microbatches", "--target")
    with flags("--target"):
        equal = {name: time for name, time in times.items() if name != "recompute_frac"}
        return smallest_microbatches(schedule, stages, parse_frac(target, "--target"), chunks=chunks, **equal)


def per_stage(value: Quantity, stages: int, where: str) -> "float | Floats":
    """One time, or one per stage between commas."""
    import numpy as np

    parts = list_parts(value, where) if isinstance(value, str) else [value]
    times = [parse_time_s(part, where) for part in parts]
    if len(times) == 1:
        return times[0]
    if len(times) != stages:
        raise BadInput(f"{len(times)} times for {stages} stages; give one, or one per stage", where)
    return np.array(times)


MOST_COMBINATIONS = 400

MOST_MICROBATCHES = 1 << 16


@dataclass(frozen=True, slots=True, repr=False)
class PipelineChoices(Shown):
    """Every schedule that runs on the given stages and micro-batches, and those that none beats."""

    points: "tuple[Point, ...]"
    front: "tuple[Point, ...]"

    def to_dict(self) -> Json:
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
    from lockstep.simulate.parallel.pipeline import pareto, points

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
