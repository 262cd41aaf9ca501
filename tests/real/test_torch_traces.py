"""torch.profiler records drawn training loops in every form that it can write; `diagnose` says what the loops did."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import Asker
from torch.profiler import ProfilerAction, ProfilerActivity, profile, schedule, tensorboard_trace_handler
from torch.utils.flop_counter import FlopCounterMode

from effort import share
from lockstep.explain.measure import measure
from lockstep.explain.read import find
from lockstep.explain.read.products import Product, shape_of
from lockstep.explain.steps import steps_of

# The profiler ends the process where one of its warnings is an error.
pytestmark = pytest.mark.filterwarnings("ignore")
SOFTWARE = "torch"
OPTIONS = ("record_shapes", "with_stack", "with_modules", "profile_memory", "with_flops")
RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
FORMS = ("plain", "gzip", "folder", "folder of gzip")


@dataclass(frozen=True, slots=True)
class Loop:
    """A training loop, and how it is recorded."""

    sides: tuple[int, ...]
    """Of its linear layers."""
    batch: int
    heads: int
    """Batched products beside the layers."""
    waits: int
    warms: int
    active: int
    cycles: int
    form: str
    options: frozenset[str]

    def model(self) -> torch.nn.Sequential:
        """The layers, each with an activation that is no product."""
        pairs = itertools.pairwise(self.sides)
        return torch.nn.Sequential(*(one for pair in pairs for one in (torch.nn.Linear(*pair), torch.nn.Tanh())))


def loops(number: int) -> Iterator[Loop]:
    """Drawn ones: every option of the profiler, alone and with others."""
    chance = random.Random(59)
    for _ in range(number):
        sides = tuple(chance.choice((16, 48, 96, 160)) for _ in range(chance.randint(2, 4)))
        yield Loop(
            sides, chance.choice((8, 32, 64)), chance.choice((0, 2, 3)), chance.randint(0, 2), chance.randint(1, 2),
            chance.randint(1, 5), chance.choice((1, 1, 2)), chance.choice(FORMS),
            frozenset(one for one in OPTIONS if chance.random() < 0.5),
        )  # fmt: skip


@dataclass(slots=True)
class Run:
    """A loop that ran."""

    loop: Loop
    folder: Path
    steps: list[int] = field(default_factory=list)
    """Numbers of those that the profiler recorded, as its own state said at the time."""
    flops: int = 0
    """Of one step."""

    def save(self, profiler: profile) -> None:
        """A file of a cycle."""
        packed = ".gz" if "gzip" in self.loop.form else ""
        if self.loop.form.startswith("folder"):
            tensorboard_trace_handler(str(self.folder), worker_name="one", use_gzip=bool(packed))(profiler)
        else:
            profiler.export_chrome_trace(str(self.folder / f"{profiler.step_num}.json{packed}"))


def run(loop: Loop, folder: Path) -> Run:
    """Runs a loop under the profiler."""
    found, model = Run(loop, folder), loop.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    side = torch.randn(loop.heads or 1, 24, 40)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(loop.batch, loop.sides[0])).sum().backward()
        if loop.heads:
            torch.baddbmm(side @ side.mT, side, side.mT)
        optimizer.step()

    with FlopCounterMode(display=False) as counted:
        step()
    found.flops = counted.get_total_flops()
    length = loop.waits + loop.warms + loop.active
    words = dict.fromkeys(loop.options, True)
    plan = schedule(wait=loop.waits, warmup=loop.warms, active=loop.active, repeat=loop.cycles)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=found.save, **words) as profiler:
        for _ in range(length * loop.cycles):
            if profiler.current_action in RECORDS:
                found.steps.append(profiler.step_num)
            step()
            profiler.step()
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Every drawn loop, run once."""
    torch.set_num_threads(1)
    torch.manual_seed(59)
    return [run(loop, tmp_path_factory.mktemp("loop")) for loop in share(list(loops(64)), 4)]


def traces(one: Run) -> list[Any]:
    """What its files hold, in their order in time."""
    return sorted((known.read() for known in find([one.folder])), key=lambda trace: trace.zero_ns)


def events(one: Run) -> Iterator[dict[str, Any]]:
    """Of all files, as they are written."""
    for path in sorted(one.folder.iterdir()):
        data = path.read_bytes()
        yield from json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]


def test_steps_are_those_that_were_recorded(runs: list[Run], asked: Asker) -> None:
    """Their numbers, of every cycle."""
    with asked(SOFTWARE, "steps of torch.profiler's traces, in every form of a file") as answers:
        for one in runs:
            found = [[window.step for window in steps_of(trace).windows] for trace in traces(one)]
            answers.compare(f"{one.loop}", list(itertools.chain(*found)), one.steps)


def test_operators_of_a_step_are_counted(runs: list[Run], asked: Asker) -> None:
    """Forward and backward of as many layers as the model has; those that take 1 % of the step are shown."""
    forward, backward = "aten::linear", "autograd::engine::evaluate_function: AddmmBackward0"
    with asked(SOFTWARE, "operators of a step") as answers:
        for one in runs:
            shown = {kernel.name: kernel.count for kernel in measure(traces(one)).kernels}
            for name in (forward, backward):
                if name in shown:
                    answers.compare(f"{name} {one.loop}", shown[name], len(one.loop.sides) - 1.0)


def test_products_have_the_flops_that_torch_counts(runs: list[Run], asked: Asker) -> None:
    """By the shapes of a trace: all steps recorded, against torch's counter of one."""
    with asked(SOFTWARE, "FLOPs of products, by their recorded shapes") as answers:
        for one in runs:
            shapes = [shape_of(str(each.get("name")), each.get("args") or {}) for each in events(one)]
            ours = sum(Product(*shape, (1.0,)).flops for shape in shapes if shape is not None)
            wanted = one.flops * len(one.steps) if {"record_shapes", "with_flops"} & one.loop.options else 0
            answers.compare(f"{one.loop}", ours, float(wanted))
