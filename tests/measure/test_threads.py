"""Which threads run a rank's lanes, and what is added as it arrives: laws over every collective and every pipeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from tests.collectives.conformance import CASES

from lockstep.run.execute.lanes import Lane, Task, joined, lanes_of, summands
from lockstep.run.execute.transfer import Transfers
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.program import Kind, Program, ProgramBuilder

LINK = PlainLink(1e-4, 1e9)
RANKS = (2, 3, 4, 8)


def scheduled(name: str) -> Program:
    """A schedule on two stages."""
    return pipelines.pipeline(name, 2, 4, forward_s=1e-4, backward_s=2e-4, message_B=64.0).program


PROGRAMS: dict[str, Callable[[], Program]] = {
    **{f"{case} on {n}": partial(case.program, n, 64, LINK) for case in CASES for n in RANKS if case.fits(n)},
    **{name: partial(scheduled, name) for name in pipelines.names()},
}
"""Every collective and every schedule, on a few ranks."""


def ancestors(lanes: tuple[Lane, ...]) -> dict[int, set[int]]:
    """What must have ended on this rank before each operation, by the program: lanes in order, and dependencies."""
    tasks = {task.id: task for lane in lanes for task in lane}
    before = {b.id: {a.id} for lane in lanes for a, b in pairwise(lane)}
    found: dict[int, set[int]] = {}

    def of(number: int) -> set[int]:
        if number not in found:
            direct = before.get(number, set()) | set(tasks[number].waits)
            found[number] = direct.union(*(of(one) for one in direct))
        return found[number]

    return {number: of(number) for number in tasks}


def ended_by_then(thread: Lane, place: int, asynchronous: frozenset[int]) -> set[int]:
    """What a thread has waited for when it starts the operation at `place`; a send that joined may still be leaving."""
    task, earlier = thread[place], thread[:place]
    sends = [one.id for one in earlier if one.id in asynchronous]
    leaving = sends[-1:] if task.kind != Kind.SEND and sends and sends[-1] not in task.waits else []
    return {one.id for one in earlier} - set(leaving)


@pytest.mark.parametrize("name", PROGRAMS)
def test_merging_lanes_adds_no_dependency(name: str) -> None:
    program = PROGRAMS[name]()
    for rank in range(program.ranks):
        lanes = lanes_of(program, rank)
        threads, asynchronous = joined(lanes)
        needed = ancestors(lanes)
        assert sorted(t.id for thread in threads for t in thread) == sorted(t.id for lane in lanes for t in lane)
        for thread in threads:
            if asynchronous.isdisjoint(task.id for task in thread):
                assert thread in lanes
                continue
            for place, task in enumerate(thread):
                assert ended_by_then(thread, place, asynchronous) <= needed[task.id]


@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_needs_one_thread_and_a_bidirectional_ring_two(ranks: int) -> None:
    ring = get("all-reduce", "ring").program(ranks, 4.0 * 64, element_B=4.0)
    assert all(len(joined(lanes_of(ring, rank))[0]) == 1 for rank in range(ranks))
    both = get("all-reduce", "bidirectional-ring").program(ranks, 4.0 * 64, element_B=4.0)
    assert all(len(joined(lanes_of(both, rank))[0]) == 2 for rank in range(ranks))


def reduced(lanes: tuple[Lane, ...]) -> list[Task]:
    return [task for lane in lanes for task in lane if task.kind == Kind.REDUCE]


@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_adds_on_arrival_and_a_rank_that_swaps_the_same_elements_does_not(ranks: int) -> None:
    ring = lanes_of(get("all-reduce", "ring").program(ranks, 4.0 * 64, element_B=4.0), 0)
    assert sorted(task.id for task in summands(ring).values()) == sorted(task.id for task in reduced(ring))
    if ranks != 3:
        swapping = lanes_of(get("all-reduce", "recursive-doubling").program(ranks, 4.0 * 64, element_B=4.0), 0)
        assert reduced(swapping)
        assert not summands(swapping)


def test_buffers_with_other_readers_are_not_summed_on_arrival() -> None:
    builder = ProgramBuilder(2, ("send", "recv"))
    _, got = builder.message(0, 1, 8.0, chunk=(0, 2), to_buffer="inbox")
    builder.reduce(1, 8.0, chunk=(0, 2), stream="recv", after=got)
    plain = builder.build()
    builder.copy(1, 8.0, chunk=(2, 4), source_start=0, stream="recv")
    assert list(summands(lanes_of(plain, 1))) == [got]
    assert not summands(lanes_of(builder.build(), 1))


@pytest.mark.parametrize(("backend", "synchronized"), [("gloo", False), ("nccl", True)])
@pytest.mark.parametrize("kind", ["wait", "recv", "recv_added"])
def test_queued_gpu_operations_are_awaited(
    kind: str, backend: str, synchronized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that has left, one that has come, and each piece before it is added."""
    torch, said = pytest.importorskip("torch"), list[float]()
    total, come = torch.ones(4), torch.full((4,), 2.0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append(float(total[0])))
    monkeypatch.setattr(Transfers, "_arrivals", lambda self, places, peer, number: iter(range(len(places))))
    monkeypatch.setattr(Transfers, "_scratch", lambda self, pieces: [come])
    rank: Any = SimpleNamespace(backend=backend, cores=None, ranks=2)
    transfers = Transfers(rank)
    if kind == "wait":
        transfers.wait([])
    else:
        getattr(transfers, kind)(total, 1, 0)
    assert said == [1.0] * synchronized
    assert total.tolist() == [3.0 if kind == "recv_added" else 1.0] * 4
