"""The predicted step of every rank: `all_ranks` writes the step's program out for the ranks that were measured.

The step's program has one rank per stage, which stands for all that do the same. Measured ranks do not: so each
pipeline that has a measured rank is written with ranks of its own, and collectives join the ranks of their groups, as
far as these are written. Simulated without any difference between ranks it takes as long as the program it came from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Ints
from lockstep.decide.planner.estimate import Estimate
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.convolution import convolution_work
from lockstep.price.kernels.layer import embedding_work, head_work, layer_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import Job, Layout, layer_parameters, process_groups
from lockstep.price.step import step_program
from lockstep.price.step.passes import WAITING
from lockstep.price.step.stage import layer_inside, part_inside, part_times
from lockstep.simulate.program import Kind, Program, ProgramBuilder

LANES = {
    "tp": "tp", "cp": "cp", "ep": "ep", "ep in cells": "ep", "dp": "dp", "gradients": "dp", "pp": "pp",
}  # fmt: skip
"""Lanes of a step's program whose collectives join ranks -> the kind of their group."""
GROUP_OF = {"dp": "data"}
MOST_OPERATIONS = 400_000
SHARES = ("matmul", "attention", "elementwise", "optimizer")
"""Classes into which the prediction divides computing."""


@dataclass(frozen=True, eq=False)
class AllRanks:
    """The predicted step with a rank for every device written."""

    estimate: Estimate
    program: Program
    ranks: tuple[int, ...]
    """Number in the layout of every rank of the program."""
    stages: tuple[int, ...]
    part: tuple[str, ...]
    """Kind of the group of every operation (tp, dp, ...), `norm`, `compute`, `host`, `hold` or `late`; pp of messages
    and of what holds their devices meanwhile.

    `late` is what the prediction expects ranks to wait for slower ones: here ranks are written one by one.
    """
    shares: Floats
    """Of each operation's seconds, the share of every class of `SHARES`, `[operations, classes]`."""
    groups: tuple[tuple[int, ...], ...]
    """Ranks of the layout in every collective's group, by the program's `group`; also those that are not written."""


def all_ranks(estimate: Estimate, measured: Sequence[int]) -> AllRanks:
    """The step of `estimate` with ranks for all pipelines of the `measured` ranks.

    Raises BadInput for ranks that the layout does not have, or more than can be simulated.
    """
    layout = estimate.layout
    if wrong := [rank for rank in measured if not 0 <= rank < layout.world]:
        raise BadInput(f"rank {wrong[0]} was measured, but the layout has {layout.world} ranks", "layout")
    program = step_program(estimate.job, estimate.cluster, layout)
    lines = [line for line in process_groups(layout, "pp") if set(line) & set(measured)]
    most = max(1, MOST_OPERATIONS // len(program))
    lines = lines[:most]
    places = np.array(lines)
    written, groups, part = _written(program, layout, places)
    shares = _shares(estimate.job, estimate, program)
    return AllRanks(
        estimate,
        written,
        tuple(int(rank) for rank in places.ravel()),
        tuple(stage for _ in lines for stage in range(layout.pp)),
        tuple(one for one in part for _ in lines),
        np.repeat(shares, len(lines), axis=0),
        groups,
    )


def _written(program: Program, layout: Layout, places: Ints) -> tuple[Program, tuple[tuple[int, ...], ...], list[str]]:
    """(the program for all pipelines of `places`, ranks of its groups, part of every operation of the old one)."""
    copies, size = len(places), len(program)
    part = _parts(program)
    kinds = {*LANES.values(), "etp"} - {"pp"}
    members = {kind: _members(layout, GROUP_OF.get(kind, kind)) for kind in kinds}
    old_group, group = program.group, np.full((size, copies), -1)
    known: dict[object, int] = {}
    ranks: list[tuple[int, ...]] = []
    for i in np.flatnonzero(old_group >= 0).tolist():
        stage = int(program.rank[i])
        for copy in range(copies):
            rank = int(places[copy][stage])
            whole: tuple[int, ...] = ()
            if program.kind[i] == Kind.BARRIER:
                key: object = int(old_group[i])
            elif part[i] in members:
                label = program.name(int(program.label[i]))
                of = members[part[i]] if not label.startswith("etp") else members["etp"]
                whole = of[rank]
                key = (int(old_group[i]), whole)
            else:
                key = (int(old_group[i]), "alone", copy)
            number = group[i, copy] = known.setdefault(key, len(known))
            if number == len(ranks):
                ranks.append(whole)
            if not whole:
                ranks[number] = (*ranks[number], rank)
    builder = ProgramBuilder(copies * layout.pp, program.streams)
    repeated = {name: np.repeat(program.columns[name], copies) for name in _COPIED}
    line = np.tile(np.arange(copies), size)
    for name in ("label", "op"):
        text = np.array([builder.name(program.name(i)) for i in range(len(program.names))] + [-1])
        repeated[name] = text[repeated[name]]
    ids = builder.extend(
        **repeated,
        rank=line * layout.pp + np.repeat(program.rank, copies),
        peer=np.where(np.repeat(program.peer, copies) >= 0, line * layout.pp + np.repeat(program.peer, copies), -1),
        group=group.ravel(),
    ).reshape(size, copies)
    heads = np.repeat(np.arange(size), np.diff(program.after_start))
    builder.depend(ids[heads].ravel(), ids[program.after].ravel())
    return builder.build(), tuple(ranks), part


_COPIED = ("kind", "stream", "tag", "size_B", "duration_s", "label", "op")


def _members(layout: Layout, kind: str) -> dict[int, tuple[int, ...]]:
    """Ranks in the group of every rank."""
    return {rank: tuple(ranks) for ranks in process_groups(layout, kind) for rank in ranks}


def _parts(program: Program) -> list[str]:
    """What every operation is, as in `AllRanks.part`."""
    found = []
    for i in range(len(program)):
        lane, kind = program.streams[program.stream[i]], program.kind[i]
        label = program.name(int(program.label[i]))
        if kind in (Kind.SEND, Kind.RECV):
            found.append("pp")
        elif kind == Kind.BARRIER:
            found.append("norm")
        elif lane in LANES:
            found.append(LANES[lane])
        elif lane == WAITING:
            found.append("late")
        elif lane == "compute" and kind == Kind.COMPUTE:
            found.append("host" if label == "host" else "compute")
        else:
            found.append("hold")
    # What holds a device for a message that it sends is the message; every pass holds it, also those that send none.
    heads = np.repeat(np.arange(len(program)), np.diff(program.after_start))
    for other in program.after[program.kind[heads] == Kind.SEND].tolist():
        found[other] = "pp" if found[other] == "hold" else found[other]
    return found


def _shares(job: Job, estimate: Estimate, program: Program) -> Floats:
    """Shares of classes in the seconds of every operation: of forward passes, of backward ones, of the update."""
    forward, backward = _work(job, estimate)
    ends = _ends(job, estimate)
    found = np.zeros((len(program), len(SHARES)))
    for i in np.flatnonzero(program.kind == Kind.COMPUTE).tolist():
        label, seconds = program.name(int(program.label[i])), float(program.duration_s[i])
        if label == "optimizer":
            found[i, SHARES.index("optimizer")] = 1.0
            continue
        found[i, :3] = backward if label[:1] in ("B", "I") else (1.0, 0.0, 0.0) if label[:1] == "W" else forward
        for way, end_s, share in ends:
            if label[:1] == way and np.isclose(seconds, end_s, rtol=1e-6):
                found[i, :3] = share
    return found


def _ends(job: Job, estimate: Estimate) -> list[tuple[str, float, Floats]]:
    """(pass, seconds, shares) of the embedding and of the head, which are operations of their own."""
    if job.transformer is None:
        return []
    clock = Clock.of(estimate.cluster.device, job.recipe)
    shard = Shard(job.transformer, estimate.layout.grid(), job.recipe, clock)
    rows = []
    for alone in (embedding_work(shard), head_work(shard)):
        passes, times = part_inside(clock, alone), part_times(clock, job.recipe, shard.grid, alone)
        rows.append(("F", float(np.asarray(times.compute_forward_s)), _share(passes.forward)))
        rows.append(("B", float(np.asarray(times.compute_backward_s)), _share(passes.backward)))
    return rows


def _work(job: Job, estimate: Estimate) -> tuple[Floats, Floats]:
    """Shares of products, attention and the rest in a forward and a backward pass of a layer, all kinds together."""
    recipe, grid = job.recipe, estimate.layout.grid()
    clock = Clock.of(estimate.cluster.device, recipe)
    if job.transformer is None:
        passes = part_inside(clock, convolution_work(job, grid, clock))
        return _share(passes.forward), _share(passes.backward)
    shard = Shard(job.transformer, grid, recipe, clock)
    forward, backward, whole = Work(), Work(), layer_parameters(job, grid)
    for kind in job.kinds:
        work, again, states = layer_inside(shard, kind, states_work(shard, kind, whole[kind.stored]))
        backward = backward + work.backward + states.backward + again
        forward = forward + work.forward + states.forward
    return _share(forward), _share(backward)


def products_beside(estimate: Estimate) -> float:
    """Seconds of products inside of the predicted layers over those of the same products alone."""
    job = estimate.job
    if job.transformer is None:
        return 1.0
    shard = Shard(job.transformer, estimate.layout.grid(), job.recipe, Clock.of(estimate.cluster.device, job.recipe))
    works = [(layer_inside(shard, kind)[0], layer_work(shard, kind)) for kind in job.kinds]
    inside_s, alone_s = (
        sum(float(np.asarray(one.forward.matmul_s)) for one in side) for side in zip(*works, strict=True)
    )
    return inside_s / alone_s if alone_s else 1.0


def _share(work: Work) -> Floats:
    seconds = np.array([float(np.asarray(one)) for one in (work.matmul_s, work.attention_s, work.stream_s)])
    total = float(seconds.sum())
    return seconds / total if total else np.array([1.0, 0.0, 0.0])
