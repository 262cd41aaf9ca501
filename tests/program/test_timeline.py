"""P14: spans lie on their lanes without overlap, and every summary of a timeline says the same as its spans."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from lockstep.base.errors import BadInput
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Kind, Program, ProgramBuilder, Timeline, diff, merge
from program.random_programs import Link, price, programs


def run(program: Program) -> Timeline:
    return simulate(program, Link(), price=price)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(programs)
def test_no_overlap_on_a_lane_and_sums_agree(program: Program) -> None:
    timeline = run(program)
    busy_s = timeline.busy_s()
    for rank, stream in timeline.lanes:
        here = np.flatnonzero((program.rank == rank) & (program.stream == program.streams.index(stream)))
        assert (timeline.start_s[here[1:]] >= timeline.end_s[here[:-1]]).all()
        spans_s = float((timeline.end_s[here] - timeline.start_s[here]).sum())
        assert busy_s[rank, stream] == pytest.approx(spans_s, rel=1e-12, abs=1e-18)
        assert timeline.idle_s()[rank, stream] + spans_s == pytest.approx(timeline.makespan_s, rel=1e-9, abs=1e-18)
    assert timeline.makespan_s == max(timeline.end_s.tolist(), default=0.0)


def covered_s(spans: list[tuple[float, float]]) -> float:
    """Length of a union of intervals, the slow way."""
    points = sorted({point for span in spans for point in span})
    return sum(
        high - low
        for low, high in itertools.pairwise(points)
        if any(start <= low and end >= high for start, end in spans)
    )


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs)
def test_each_rank_splits_its_makespan(program: Program) -> None:
    timeline = run(program)
    spans = list(zip(timeline.start_s.tolist(), timeline.end_s.tolist(), strict=True))
    computes = np.isin(program.kind, (Kind.COMPUTE, Kind.REDUCE, Kind.COPY))
    row = timeline.to_dict()["per_rank"]
    for rank in range(program.ranks):
        mine = np.flatnonzero(program.rank == rank).tolist()
        computing = covered_s([spans[i] for i in mine if computes[i]])
        either = covered_s([spans[i] for i in mine])
        near = {"rel": 1e-9, "abs": 1e-15}
        assert timeline.computing_s[rank] == pytest.approx(computing, **near)
        assert timeline.communicating_s[rank] == pytest.approx(
            covered_s([spans[i] for i in mine if not computes[i]]), **near
        )
        assert timeline.exposed_s[rank] == pytest.approx(either - computing, **near)
        assert timeline.waiting_s[rank] == pytest.approx(timeline.makespan_s - either, **near)
        assert row[rank]["exposed_s"] == timeline.exposed_s[rank]
        assert row[rank]["computing_s"] + row[rank]["exposed_s"] + row[rank]["waiting_s"] == pytest.approx(
            timeline.makespan_s, **near
        )


@settings(derandomize=True, max_examples=50, deadline=None)
@given(programs)
def test_critical_path_is_a_chain_over_the_whole_makespan(program: Program) -> None:
    timeline = run(program)
    path = timeline.critical_path
    if not len(program):
        assert path == ()
        return
    assert timeline.start_s[path[0]] == 0.0
    assert timeline.end_s[path[-1]] == timeline.makespan_s
    for one, two in itertools.pairwise(path):
        assert timeline.end_s[one] == timeline.start_s[two]
    total = timeline.critical_s_by_kind()
    assert sum(total.values()) == pytest.approx(timeline.makespan_s, rel=1e-9)
    assert "waiting" not in total


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs)
def test_memory_follows_the_allocations_of_each_rank(program: Program) -> None:
    timeline = run(program)
    for rank in range(program.ranks):
        mine = np.flatnonzero(program.rank == rank).tolist()
        events = [(float(timeline.start_s[i]), float(program.memory_start_B[i])) for i in mine]
        events += [(float(timeline.end_s[i]), float(program.memory_end_B[i])) for i in mine]
        level = peak = 5.0
        for _, delta in sorted(events):
            level += delta
            peak = max(peak, level)
        times, used_B = timeline.memory_B(rank, initial_B=5.0)
        assert (np.diff(times) >= 0).all()
        assert timeline.peak_memory_B(5.0)[rank] == peak
        assert used_B.tolist()[-1:] == ([level] if len(used_B) else [])


def test_exposed_and_hidden_communication_add_up() -> None:
    builder = ProgramBuilder(2)
    builder.message(0, 1, 0.0, duration_s=3.0)
    builder.compute(0, 2.0)
    timeline = simulate(builder.build())
    assert timeline.exposed_s.tolist() == [1.0, 3.0]
    assert timeline.utilization_frac == pytest.approx(1 / 3)
    assert timeline.critical_s_by_kind() == {"message": 3.0}
    assert timeline.waiting_s.tolist() == [0.0, 0.0]
    assert "makespan 3 s" in str(timeline)


def test_link_utilization_is_the_share_of_busy_time() -> None:
    builder = ProgramBuilder(2)
    builder.message(0, 1, 100.0)
    timeline = simulate(builder.build(), Link(0.0, 50.0))
    assert timeline.link_utilization_frac(50.0).tolist() == [[0, 1], [0, 0]]


def test_timelines_can_be_compared_and_merged() -> None:
    builder = ProgramBuilder(2)
    for rank in range(2):
        builder.compute(rank, 1.0, label="F")
        builder.compute(rank, 2.0, label="B")
    program = builder.build()
    predicted = simulate(program)
    halves = [
        Timeline(program, np.where(program.rank == rank, predicted.start_s * 2, 0.0),
                 np.where(program.rank == rank, predicted.end_s * 2, 0.0), source="measured")
        for rank in range(2)
    ]  # fmt: skip
    measured = merge(halves)
    assert (measured.source, measured.makespan_s) == ("measured", 6.0)
    result = diff(predicted, measured)
    assert result.makespan_frac == -0.5
    assert [(row["label"], row["predicted_s"], row["measured_s"]) for row in result.rows()] == [
        ("B", 4, 8),
        ("F", 2, 4),
    ]
    assert result.to_dict()["rows"][0]["error_frac"] == -0.5
    with pytest.raises(BadInput, match="two of the timelines"):
        merge([measured, measured])
    with pytest.raises(BadInput, match="nothing to merge"):
        merge([])
    with pytest.raises(BadInput, match="different programs"):
        diff(predicted, simulate(ProgramBuilder(1).build()))


@pytest.mark.parametrize(
    ("start", "end"), [([1.0], [0.5]), ([-1.0], [0.5]), ([np.nan], [1.0]), ([0.0, 1.0], [1.0, 2.0])]
)
def test_impossible_spans_are_refused(start: list[float], end: list[float]) -> None:
    builder = ProgramBuilder(1)
    builder.compute(0, 1.0)
    with pytest.raises(BadInput):
        Timeline(builder.build(), np.array(start), np.array(end))
