"""A program is what was added: frozen, matched, checked, and the same whether added one by one or as arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from lockstep.base.errors import BadInput
from lockstep.simulate.program import COLUMNS, Kind, Program, ProgramBuilder
from program.random_programs import programs


def exchange(ranks: int = 2) -> ProgramBuilder:
    builder = ProgramBuilder(ranks)
    builder.message(0, 1, 8.0, chunk=(0, 2))
    builder.message(1, 0, 8.0, chunk=(0, 2), to_buffer="inbox")
    return builder


def test_a_program_contains_the_added_operations() -> None:
    builder = ProgramBuilder(3, streams=("compute", "comm"))
    work = builder.compute(2, 1.5, label="F0", memory_start_B=7.0, memory_B=-7.0, flops=9.0)
    send = builder.send(2, 0, 64.0, chunk=(4, 20), after=work)
    recv = builder.recv(0, 2, 64.0, chunk=(0, 16), buffer="inbox")
    builder.reduce(0, 64.0, chunk=(4, 20), source_start=0, after=(recv, work))
    program = builder.build()
    assert len(program) == 4
    assert [operation.kind for operation in program] == ["compute", "send", "recv", "reduce"]
    assert program[send].after == (work,)
    assert program[3].after == (recv, work)
    assert program[3].chunk == (4, 20)
    assert program[3].stream == "compute"
    assert program[1].stream == program[2].stream == "comm"
    assert program.name(int(program.buffer[recv])) == "inbox"
    assert program.name(int(program.source[3])) == "inbox"
    assert (program.match == [-1, recv, send, -1]).all()
    assert (program.memory_start_B[0], program.memory_end_B[0], program.flops[0]) == (7.0, -7.0, 9.0)
    assert program.sent_B().tolist() == [0, 0, 64]
    assert program.received_B().tolist() == [64, 0, 0]
    assert program.pair_B()[2, 0] == 64
    assert program.pair_B().sum() == 64
    assert program.sent_elems().tolist() == [0, 0, 16]
    assert program.messages_sent().tolist() == [0, 0, 1]
    assert program.reduced_B().tolist() == [64, 0, 0]
    assert program.num_messages == 1
    assert "3 ranks, 4 operations (1 compute, 1 send, 1 recv, 1 reduce)" in str(program)
    assert "#1 rank 2 / comm: send -> 0 64 B [4:20] after 0" in program.describe()
    assert program.describe(limit=1).endswith("... 3 more")


def test_programs_are_immutable() -> None:
    program = exchange().build()
    with pytest.raises(AttributeError):
        program.ranks = 3  # type: ignore[misc]
    for array in (*program.columns.values(), program.match, program.after):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    with pytest.raises(AttributeError, match="no column"):
        _ = program.nothing
    assert copy.copy(program).ranks == 2


@settings(derandomize=True, max_examples=30, deadline=None)
@given(programs)
def test_extend_equals_one_by_one(program: Program) -> None:
    builder = ProgramBuilder(program.ranks, program.streams)
    for text in program.names:
        builder.name(text)
    width = int(np.diff(program.after_start).max(initial=1)) or 1
    after = np.full((len(program), width), -1)
    for i in range(len(program)):
        after[i, : len(program[i].after)] = program[i].after
    builder.extend(**{name: program.columns[name] for name in COLUMNS}, after=after)
    again = builder.build()
    for name in COLUMNS:
        np.testing.assert_array_equal(program.columns[name], again.columns[name])
    np.testing.assert_array_equal(program.match, again.match)
    np.testing.assert_array_equal(program.after, again.after)
    np.testing.assert_array_equal(program.graph.node, again.graph.node)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(programs)
def test_messages_are_conserved_and_matched_in_order(program: Program) -> None:
    assert program.sent_B().sum() == pytest.approx(program.received_B().sum(), rel=1e-12)
    sends = np.flatnonzero(program.kind == Kind.SEND)
    assert (program.match[program.match[sends]] == sends).all()
    last: dict[tuple[int, int, int], int] = {}
    for i in sends.tolist():
        key, j = (int(program.rank[i]), int(program.peer[i]), int(program.tag[i])), int(program.match[i])
        assert (int(program.peer[j]), int(program.rank[j]), int(program.tag[j])) == key
        assert j > last.get(key, -1)
        last[key] = j


def test_tags_separate_messages() -> None:
    builder = ProgramBuilder(2)
    one = builder.send(0, 1, 1.0, tag=1)
    two = builder.send(0, 1, 2.0, tag=2)
    second = builder.recv(1, 0, 2.0, tag=2, stream="comm")
    first = builder.recv(1, 0, 1.0, tag=1)
    assert builder.build().match.tolist() == [first, second, two, one]


def test_equal_columns_take_no_memory() -> None:
    builder = ProgramBuilder(4)
    builder.extend(Kind.COMPUTE, np.arange(1000) % 4, duration_s=1.0)
    program = builder.build()
    assert program.duration_s.strides == (0,)
    assert program.size_B.strides == (0,)
    assert len(program.size_B) == 1000


def build_with(change: Callable[[ProgramBuilder], object]) -> Program:
    builder = exchange(3)
    change(builder)
    return builder.build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.send(0, 2, 8.0), "add recv(2, 0, ...)"),
        (lambda b: b.recv(0, 2, 8.0), "add send(2, 0, ...)"),
        (lambda b: b.message(1, 1, 8.0), "no message to itself; use copy"),
        (lambda b: b.message(1, 3, 8.0), "ranks are 0 .. 2; got 3"),
        (lambda b: b.send(1, 3, 8.0), "the peer must be a rank, 0 .. 2; got 3"),
        (lambda b: b.compute(5, 1.0), "ranks are 0 .. 2; got 5"),
        (lambda b: b.compute(0, float("nan")), "needs its duration_s"),
        (lambda b: b.compute(0, -1.0), "not negative"),
        (lambda b: b.compute(0, float("inf")), "finite"),
        (lambda b: b.reduce(0, float("nan")), "size_B must be finite"),
        (lambda b: b.reduce(0, 8.0, chunk=(4, 2)), "0 <= start <= stop"),
        (lambda b: b.compute(0, 1.0, stream="comput"), "did you mean compute"),
        (lambda b: b.compute(0, 1.0, after=99), "waits for 99"),
        (lambda b: b.barrier([1, 1]), "rank 1 is twice"),
        (lambda b: b.barrier([]), "at least one rank"),
        (lambda b: b.send(0, 1, 8.0, chunks=(0, 2)), "unknown option 'chunks'"),
        (lambda b: b.extend(Kind.COMPUTE, 0, seconds=1.0), "unknown column 'seconds'"),
        (lambda b: (b.send(0, 2, 8.0), b.recv(2, 0, 9.0)), "differ in size_B: 8.0 and 9.0"),
        (lambda b: (b.send(0, 2, 8.0, chunk=(0, 2)), b.recv(2, 0, 8.0, chunk=(0, 1))), "differ in elements"),
        (lambda b: b.extend(Kind.BARRIER, [0, 1]), "only barriers and collectives have a group"),
        (lambda b: b.extend(Kind.COLLECTIVE, [0, 1], size_B=[1.0, 2.0], group=0), "differ in size_B"),
        (lambda b: b.extend(9, 0), "kind must be 0 .. 6"),
        (lambda b: b.depend(0, 6) or b.compute(0, 1.0), "waits for 6"),
    ],
)
def test_invalid_operations_are_refused_with_a_reason(change: Callable[[ProgramBuilder], object], message: str) -> None:
    with pytest.raises(BadInput) as error:
        build_with(change)
    assert message in str(error.value)


def test_a_dependency_cycle_names_its_operations() -> None:
    builder = ProgramBuilder(2, streams=("comm",))
    builder.compute(0, 1.0)
    builder.send(0, 1, 8.0)
    builder.recv(0, 1, 8.0)
    builder.send(1, 0, 8.0)
    builder.recv(1, 0, 8.0)
    with pytest.raises(BadInput, match="wait for one another") as error:
        builder.build()
    assert "send -> 1" in str(error.value)
    assert "recv <- 1" in str(error.value)
    assert "different streams" in str(error.value)
    assert "compute" not in str(error.value)


@pytest.mark.parametrize("unknown", [-1, 2, 3])
def test_dependencies_must_be_operations(unknown: int) -> None:
    for edge in ((0, unknown), (unknown, 0)):
        builder = ProgramBuilder(1)
        for _ in range(2):
            builder.compute(0, 1.0)
        builder.depend(*edge)
        with pytest.raises(BadInput, match=f"operation {edge[0]} waits for {edge[1]}, but operations are 0 .. 1"):
            builder.build()
    builder = ProgramBuilder(1)
    ids = [builder.compute(0, 1.0) for _ in range(2)]
    builder.depend(ids[1], ids[0])
    assert builder.build()[1].after == (0,)


def test_a_self_dependency_is_a_cycle() -> None:
    builder = ProgramBuilder(2)
    ids = builder.barrier()
    builder.depend(ids[0], ids[1])
    with pytest.raises(BadInput, match="wait for one another"):
        builder.build()


@pytest.mark.parametrize("arguments", [(0,), (2, ()), (2, ("a", "a"))])
def test_the_builder_refuses_invalid_arguments(arguments: tuple[object, ...]) -> None:
    with pytest.raises(BadInput):
        ProgramBuilder(*arguments)  # type: ignore[arg-type]
