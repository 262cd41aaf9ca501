"""An expanded collective takes the time it was priced at and computes what it should."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Kind, Program, ProgramBuilder, contributions, execute, expand
from program.random_programs import Link
from program.test_executor import ring_all_reduce


def inner(op: str, algorithm: str, ranks: tuple[int, ...], size_B: float) -> Program:
    return ring_all_reduce(len(ranks), int(size_B) // 4)


def inner_price(op: str, algorithm: str, ranks: tuple[int, ...], size_B: float) -> float:
    return simulate(inner(op, algorithm, ranks, size_B), Link()).makespan_s


def step() -> Program:
    builder = ProgramBuilder(4)
    forward = [builder.compute(rank, 1e-4 * (1 + rank)) for rank in range(4)]
    first = builder.collective(range(4), "all-reduce", 48.0, algorithm="ring", chunk=(0, 12), after=forward)
    # Written before its turn on other ranks: groups that share rank 0 and 2 but end in another order by id.
    builder.collective((2, 0), "all-reduce", 32.0, algorithm="ring", chunk=(12, 20))
    builder.collective((1, 3), "all-reduce", 16.0, algorithm="ring", chunk=(12, 16))
    for rank in range(4):
        builder.compute(rank, 1e-4, after=first)
    return builder.build()


def test_an_expanded_collective_takes_the_same_time() -> None:
    whole = simulate(step(), Link(), price=inner_price)
    opened = simulate(expand(step(), inner), Link())
    assert opened.makespan_s == pytest.approx(whole.makespan_s, rel=1e-12)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_an_expanded_collective_computes_the_same_data(seed: int | None) -> None:
    data = execute(expand(step(), inner), {"data": contributions(4, 20)}, order_seed=seed)["data"]
    for rank in range(4):
        assert (data[rank][:12] == 1).all()
    assert (data[0][12:20] == [1, 0, 1, 0]).all()
    assert (data[2][12:20] == [1, 0, 1, 0]).all()
    assert (data[1][12:16] == [0, 1, 0, 1]).all()
    assert (data[1][16:] == [0, 1, 0, 0]).all()


def test_a_kept_collective_spans_its_own_messages() -> None:
    whole, opened = (simulate(program, Link(), price=inner_price) for program in (step(), expand(step(), inner, True)))
    assert opened.makespan_s == pytest.approx(whole.makespan_s, rel=1e-12)
    program = opened.program
    sends, kept = program.kind == Kind.SEND, program.kind == Kind.COLLECTIVE
    assert np.count_nonzero(kept) == np.count_nonzero(whole.program.kind == Kind.COLLECTIVE)
    assert program.num_messages == expand(step(), inner).num_messages
    for one in np.flatnonzero(kept).tolist():
        during = (opened.start_s >= opened.start_s[one]) & (opened.start_s < opened.end_s[one])
        last_s = opened.end_s[during & sends & (program.rank == program.rank[one])].max()
        assert last_s == pytest.approx(opened.end_s[one], rel=1e-12)


def test_an_expansion_of_none_keeps_the_collective() -> None:
    program = step()
    kept = expand(program, lambda *_: None)
    assert len(kept) == len(program)
    one, two = (simulate(p, Link(), price=inner_price) for p in (program, kept))
    assert one.makespan_s == two.makespan_s
    assert np.array_equal(np.sort(one.end_s), np.sort(two.end_s))


def test_an_expansion_for_another_number_of_ranks_is_refused() -> None:
    with pytest.raises(BadInput, match="among 4 ranks got a program for 3 ranks"):
        expand(step(), lambda *_: ring_all_reduce(3, 6))
