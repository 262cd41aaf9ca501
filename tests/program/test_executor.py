"""The executor computes what a program means, and shows races and reads of what was never written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.program import Program, ProgramBuilder, contributions, execute, execution_order, tokens
from program.random_programs import programs


def ring_all_reduce(ranks: int, elems: int, item_B: int = 4) -> Program:
    """Reduce-scatter and all-gather around a ring, chunks as even as they can be."""
    edge = [elems * i // ranks for i in range(ranks + 1)]
    builder = ProgramBuilder(ranks)
    ready: list[tuple[int, ...]] = [()] * ranks
    for step in range(2 * (ranks - 1)):
        for rank in range(ranks):
            part = (rank - step) % ranks
            size_B = (edge[part + 1] - edge[part]) * item_B
            builder.send(rank, (rank + 1) % ranks, size_B, chunk=(edge[part], edge[part + 1]), after=ready[rank])
        for rank in range(ranks):
            part = (rank - 1 - step) % ranks
            chunk, size_B = (edge[part], edge[part + 1]), (edge[part + 1] - edge[part]) * item_B
            gathering = step >= ranks - 1
            got = builder.recv(rank, (rank - 1) % ranks, size_B, chunk=chunk, buffer="data" if gathering else "inbox")
            ready[rank] = (got,) if gathering else (builder.reduce(rank, size_B, chunk=chunk, after=got),)
    return builder.build()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 12])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_every_contribution_arrives_once(ranks: int, seed: int | None) -> None:
    result = execute(ring_all_reduce(ranks, 29), {"data": contributions(ranks, 29)}, order_seed=seed)
    assert all((array == 1).all() for array in result["data"])


def test_numbers_and_other_reductions_are_executed() -> None:
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(10, 3)) for _ in range(4)]
    kept = [array.copy() for array in data]
    summed = execute(ring_all_reduce(4, 10), {"data": data})["data"]
    largest = execute(ring_all_reduce(4, 10), {"data": data}, combine=np.maximum)["data"]
    for rank in range(4):
        np.testing.assert_allclose(summed[rank], sum(kept), rtol=1e-12)
        np.testing.assert_array_equal(largest[rank], np.max(kept, axis=0))
        np.testing.assert_array_equal(data[rank], kept[rank])


def test_chunks_move_between_offsets_and_buffers() -> None:
    builder = ProgramBuilder(2)
    _, got = builder.message(0, 1, 8.0, chunk=(1, 3), to_chunk=(5, 7), to_buffer="inbox")
    builder.copy(1, 8.0, chunk=(0, 2), source_start=5, after=got)
    result = execute(builder.build(), {"data": tokens(2, 4)})
    assert result["data"][1].tolist() == [1, 2, 6, 7]
    assert result["data"][0].tolist() == [0, 1, 2, 3]
    assert result["inbox"][1].tolist()[5:] == [1, 2]


def test_unwritten_buffers_contain_nan() -> None:
    builder = ProgramBuilder(1)
    builder.reduce(0, 4.0, chunk=(0, 1))
    program = builder.build()
    assert np.isnan(execute(program, {"data": [np.ones(1)]})["data"][0][0])
    assert execute(program, {"data": [np.ones(1, dtype=np.int64)]})["data"][0][0] < 0


def test_a_race_shows_in_another_execution_order() -> None:
    builder = ProgramBuilder(1)
    for stream, source in (("compute", "a"), ("comm", "b")):
        builder.copy(0, 4.0, chunk=(0, 1), source=source, stream=stream)
    program = builder.build()
    given = {"data": [np.zeros(1)], "a": [np.ones(1)], "b": [np.full(1, 2.0)]}
    assert len({execute(program, given, order_seed=seed)["data"][0][0] for seed in range(20)}) == 2


@settings(derandomize=True, max_examples=30, deadline=None)
@given(programs, st.one_of(st.none(), st.integers(0, 99)))
def test_orders_respect_dependencies(program: Program, seed: int | None) -> None:
    order = list(execution_order(program, seed))
    place = {i: k for k, i in enumerate(order)}
    assert sorted(order) == list(range(len(program)))
    for i in range(len(program)):
        assert all(place[j] < place[i] for j in program[i].after)


def test_mismatched_buffers_are_refused() -> None:
    program = ring_all_reduce(3, 9)
    with pytest.raises(BadInput, match="arrays for 2 ranks, the program has 3"):
        execute(program, {"data": tokens(2, 9)})
    with pytest.raises(BadInput, match="uses 9 elements of buffer 'data' on rank 0, got 5"):
        execute(program, {"data": tokens(3, 5)})
    builder = ProgramBuilder(2)
    builder.collective((0, 1), "all-reduce", 8.0)
    with pytest.raises(BadInput, match="expand the program first"):
        execute(builder.build(), {})
