"""Forecasts of programs: never below what is built, near it, and refusals that come before anything is built."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.base.units import parse_size_B
from lockstep.show.verbs.execute import _collective
from lockstep.simulate.collectives import (
    MOST_OPERATIONS,
    PlainLink,
    check_work,
    get,
    ops,
    program_on_levels,
    work_on_levels,
)
from lockstep.simulate.collectives.levels import WAYS
from lockstep.simulate.collectives.registry import ROUND_OPERATIONS
from lockstep.simulate.collectives.shares import Split
from lockstep.simulate.program import Kind

from .conformance import CASES, ELEMENT_B, Case, links, quick

every_case = pytest.mark.parametrize("case", CASES, ids=str)


@every_case
@settings(quick, max_examples=drawn(8))
@given(ranks=st.integers(1, 24), link=links)
def test_a_program_has_no_more_operations_than_forecast(case: Case, ranks: int, link: PlainLink) -> None:
    ranks = case.fitting(ranks)
    algorithm = case.algorithm
    for size_B, element_B in ((1e4, 0.0), (1024 * ELEMENT_B, ELEMENT_B)):
        program = algorithm.program(ranks, size_B, link, element_B, **case.choices)
        forecast = algorithm.operations(ranks, size_B, link, element_B, **case.choices)
        assert len(program) <= forecast
        assert forecast <= 2 * len(program) + 10 * ranks
        if algorithm.op != "parameter-server":
            settled = algorithm.settle(ranks, size_B, link, Split(element_B), **case.choices)
            assert np.count_nonzero(program.kind == Kind.COPY) <= algorithm.copies(ranks, **settled)


@pytest.mark.parametrize(("op", "way"), [(op, way) for op, ways in WAYS.items() for way in ways])
@pytest.mark.parametrize("sizes", [(1,), (5,), (2, 3), (4, 1, 2), (3, 2, 2), (8, 4)])
def test_a_program_over_levels_has_no_more_operations_than_forecast(op: str, way: str, sizes: tuple[int, ...]) -> None:
    levels = [(size, 1e-6, 1e9) for size in sizes]
    program, _ = program_on_levels(op, levels, 1e6, way)
    forecast = work_on_levels(op, levels, 1e6, way)
    assert len(program) <= forecast <= 4 * (len(program) + ROUND_OPERATIONS * math.prod(sizes) * len(sizes))


@pytest.mark.parametrize(
    ("op", "algorithm", "ranks"),
    [("all-to-all", None, 4096), ("all-to-all", "bruck", 1024), ("all-to-all", "hierarchical", 100_000),
     ("all-reduce", "ring", 5000), ("all-reduce", "naive", 50_000), ("all-gather", "bruck", 1_000_000)],
)  # fmt: skip
def test_oversized_programs_are_refused_before_they_are_built(
    monkeypatch: pytest.MonkeyPatch, op: str, algorithm: str | None, ranks: int
) -> None:
    monkeypatch.setattr("lockstep.simulate.collectives.registry.Rounds", _never)
    words = {"ranks": ranks, "size": "1GB", "latency": "5us", "bandwidth": "25GB/s", "algorithm": algorithm}
    with pytest.raises(BadInput, match=r"operations .* and at most 2,000,000 are simulated; use fewer ranks") as caught:
        lockstep.collective(op, **words, simulate=True)
    assert caught.value.where == "--ranks"
    assert lockstep.collective(op, **words).comparison.rows


def _never(*given: object, **words: object) -> None:
    raise AssertionError("a program is built")


def test_oversized_algorithms_are_priced_and_noted_but_not_simulated() -> None:
    words = {"ranks": 1500, "size": "1GB", "latency": "5us", "bandwidth": "25GB/s"}
    found = lockstep.collective("all-gather", **words, simulate=True)
    simulated = {row.algorithm for row in found.comparison.rows if row.simulated_s is not None}
    assert simulated == {"bruck", "recursive-doubling"}
    assert found.assumptions[-1] == "priced but not built, above 2,000,000 operations: ring, direct"
    assert not any("not built" in line for line in lockstep.collective("all-gather", **words).assumptions)


def test_oversized_multilevel_algorithms_are_noted_but_not_simulated() -> None:
    words = {"ranks": 512, "size": 1e8, "cluster": "dgx-h100:64", "simulate": True}
    found = lockstep.collective("all-reduce", **words)
    rows = {row.algorithm: row for row in found.comparison.rows}
    assert rows.keys() == {"ring", "hierarchical"}
    assert rows["ring"].simulated_s is None
    assert found.assumptions[-1] == "priced but not built, above 2,000,000 operations: ring"
    assert rows["hierarchical"].simulated_s == pytest.approx(rows["hierarchical"].time_s, rel=1e-12)
    with pytest.raises(BadInput, match="all-reduce ring on 512 ranks is about"):
        lockstep.collective("all-reduce", **words, algorithm="ring")


@pytest.mark.parametrize("op", ops())
def test_library_calls_refuse_programs_above_the_limit(op: str) -> None:
    for name in [case.algorithm.name for case in CASES if case.algorithm.op == op and not case.choices]:
        ranks = 1_000_000
        work = float(get(op, name).work(ranks, 1e9, PlainLink(1e-6, 1e9)))
        assert work > MOST_OPERATIONS, name
        with pytest.raises(BadInput, match="are simulated"):
            get(op, name).program(ranks, 1e9, PlainLink(1e-6, 1e9))


def test_multilevel_programs_above_the_limit_are_refused() -> None:
    levels = [(8, 1e-6, 1e9), (200_000, 1e-6, 1e9)]
    for op, ways in WAYS.items():
        for way in ways:
            with pytest.raises(BadInput, match="are simulated"):
                program_on_levels(op, levels, 1e9, way)


def test_verbs_refuse_oversized_programs_before_building_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lockstep.simulate.collectives.registry.Rounds", _never)
    link = {"latency": "5us", "bandwidth": "25GB/s"}
    with pytest.raises(BadInput, match="at most 300,000"):
        lockstep.trace("all-to-all", out=tmp_path / "x.json", ranks=512, size="1GB", algorithm="bruck", **link)
    with pytest.raises(BadInput, match="at most 100,000"):
        _collective("all-to-all", 512, "1MB", "bruck", None)


def test_the_refusal_of_an_oversized_program_states_its_memory() -> None:
    check_work("ring", 2, MOST_OPERATIONS)
    with pytest.raises(BadInput, match=r"2 ranks is about 2e\+06 operations \(.*at most 2,000,000 are simulated"):
        check_work("ring", 2, MOST_OPERATIONS + 1)
    for operations in (5e6, 5e9):
        with pytest.raises(BadInput) as caught:
            check_work("ring", 2, operations)
        memory = str(caught.value).partition("(")[2].partition(")")[0]
        assert parse_size_B(memory, "memory") == pytest.approx(400 * operations, rel=0.01)
