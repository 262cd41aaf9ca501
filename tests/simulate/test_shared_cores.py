"""Ranks of one machine: the two limits that are measured, what lies between, and the bounds that always hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.play import SharedCores, Timed, simulate, simulate_shared_cores
from lockstep.simulate.program import Kind, Program, ProgramBuilder

ALONE_S, RANKS = 6.0, 4


def cores(together_s: float, ranks: int = RANKS, add_s: float = 0.0) -> SharedCores:
    """Any message takes ALONE_S alone."""
    return SharedCores(ranks, (Timed(8, ALONE_S, together_s, add_s, add_s * together_s / ALONE_S),))


def shift(senders: int, ranks: int = RANKS) -> Program:
    """Some ranks send 8 B to the next at once."""
    builder = ProgramBuilder(ranks)
    for rank in range(senders):
        builder.message(rank, (rank + 1) % ranks, 8)
    return builder.build()


@pytest.mark.parametrize("together_s", [6.0, 9.0, 12.0, 24.0])
@pytest.mark.parametrize("senders", range(1, RANKS + 1))
def test_concurrent_ranks_take_the_larger_of_latency_and_work(together_s: float, senders: int) -> None:
    expected_s = max(ALONE_S, senders * together_s / RANKS)
    assert simulate_shared_cores(shift(senders), cores(together_s)).makespan_s == pytest.approx(expected_s, rel=1e-12)


@pytest.mark.parametrize(
    ("op", "algorithm"),
    [("all-reduce", "ring"), ("all-reduce", "tree"), ("all-reduce", "rabenseifner"), ("all-gather", "bruck"),
     ("all-reduce", "naive"), ("all-to-all", "direct"), ("broadcast", "binomial"), ("reduce", "binomial")],
)  # fmt: skip
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_with_a_core_for_every_rank_times_follow_the_link(op: str, algorithm: str, ranks: int) -> None:
    """Nobody slows anybody down, and times on a line are those of latency and bandwidth."""
    link = PlainLink(2.0, 4.0, 0.5)
    program = get(op, algorithm).program(ranks, 16.0 * ranks, link, 4.0)
    timed = tuple(Timed(size_B, *[2.0 + size_B / 4] * 2, *[size_B / 2] * 2) for size_B in range(4, 257, 4))
    found = simulate_shared_cores(program, SharedCores(ranks, timed))
    expected = simulate(program, link)
    assert found.start_s == pytest.approx(expected.start_s, rel=1e-12)
    assert found.end_s == pytest.approx(expected.end_s, rel=1e-12)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.sampled_from(["ring", "tree", "rabenseifner", "naive", "direct", "recursive-doubling"]),
    st.integers(2, 7),
    st.floats(1.0, 10.0),
    st.floats(0.0, 5.0),
)
def test_shared_core_times_lie_between_their_bounds(algorithm: str, ranks: int, slower: float, add_s: float) -> None:
    """Not below the longest chain, nor the work of all; not above doing one thing after another."""
    program = get("all-reduce", algorithm).program(ranks, 8.0 * ranks, element_B=4.0)
    machine = cores(ALONE_S * min(slower, ranks), ranks, add_s)
    found_s = simulate_shared_cores(program, machine).makespan_s
    chain_s = simulate_shared_cores(program, replace(machine, timed=cores(ALONE_S, ranks, add_s).timed)).makespan_s
    sends, additions = (program.size_B[program.kind == kind] for kind in (Kind.SEND, Kind.REDUCE))
    (alone_s, together_s), (add_alone_s, add_together_s) = machine.messages_s(sends), machine.additions_s(additions)
    work_s = math.fsum((*together_s, *add_together_s)) / ranks
    assert max(chain_s, work_s) <= found_s * (1 + 1e-9)
    assert found_s <= (math.fsum((*alone_s, *add_alone_s))) * (1 + 1e-9)


def test_on_one_core_only_the_work_counts() -> None:
    program = get("all-reduce", "tree").program(5, 8.0, element_B=4.0)
    machine = cores(5 * ALONE_S, 5)
    assert simulate_shared_cores(program, machine).makespan_s == pytest.approx(program.num_messages * ALONE_S, rel=1e-9)


def test_only_first_messages_start_late() -> None:
    builder = ProgramBuilder(2)
    _, arrived = builder.message(0, 1, 8)
    builder.message(1, 0, 8, after=arrived)
    machine = replace(cores(ALONE_S, 2), start_s=100.0)
    assert simulate_shared_cores(builder.build(), machine).makespan_s == 100.0 + 2 * ALONE_S


def test_computations_take_their_own_time_on_shared_cores() -> None:
    builder = ProgramBuilder(2)
    builder.message(0, 1, 8)
    builder.compute(0, 50.0)
    assert simulate_shared_cores(builder.build(), cores(2 * ALONE_S, 2)).makespan_s == 50.0


def test_sizes_between_and_beyond_the_timed_ones_are_interpolated() -> None:
    machine = SharedCores(2, (Timed(10, 1.0, 2.0, 0.0, 0.0), Timed(30, 3.0, 4.0, 1.0, 2.0)))
    alone_s, together_s = machine.messages_s(np.array([1, 10, 20, 30, 60]))
    assert alone_s.tolist() == [1.0, 1.0, 2.0, 3.0, 6.0]
    assert together_s.tolist() == [2.0, 2.0, 3.0, 4.0, 8.0]
    assert machine.additions_s(np.array([20, 60]))[1].tolist() == [1.0, 4.0]
    with pytest.raises(BadInput, match="add_alone_s must be finite"):
        Timed(8, 1.0, 1.0, math.nan, 0.0)
