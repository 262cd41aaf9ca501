"""From the order of a schedule to a `Program`: one function for all schedules.

Every pass is a compute operation on lane `compute` of its device. F waits for F of the virtual stage before, B and I
for F of the same virtual stage and the backward pass of the one behind, W for its I. Between devices the dependency
is a message, on a lane of its own per kind of pass and chunk, so that messages of one kind and pair of devices
follow one another and nothing else queues. Overlapped messages take `transfer_s`; blocking ones take no time on
their lanes, and every F, B and I is followed by an exchange, a collective of one, that holds the device `transfer_s`
and counts as exposed communication. Cells and the traffic of passes: see `passes`. With
`priced_by_link` messages have no time of their own: the link given to `simulate` prices their bytes.

Memory: F adds `activation_B / v` when it starts, B or W frees it when it ends; with `activation_B = 1` the peak is the
number of live micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array, Number
from lockstep.base.types.plain import Json
from lockstep.base.types.progress import Progress
from lockstep.simulate.parallel.lanes import COMM, COMPUTE
from lockstep.simulate.parallel.pipeline.passes import Key, PassTimes, Scripts, Where, add_passes, kind_of
from lockstep.simulate.parallel.pipeline.schedule import Cells, Order, Placement, Schedule
from lockstep.simulate.parallel.pipeline.times import Times
from lockstep.simulate.play import unseen
from lockstep.simulate.program import Kind, Program, ProgramBuilder

Message = tuple[int, int, str, int, int]  # rank, peer, kind of pass, chunk of the sender, operation before or behind it


def routes(placement: Placement, stages: int, chunks: int) -> tuple[tuple[Where, ...], ...]:
    """The ways through the devices: one, or two when copies of the model run in both directions."""
    devices = range(stages)
    if placement is Placement.LOOPED:
        return (tuple((s, c) for c in range(chunks) for s in devices),)
    down, up = tuple((s, 0) for s in devices), tuple((s, 1) for s in reversed(devices))
    return (down + up,) if placement is Placement.VEE else (down, up)


def pass_seconds(schedule: Schedule, stages: int, chunks: int, times: Times) -> dict[str, Array]:
    """Seconds of each kind of pass [devices, chunks]. Times may have one value per device, or [devices, chunks]."""
    forward_s, backward_s = (_by_chunk(schedule, each, stages, chunks) for each in (times.forward_s, times.backward_s))
    frac = _by_chunk(schedule, times.weight_frac, stages, chunks, shared=False)
    for route in routes(schedule.placement, stages, chunks):
        forward_s[route[0]] += times.first_forward_s
        backward_s[route[0]] += times.first_backward_s
        forward_s[route[-1]] += times.last_forward_s
        backward_s[route[-1]] += times.last_backward_s
    return {"F": forward_s, "B": backward_s, "I": backward_s * (1 - frac), "W": backward_s * frac}


def _pass_times(schedule: Schedule, stages: int, chunks: int, times: Times, hold_s: float) -> PassTimes:
    """Seconds of passes, and of their traffic; weight gradients have none."""
    forward_s, backward_s = (
        _by_chunk(schedule, value, stages, chunks) for value in (times.forward_comm_s, times.backward_comm_s)
    )
    comm = {"F": forward_s, "B": backward_s, "I": backward_s, "W": np.zeros_like(backward_s)}
    return PassTimes(pass_seconds(schedule, stages, chunks, times), comm, float(times.comm_device_frac), hold_s)


def _by_chunk(schedule: Schedule, value: Number, stages: int, chunks: int, shared: bool = True) -> Array:
    """One value, or one per device, as an array (device, chunk); chunks of a device share it out evenly."""
    given = np.asarray(value, dtype=float)
    if given.ndim == 2:
        return given.copy()
    shares = chunks if shared and schedule.placement is not Placement.BOTH_WAYS else 1
    return np.repeat(np.broadcast_to(given, (stages,))[:, None], chunks, axis=1) / shares


def program(
    schedule: Schedule, stages: int, microbatches: int, *, times: Times, chunks: int | None = None, cells: bool = True,
    **options: object,
) -> Program:  # fmt: skip
    """One step of a pipeline as a program; forward_s, backward_s and weight_s may have one value per device.

    Without `cells` the two passes of a cell follow one another, and the first sends its message when it ends.
    `options`: see `write`.
    """
    chunks = check(schedule, stages, microbatches, chunks)
    order = schedule.order_for(stages, microbatches, chunks, times)
    given = schedule.cells(stages, microbatches, chunks) if cells and schedule.cells else None
    return program_of(schedule, order, chunks, times, cells=given, **options)


def check(schedule: Schedule, stages: int, microbatches: int, chunks: int | None) -> int:
    """The number of chunks, after refusing numbers the schedule does not exist for."""
    fixed = schedule.num_chunks
    if chunks is not None and fixed is not None and chunks != fixed:
        said = "1 chunk" if fixed == 1 else f"{fixed} chunks"
        raise BadInput(f"{schedule.name} has {said} per stage, got {chunks}; interleaved takes any number", "chunks")
    number = chunks or fixed or 2
    if not bool(schedule.valid(stages, microbatches, number)):
        given = f"stages={stages}, microbatches={microbatches}, chunks={number}"
        raise BadInput(f"{schedule.name} cannot run with {given}: {schedule.rule}")
    return number


def program_of(schedule: Schedule, order: Order, chunks: int, times: Times, **options: object) -> Program:
    """The program of any order with the placement of `schedule`; `options`: see `write`."""
    builder = ProgramBuilder(len(order), lanes(chunks))
    given: Json = dict(options)
    write(builder, schedule, order, chunks, times, **given)
    return builder.build()


def lanes(chunks: int, passes: tuple[str, ...] = (COMPUTE, COMM)) -> tuple[str, ...]:
    """The streams that `write` needs: those of `passes`, and four for the messages of each chunk."""
    return (*passes, *(f"{way} {kind}{c}" for c in range(chunks) for kind in "FB" for way in ("send", "recv")))


def write(
    builder: ProgramBuilder,
    schedule: Schedule,
    order: Order,
    chunks: int,
    times: Times,
    *,
    message_B: float = 0.0,
    activation_B: float | Sequence[float] | Array = 1.0,
    priced_by_link: bool = False,
    cells: Cells | None = None,
    scripts: Scripts | None = None,
    progress: Progress = unseen,
) -> list[list[int]]:
    """Adds passes and messages to a builder with the streams `lanes(chunks)`; returns what ends each device's work.

    `message_B` is the size of the activations (and of their gradients) between two virtual stages, `activation_B` what
    a device holds of a micro-batch: one value, one per device, or [devices, chunks]. `scripts` say what a pass does
    on its device; without them it computes as long as `times` says.
    """
    stages = len(order)
    hold_s = held_s(times, stages, priced_by_link)
    held_B = _by_chunk(schedule, np.asarray(activation_B, dtype=float), stages, chunks)
    transfer_s = 0.0 if times.blocking else float(times.transfer_s)
    spent = _pass_times(schedule, stages, chunks, times, hold_s) if scripts is None else scripts
    start, ready, late = add_passes(builder, order, cells, spent, chunks, held_B, progress)
    sends, recvs = _add_dependencies(builder, order, neighbours(schedule, stages, chunks), start, ready, progress)
    columns = {"size_B": message_B} | ({} if priced_by_link else {"duration_s": transfer_s})
    _add_messages(builder, sends, recvs, columns)
    return [
        [ready[kind_of(lane[-1][0]), lane[-1][1], (device, lane[-1][2])], *late[device]]
        for device, lane in enumerate(order)
    ]


def held_s(times: Times, stages: int, priced_by_link: bool = False) -> float:
    """Seconds that a message holds its device."""
    return float(times.transfer_s) if times.blocking and stages > 1 and not priced_by_link else 0.0


def neighbours(schedule: Schedule, stages: int, chunks: int) -> dict[Where, tuple[Where | None, Where | None]]:
    """What comes before and behind each chunk of each device on its route."""
    return {
        where: (route[k - 1] if k else None, route[k + 1] if k + 1 < len(route) else None)
        for route in routes(schedule.placement, stages, chunks)
        for k, where in enumerate(route)
    }


def _add_dependencies(
    builder: ProgramBuilder,
    order: Order,
    beside: dict[Where, tuple[Where | None, Where | None]],
    start: dict[Key, int],
    ready: dict[Key, int],
    progress: Progress,
) -> tuple[list[Message], list[Message]]:
    """Adds what passes wait for on their own device; returns (sends, receives) in the order they are made or needed."""
    waits: list[tuple[int, int]] = []
    sends: list[Message] = []
    recvs: list[Message] = []
    for device, lane in enumerate(order):
        for step, i, chunk in lane:
            here = (device, chunk)
            key = (kind_of(step), i, here)
            if step == "W":
                waits.append((start[key], ready["B", i, here]))
                continue
            before, behind = beside[here][:: 1 if step == "F" else -1]
            if step != "F":
                waits.append((start[key], ready["F", i, here]))
            if before is not None and before[0] == device:
                waits.append((start[key], ready[key[0], i, before]))
            elif before is not None:
                recvs.append((device, before[0], key[0], before[1], start[key]))
            if behind is not None and behind[0] != device:
                sends.append((device, behind[0], key[0], chunk, ready[key]))
        progress(len(order) + device + 1, 2 * len(order))
    if waits:
        builder.depend(*np.array(waits).T)
    return sends, recvs


def _add_messages(
    builder: ProgramBuilder, sends: list[Message], recvs: list[Message], columns: dict[str, float]
) -> None:
    """Messages of one kind of pass and one chunk of the sender have a lane and a tag of their own."""
    if not sends:
        return
    for kind, way, messages in ((Kind.SEND, "send", sends), (Kind.RECV, "recv", recvs)):
        rank, peer, what, chunk, other = zip(*messages, strict=True)
        streams = [builder.stream(f"{way} {step}{c}") for step, c in zip(what, chunk, strict=True)]
        tags = [2 * c + (step == "B") for step, c in zip(what, chunk, strict=True)]
        after = np.array(other) if way == "send" else None
        arrays = {"peer": np.array(peer), "stream": np.array(streams), "tag": np.array(tags)}
        ids = builder.extend(kind, np.array(rank), after=after, **arrays, **columns)
        if way == "recv":
            builder.depend(np.array(other), ids)
