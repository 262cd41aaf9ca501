"""A rank made late in a program, and found again in the timeline."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.failures.stragglers import LateRank, find_late, parse_late
from lockstep.simulate.parallel.pipeline import Times
from lockstep.simulate.parallel.pipeline import get as schedule
from lockstep.simulate.parallel.pipeline import program as pipeline
from lockstep.simulate.play import Noise, simulate
from lockstep.simulate.program import Kind, Program, ProgramBuilder, execute

LINK = PlainLink(latency_s=1e-4, bandwidth_Bps=2e9)
SCHEDULES = ("gpipe", "1f1b", "zb-h1")


def stages(name: str, ranks: int = 4) -> Program:
    """A pipeline with equal stages."""
    return pipeline(schedule(name), ranks, 6, times=Times(0.01, 0.02), message_B=65536, priced_by_link=True)


def ring(ranks: int) -> Program:
    """A ring all-reduce of floats."""
    return get("all-reduce", "ring").program(ranks, 4.0 * 12 * ranks, element_B=4.0)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("rank", range(4))
def test_a_late_factor_equals_the_simulated_slowdown(name: str, rank: int) -> None:
    program = stages(name)
    slowdown = tuple(1.5 if one == rank else 1.0 for one in range(4))
    expected = simulate(program, LINK, noise=Noise(slowdown=slowdown))
    found = simulate(LateRank(rank, factor=1.5).applied(program), LINK)
    np.testing.assert_allclose(found.end_s, expected.end_s, rtol=1e-12)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_ring_waits_for_its_late_rank_in_every_round(ranks: int) -> None:
    """2 (n - 1) sends, each late by d, one after another: nothing else is as long."""
    program, delay_s = ring(ranks), 0.05
    late = LateRank(ranks - 1, delay_s).applied(program)
    on_time, found = simulate(program, LINK), simulate(late, LINK)
    assert found.makespan_s == pytest.approx(on_time.makespan_s + 2 * (ranks - 1) * delay_s, rel=1e-9)
    assert found.computing_s[ranks - 1] - on_time.computing_s[ranks - 1] == pytest.approx(2 * (ranks - 1) * delay_s)


def test_a_late_rank_changes_no_bytes_messages_or_results() -> None:
    program = ring(3)
    late = LateRank(1, 0.01).applied(program)
    np.testing.assert_array_equal(late.pair_B(), program.pair_B())
    np.testing.assert_array_equal(late.messages_sent(), program.messages_sent())
    data = [np.arange(36.0) + rank for rank in range(3)]
    for one, other in zip(execute(program, {"data": data})["data"], execute(late, {"data": data})["data"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_delay_starts_when_a_message_is_ready() -> None:
    late = LateRank(1, 0.01).applied(ring(3))
    delays = np.flatnonzero(late.kind == Kind.COMPUTE)
    assert len(delays) == 4
    for i in delays.tolist():
        assert late.kind[i + 1] == Kind.SEND
        assert late[i + 1].after == (), "what the send waited for, its delay waits for"


def test_a_program_without_compute_time_is_delayed_at_its_sends() -> None:
    builder = ProgramBuilder(2)
    start = builder.compute(0, 0.0)
    builder.message(0, 1, 8.0, after=[start])
    program = builder.build()
    late = LateRank(0, 0.5).applied(program)
    assert simulate(late, LINK).makespan_s == pytest.approx(0.5 + simulate(program, LINK).makespan_s)
    assert late.kind.tolist().count(Kind.COMPUTE) == 2
    with pytest.raises(BadInput, match="no computation that a factor could slow down"):
        LateRank(0, factor=2.0).applied(program)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("rank", range(4))
def test_the_late_stage_is_found(name: str, rank: int) -> None:
    program = stages(name)
    found = find_late([simulate(LateRank(rank, factor=1.5).applied(program), LINK)], simulate(program, LINK))
    assert found is not None
    assert found.rank == rank
    assert found.excess_s[rank] == pytest.approx(6 * 0.015)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_the_late_rank_of_a_ring_is_found_and_is_the_only_one_not_waiting(ranks: int) -> None:
    program = ring(ranks)
    found = find_late([simulate(LateRank(1, 0.05).applied(program), LINK)], simulate(program, LINK))
    assert found is not None
    assert found.rank == 1
    assert np.argmin(found.waited_s) == 1


def test_expected_uniform_or_single_delays_name_no_late_rank() -> None:
    program = stages("1f1b")
    on_time = simulate(program, LINK)
    assert find_late([on_time], on_time) is None
    assert find_late([simulate(program, LINK, noise=Noise(slowdown=(2.0,) * 4))], on_time) is None
    late = simulate(LateRank(2, factor=1.5).applied(program), LINK)
    assert find_late([late, on_time, on_time], on_time) is None
    assert find_late([late, late, on_time], on_time) is not None


def test_stragglers_are_parsed_from_text() -> None:
    assert parse_late("2:50ms") == LateRank(2, delay_s=0.05)
    assert parse_late("0:1.5x") == LateRank(0, factor=1.5)
    for text in ("2", "x:1ms", "2:", "-1:1ms", "2:0.5x", "2:5GB", ":1ms"):
        with pytest.raises(BadInput):
            parse_late(text)
    with pytest.raises(BadInput, match="rank 4 is not one of 0 to 3"):
        LateRank(4, 0.1).applied(stages("gpipe"))
    with pytest.raises(BadInput, match="has no computation that a factor could slow down"):
        LateRank(1, factor=2.0).applied(ring(3))
