"""Schedules of torch.distributed.pipelining as torch builds them, over a process group whose other ranks do not exist.

The constructors run whole: they refuse what torch refuses, and check that every message of the order is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lockstep.decide.planner.export.torchtitan import SCHEDULES

Passes = list[tuple[str, int, int]]
"""(pass, micro-batch, chunk) of one device, in order; F, B, I and W as Lockstep has them."""
NAMES = {**SCHEDULES, "zb-h1": "InterleavedZeroBubble"}
"""torch's name of each of Lockstep's schedules that it has."""
VEE = ("zb-v", "dualpipe-v")
FIRST = "Schedule1F1B", "ScheduleGPipe"
"""Classes that run an order of their own, not the one that they list."""


@contextmanager
def group_of(ranks: int, rank: int = 0) -> Iterator[None]:
    """A process group of so many ranks, of which this process is one."""
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def built(name: str, ranks: int, microbatches: int, chunks: int, module: Any = None) -> Any:
    """The schedule of the group's first rank, by torch's name of it; raises what torch raises."""
    import torch
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    module = torch.nn.Linear(1, 1) if module is None else module
    kind, device = get_schedule_class(name), torch.device("cpu")
    stages = [PipelineStage(module, chunk * ranks, ranks * chunks, device) for chunk in range(chunks)]
    one = issubclass(kind, PipelineScheduleSingle)
    return kind(stages[0] if one else stages, n_microbatches=microbatches, loss_fn=len, scale_grads=False)


def order_of(schedule: Any, ranks: int, vee: bool) -> list[Passes]:
    """What every rank runs: of classes with one stage by running it, of the others as they wrote it down."""
    if type(schedule).__name__ in FIRST:
        return [_run(schedule, rank) for rank in range(ranks)]
    return [plain(schedule.pipeline_order[rank], ranks, vee) for rank in range(ranks)]


def plain(actions: Any, stages: int, vee: bool) -> Passes:
    """Computing actions as passes; overlapped pairs one after the other."""
    flat = [part for action in actions if action is not None for part in (action.sub_actions or (action,))]
    chunk = (lambda stage: int(stage >= stages)) if vee else (lambda stage: stage // stages)
    kept = [part for part in flat if part.computation_type.value in "FIWB"]
    return [(part.computation_type.value, part.microbatch_index, chunk(part.stage_index)) for part in kept]


class Listened:
    """A stage that notes the passes that it is asked to run; it has no messages."""

    def __init__(self, stage: Any, index: int) -> None:
        self.stage, self.stage_index, self.passes = stage, index, list[tuple[str, int, int]]()

    def forward_one_chunk(self, number: int, *_: Any, **__: Any) -> None:
        """Notes a forward pass."""
        self.passes.append(("F", number, 0))

    def backward_one_chunk(self, number: int, *_: Any, **__: Any) -> None:
        """Notes a backward pass."""
        self.passes.append(("B", number, 0))

    def no_messages(self, *_: Any) -> list[Any]:
        """Nothing to send or to receive."""
        return []

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_ops"):
            return self.no_messages
        return getattr(self.stage, name)


def _run(schedule: Any, rank: int) -> Passes:
    """The passes of one rank in a step of a class with one stage."""
    real, heard = schedule._stage, Listened(schedule._stage, rank)
    schedule._stage = heard
    for name in ("_initialize_stage", "_maybe_compute_loss", "_maybe_get_loss", "_update_losses"):
        setattr(schedule, name, heard.no_messages)
    real.perform_reduce_grad = heard.no_messages
    try:
        schedule._step_microbatches(*([[()] * schedule._n_microbatches, [{}] * schedule._n_microbatches]))
    finally:
        schedule._stage = real
    return heard.passes
