"""The verbs about what runs when: `pipeline`, `overlap`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from lockstep.api.calling import verb
from lockstep.api.exchanges import check_algorithm
from lockstep.api.network import LinkWords, flags, read_network
from lockstep.api.quantity import Quantity, Size, Time, Times
from lockstep.api.question import whole
from lockstep.errors import BadInput
from lockstep.units import list_parts, parse_frac, parse_size_B, parse_time_s

if TYPE_CHECKING:
    from lockstep.parallel.data import BucketSweep, Layers
    from lockstep.parallel.pipeline import Partition, Pipeline
    from lockstep.program import Program, Timeline
    from lockstep.simulate import Progress

MOST_PASSES = 200_000
MOST_LAYERS = 4096
MOST_ROWS = 128
USUAL_BUCKET_B = 25e6
"""Bytes; DistributedDataParallel's bucket_cap_mb is 25."""


class StageWords(TypedDict, total=False):
    """Keywords about the passes of a pipeline whose stages are known; see the verb `pipeline`."""

    microbatches: Quantity | None
    schedule: str | None
    chunks: Quantity | None
    forward_s: Times | None
    backward_s: Times | None
    weight_s: Times | None


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A pipeline step and when everything in it happens."""

    pipeline: Pipeline
    timeline: Timeline
    partition: Partition | None = None
    """How layers were split into stages, when they were given."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        split = None if self.partition is None else self.partition.to_dict()
        return {**self.pipeline.to_dict(), "partition": split}


@verb
def pipeline(
    *,
    stages: Quantity,
    microbatches: Quantity | None = None,
    target: Quantity | None = None,
    schedule: str | None = None,
    chunks: Quantity | None = None,
    layers: str | None = None,
    forward_s: Times | None = None,
    backward_s: Times | None = None,
    weight_s: Times | None = None,
    transfer_s: Times = 0.0,
    forward_comm_s: Times = 0.0,
    backward_comm_s: Times = 0.0,
    recompute: Quantity = 0.0,
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
    from lockstep.parallel.pipeline import pipeline as find
    from lockstep.simulate import simulate, unseen

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


def check_weight_s(weight_s: Times | None, program: Program, schedule: str) -> None:
    """Refuses a time for gradients of the weights where no pass of the program is theirs alone (W0, W1, ...)."""
    if weight_s is not None and not any(re.match(r"W\d", name) for name in program.names):
        raise BadInput(f"{schedule} runs the backward pass in one piece, so its parts change nothing", "--weight-s")


def _times(
    stages: int, layers: str | None, forward_s: Times | None, backward_s: Times | None
) -> tuple[Partition | None, dict[str, Any]]:
    """Forward and backward seconds of the stages, and the split they come from when layers are given."""
    if layers is None:
        forward_s, backward_s = 1.0 if forward_s is None else forward_s, 2.0 if backward_s is None else backward_s
        return None, {
            "forward_s": per_stage(forward_s, stages, "--forward-s"),
            "backward_s": per_stage(backward_s, stages, "--backward-s"),
        }
    from lockstep.parallel.pipeline import partition

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
        _few(sum(number for number, _ in groups))
    return groups


def _microbatches(
    schedule: str, stages: int, chunks: int | None, given: Quantity | None, target: Quantity | None,
    times: dict[str, Any],
) -> int:  # fmt: skip
    """The number given, or the fewest that reach the target."""
    from lockstep.parallel.pipeline import smallest_microbatches

    if (given is None) == (target is None):
        raise BadInput("give --microbatches, or --target for the fewest that reach it", "--microbatches")
    if given is not None:
        return whole(given, "--microbatches")
    if any(np.ndim(time) for time in times.values()) or times["recompute_frac"]:
        raise BadInput("needs equal stages without recomputation; give --microbatches", "--target")
    with flags("--target"):
        equal = {name: time for name, time in times.items() if name != "recompute_frac"}
        return smallest_microbatches(schedule, stages, parse_frac(target, "--target"), chunks=chunks, **equal)


def per_stage(value: Quantity, stages: int, where: str) -> Any:
    """One time, or one per stage between commas."""
    parts = list_parts(value, where) if isinstance(value, str) else [value]
    times = [parse_time_s(part, where) for part in parts]
    if len(times) == 1:
        return times[0]
    if len(times) != stages:
        raise BadInput(f"{len(times)} times for {stages} stages; give one, or one per stage", where)
    return np.array(times)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Steps of data parallelism by bucket size."""

    ranks: int
    algorithm: str | None
    """Of the all-reduce; None where each takes the fastest way across the levels of a cluster."""
    cluster: str | None
    efficiency: float
    layers: Layers
    sweep: BucketSweep

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        named = f"{self.algorithm or 'the fastest'} all-reduce"
        over = "" if self.cluster is None else f" across the levels of {self.cluster}"
        return {
            **self.sweep.to_dict(),
            "ranks": self.ranks,
            "layers": len(self.layers.backward_s),
            "algorithm": self.algorithm,
            "efficiency": self.efficiency,
            "assumptions": [
                f"{self.ranks} ranks; all collectives one after another on one stream, {named}{over}",
                "gradients become ready layer by layer, last layer first; a layer is never cut",
            ],
        }


@verb
def overlap(
    *,
    layers: str | Quantity,
    backward: Time | None = None,
    gradients: Size | None = None,
    forward: Time = 0.0,
    bucket_size: Size | None = None,
    sweep: bool = False,
    ranks: Quantity = 8,
    algorithm: str | None = None,
    efficiency: Quantity = 1.0,
    **link: Unpack[LinkWords],
) -> Overlap:
    """Bucketed all-reduce overlapped with the backward pass, for one bucket size (25 MB) or (`sweep`) for all.

    `layers`: a number of equal layers, that together take `backward` and hold `gradients`; or their list in forward
    order, as `96x5ms:7.3MB,1x9ms:120MB` (count x backward time : gradient bytes). `algorithm`: ring; on a cluster the
    fastest way across its levels, as in a training step.
    """
    from lockstep.parallel.data import sweep as find
    from lockstep.parallel.group import Traffic

    read = _layers(layers, backward, gradients, parse_time_s(forward, "--forward"))
    number, share = whole(ranks, "--ranks"), parse_frac(efficiency, "--efficiency")
    network = read_network(number, **link)
    network.check_filled()
    if sweep and bucket_size is not None:
        raise BadInput("conflicts with --sweep, which tries all sizes", "--bucket-size")
    sizes = (
        _sizes(read)
        if sweep
        else [parse_size_B(USUAL_BUCKET_B if bucket_size is None else bucket_size, "--bucket-size")]
    )
    name = "ring" if algorithm is None and network.cluster is None else algorithm
    if name is not None:
        check_algorithm("all-reduce", name, "--algorithm", network)
    with flags("--bucket-size"):
        if not sizes[0] > 0:
            raise BadInput("a bucket must be larger than 0", "bucket_B")
        found = find(read, Traffic(network.group, name or ""), sizes, efficiency=share)
    return Overlap(number, name, network.words()["cluster"], share, read, found)


def _layers(layers: str | Quantity, backward: Time | None, gradients: Size | None, forward_s: float) -> Layers:
    from lockstep.parallel.data import Layers

    text = str(layers)
    if "x" not in text and ":" not in text:
        if backward is None or gradients is None:
            where = "--backward" if backward is None else "--gradients"
            raise BadInput(
                "must be given with a number of layers: the seconds and bytes of all of them together", where
            )
        number = _few(whole(layers, "--layers"))
        with flags("--layers"):
            return Layers.equal(
                number, parse_time_s(backward, "--backward"), parse_size_B(gradients, "--gradients"), forward_s
            )
    if backward is not None or gradients is not None:
        raise BadInput("conflicts with the list of --layers", "--backward" if backward is not None else "--gradients")
    backward_s: list[float] = []
    gradient_B: list[float] = []
    for part in list_parts(text, "--layers"):
        count, cross, rest = part.partition("x")
        time, colon, size = rest.partition(":")
        if not cross or not colon:
            raise BadInput(f"{part!r} is not a group of layers; write it like 96x5ms:7.3MB", "--layers")
        number = _few(whole(count, "--layers") + len(backward_s)) - len(backward_s)
        backward_s += [parse_time_s(time, "--layers")] * number
        gradient_B += [parse_size_B(size, "--layers")] * number
    with flags("--layers"):
        return Layers(tuple(backward_s), tuple(gradient_B), forward_s)


def _few(number: int) -> int:
    if number > MOST_LAYERS:
        raise BadInput(f"{number} layers; at most {MOST_LAYERS} can be swept; merge several into one", "--layers")
    return number


def _sizes(layers: Layers) -> list[float]:
    """Sizes that close the first bucket after another layer; of very many, some that grow evenly."""
    sizes = sorted({size for size in np.cumsum(layers.gradient_B[::-1]).tolist() if size > 0})
    if not sizes:
        raise BadInput("the layers have no gradients, so there is nothing to put into buckets", "--layers")
    chosen = np.unique(np.geomspace(1, len(sizes), MOST_ROWS).round().astype(int)) - 1
    return sizes if len(sizes) <= MOST_ROWS else [sizes[i] for i in chosen.tolist()]
