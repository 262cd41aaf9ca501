"""What ranks over gloo do while torch.profiler and its flight recorder look on: drawn exchanges, groups that hang."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.run.launch import Rank

WORLD = 3
STEPS = 2
SLEEP_S = 0.25
"""Long beside what a busy machine takes from a rank at random."""
ELEMENT_B = {"float32": 4, "float64": 8, "int64": 8, "bfloat16": 2, "uint8": 1}
PARTS = ("all_gather", "all_gather_into_tensor", "gather", "scatter", "barrier")
"""Of these the profiler's trace has no size: ranks are given a part, or nothing."""
OPS = ("all_reduce", "reduce", "broadcast", "all_to_all_single", "reduce_scatter_tensor", "send", *PARTS)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: elements are those that a rank has, or gets, of its own."""

    op: str
    elements: int
    dtype: str
    pair: bool
    """Of the first two ranks alone."""

    @property
    def ranks(self) -> int:
        """Of its group."""
        return 2 if self.pair or self.op == "send" else WORLD

    def whole_B(self, rank: int) -> float | None:
        """Bytes of what is exchanged in all, where `rank` has them in one of its lists."""
        if self.op == "barrier" or (self.op in ("gather", "scatter") and rank):
            return None
        several = self.op in ("all_to_all_single", "reduce_scatter_tensor", *PARTS)
        return float(self.elements * ELEMENT_B[self.dtype] * (self.ranks if several else 1))


@dataclass(frozen=True, slots=True)
class Program:
    """The exchanges of a step, and the rank that sleeps in it."""

    number: int
    exchanges: tuple[Exchange, ...]
    sleeps: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A collective that some ranks of a group never come to, after others that went through."""

    number: int
    members: tuple[int, ...]
    through: int
    op: str
    elements: int
    missing: tuple[int, ...]


def programs(number: int) -> list[Program]:
    """Drawn ones, every operation among them."""
    chance, found = random.Random(2), []
    for one in range(number):
        chosen = [OPS[one % len(OPS)], *(chance.choice(OPS) for _ in range(chance.randint(1, 5)))]
        exchanges = []
        for op in chosen:
            dtypes = list(ELEMENT_B) if op in ("broadcast", "send", *PARTS) else ["float32", "float64", "int64"]
            exchanges.append(Exchange(op, chance.randint(1, 3000), chance.choice(dtypes), chance.random() < 0.3))
        found.append(Program(one, tuple(exchanges), chance.choice((0, 1, 2, None, None, None))))
    return found


def hangs(number: int) -> list[Waiting]:
    """Drawn ones; the first is of the default group, before anything else was called."""
    chance, found = random.Random(3), [Waiting(0, (0, 1, 2), 0, "all_reduce", 77, (1,))]
    for one in range(1, number):
        members = chance.choice(((0, 1, 2), (0, 1), (1, 2), (0, 2)))
        missing = tuple(sorted(chance.sample(members, chance.randint(1, len(members) - 1))))
        op = chance.choice(("all_reduce", "all_gather", "reduce"))
        found.append(Waiting(one, members, chance.randint(0, 4), op, chance.randint(1, 500), missing))
    return found


def called(one: Exchange, rank: int, group: Any) -> None:
    """Makes one call."""
    import torch
    import torch.distributed as dist

    dtype, count = getattr(torch, one.dtype), one.ranks
    mine, several = torch.ones(one.elements, dtype=dtype), torch.ones(one.elements * count, dtype=dtype)
    parts, whole = [torch.ones_like(mine) for _ in range(count)], rank == 0
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(mine, group=group),
        "reduce": lambda: dist.reduce(mine, 0, group=group),
        "broadcast": lambda: dist.broadcast(mine, 0, group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(several.clone(), several, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(mine, several, group=group),
        "all_gather": lambda: dist.all_gather(parts, mine, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(several, mine, group=group),
        "gather": lambda: dist.gather(mine, parts if whole else None, 0, group=group),
        "scatter": lambda: dist.scatter(mine, parts if whole else None, 0, group=group),
        "barrier": lambda: dist.barrier(group=group),
        "send": lambda: dist.send(mine, 1) if whole else dist.recv(mine, 0),
    }
    if rank < count:
        calls[one.op]()


def profiled(rank: Rank, folder: str, chosen: list[Program]) -> None:
    """Runs programs, each under a profiler of its own, with execution traces and without."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    pair = dist.new_group([0, 1])
    for one in chosen:
        path = Path(folder) / f"{one.number}.{rank.number}"
        observer = ExecutionTraceObserver().register_callback(f"{path}.et.json")
        plan = schedule(wait=0, warmup=1, active=STEPS, repeat=1)
        dist.barrier()
        with profile(
            activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True, execution_trace_observer=observer,
            on_trace_ready=lambda profiler, path=path: profiler.export_chrome_trace(f"{path}.json"),  # type: ignore[misc]
        ) as profiler:  # fmt: skip
            for _ in range(1 + STEPS):
                torch.ones(200, 200) @ torch.ones(200, 200)
                time.sleep(SLEEP_S if one.sleeps == rank.number else 0)
                for each in one.exchanges:
                    called(each, rank.number, pair if each.pair else dist.group.WORLD)
                profiler.step()


def hanging(rank: Rank, folder: str, chosen: list[Waiting]) -> None:
    """Lets groups hang one after another, dumps what the flight recorder of every rank has, and lets them go on."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    def call(op: str, elements: int, group: Any) -> Any:
        value = torch.ones(elements)
        if op == "all_gather":
            return dist.all_gather([value.clone() for _ in range(group.size())], value, group=group, async_op=True)
        if op == "reduce":
            return dist.reduce(value, group=group, group_dst=0, async_op=True)
        return dist.all_reduce(value, group=group, async_op=True)

    for one in chosen:
        group = dist.new_group(list(one.members)) if one.number else dist.group.WORLD
        mine, waits = rank.number in one.members, rank.number in one.members and rank.number not in one.missing
        for _ in range(one.through if mine else 0):
            call("all_reduce", 8, group).wait()
        work = call(one.op, one.elements, group) if waits else None
        # A call is marked as through a moment after it returns, by a thread of its own.
        while sum(not entry["retired"] for entry in pickle.loads(_dump_fr_trace())["entries"]) > int(waits):
            time.sleep(0.005)
        for name, dumped in (("pickle", _dump_fr_trace()), ("json", _dump_fr_trace_json())):
            path = Path(folder) / f"{one.number}.{name}" / f"rank_{rank.number}"
            path.parent.mkdir(exist_ok=True)
            path.with_suffix(".part").write_bytes(dumped if isinstance(dumped, bytes) else dumped.encode())
            path.with_suffix(".part").rename(path)
        while len(list((Path(folder) / f"{one.number}.json").glob("rank_?"))) < WORLD:
            time.sleep(0.005)
        if mine and not waits:
            work = call(one.op, one.elements, group)
        if work is not None:
            work.wait()


def sizes(one: Program, shapes: bool) -> Iterator[tuple[str, float | None]]:
    """(operation, bytes) of every call of a step on every rank, as gloo does it, with execution traces or without."""
    names = {"all_to_all_single": "all-to-all", "all_gather_into_tensor": "all-gather", "send": "send"}
    for each in one.exchanges:
        for rank in range(each.ranks):
            op = names.get(each.op, each.op.replace("_", "-"))
            op = "recv" if op == "send" and rank else op
            # gloo adds everything up and keeps a part.
            op = "all-reduce" if each.op == "reduce_scatter_tensor" else op
            yield op, each.whole_B(rank) if shapes or each.op not in PARTS else None
