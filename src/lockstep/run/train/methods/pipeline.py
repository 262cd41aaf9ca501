"""Pipeline parallelism: the layers are cut into stages, micro-batches follow one another through them.

Every schedule of `lockstep.simulate.parallel.pipeline` runs: its `Program`, the one that is priced and simulated, tells
each rank its passes in order and the messages between them. The gradient is that of the whole batch, whatever the
schedule. Schedules with two copies of the model add up the gradients of both.

Source: Huang et al. 2019, "GPipe" (arXiv 1811.06965); the schedules name their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.run.train.method import Losses, Method, register
from lockstep.run.train.methods.accumulation import check_microbatches, micro_batches
from lockstep.run.train.task import Task
from lockstep.run.train.worker import Worker
from lockstep.simulate.collectives.rounds import cut
from lockstep.simulate.parallel.pipeline import Placement, Schedule, Times, get, names, program
from lockstep.simulate.parallel.pipeline.construct import check, routes

if TYPE_CHECKING:
    from lockstep.run.train.device import Chunk, Device

FORWARD_S, BACKWARD_S = 1.0, 2.0  # assumed: nothing that runs depends on them


@dataclass(frozen=True, slots=True)
class Settings:
    """The schedule."""

    schedule: str = setting("1f1b", "Schedule of the passes.", choices=names)
    microbatches: int = setting(4, "Micro-batches per step.", least=1)
    chunks: int = setting(0, "Per device, where the schedule has a choice; 0 for its own.")


def run(worker: Worker, settings: Settings) -> Losses:
    """Does the passes of the program, then steps on the own stages."""
    schedule = get(settings.schedule)
    device, places = _device(worker, schedule, settings.microbatches, settings.chunks)
    optimizers = [worker.optimizer(chunk.flat.weights) for chunk in device.chunks]
    for step in worker.steps():
        for chunk in device.chunks:
            chunk.flat.gradients.zero_()
        loss = device.step(list(micro_batches(worker, step, settings.microbatches)))
        if schedule.placement is Placement.BOTH_WAYS:
            _add_other_copy(worker, device)
        for chunk, optimizer in zip(device.chunks, optimizers, strict=True):
            optimizer.step(chunk.flat.gradients)
        yield loss
    worker.notes["most_live"] = device.most_live
    _collect(worker, device, places, schedule.copies)


def _device(worker: Worker, schedule: Schedule, microbatches: int, given: int) -> tuple[Device, list[tuple[int, int]]]:
    """This rank's device, and for each of its chunks the range of pieces it holds."""
    from lockstep.run.train.device import Chunk, Device, passes

    stages = worker.ranks
    chunks = check(schedule, stages, microbatches, given or None)
    times = Times(FORWARD_S, BACKWARD_S, blocking=False)
    plan = program(schedule, stages, microbatches, chunks=chunks, times=times, cells=False)
    model = worker.new_model()
    shapes = _shapes(worker, model, microbatches)
    held: dict[int, Chunk] = {}
    places: dict[int, tuple[int, int]] = {}
    for route in routes(schedule.placement, stages, chunks):
        edges = cut(0, len(model), len(route)).tolist()
        for place, (rank, number) in enumerate(route):
            if rank == worker.rank:
                start, stop = places[number] = edges[place], edges[place + 1]
                layers = worker.new_model()[start:stop]
                last = place == len(route) - 1
                held[number] = Chunk(layers, place == 0, last, shapes[stop], shapes[start])
    numbers = sorted(held)
    device = Device(worker.wire, passes(plan, worker.rank), [held[number] for number in numbers], worker.dtype)
    return device, [places[number] for number in numbers]


def _shapes(worker: Worker, model: Any, microbatches: int) -> list[Any]:
    """Shapes of one micro-batch before the first piece and behind each."""
    import torch

    x, _ = next(micro_batches(worker, 0, microbatches))
    shapes = [x.shape]
    with torch.no_grad():
        for piece in model:
            x = piece(x)
            shapes.append(x.shape)
    return shapes


def _add_other_copy(worker: Worker, device: Device) -> None:
    """Stage s lies on devices s and p - 1 - s: both add the other's gradients to their own."""
    import torch

    own = [chunk.flat.gradients for chunk in device.chunks]
    theirs = torch.empty_like(torch.cat(own))
    other = worker.ranks - 1 - worker.rank
    worker.wire.exchange(torch.cat(own[::-1]), other, theirs, other)
    for mine, added in zip(own, theirs.split([len(gradients) for gradients in own]), strict=True):
        mine += added


def _collect(worker: Worker, device: Device, places: list[tuple[int, int]], copies: int) -> None:
    """All stages' weights on all ranks; of two copies, the first one's."""
    import torch

    ends = [0, *torch.tensor([sum(p.numel() for p in piece.parameters()) for piece in worker.model]).cumsum(0).tolist()]
    whole = torch.zeros_like(worker.flat.weights)
    for chunk, (start, stop) in zip(device.chunks[: len(device.chunks) // copies], places, strict=False):
        whole[ends[start] : ends[stop]] = chunk.flat.weights
    worker.wire.all_reduce(whole)
    worker.flat.load(whole)


def _check(task: Task, ranks: int, settings: Any) -> None:
    """Refuses what the schedule refuses, and a model with too few pieces."""
    schedule = get(settings.schedule)
    check_microbatches(task, 1, settings)
    with located("--set schedule"):
        chunks = check(schedule, ranks, settings.microbatches, settings.chunks or None)
    needed = ranks * (1 if schedule.placement is Placement.BOTH_WAYS else chunks)
    if task.layers < needed:
        raise BadInput(
            f"{schedule.name} on {ranks} ranks cuts {needed} virtual stages; give --layers {needed}", "--layers"
        )


PIPELINE = register(
    Method(
        name="pipeline",
        family="model parallel",
        summary="stages of layers, by any schedule's own program",
        source="Huang et al. 2019 (arXiv 1811.06965); each schedule names its own",
        run=run,
        settings=Settings,
        splits_batch=False,
        losses_everywhere=False,
        check=_check,
    )
)
