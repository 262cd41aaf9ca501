"""Laws between schedules, golden values, and the traps around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_oracle import replay

from lockstep.base.errors import BadInput, UnknownName
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.pipeline import Times
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder

examples = settings(max_examples=50, derandomize=True, deadline=None)
count = st.integers(1, 8)
time = st.integers(1, 40)


def bubble(name: str, stages: int, microbatches: int, chunks: int = 1, **times: Any) -> float:
    given = {"forward_s": 1.0, "backward_s": 2.0} | times
    return float(pipelines.get(name).price(stages, microbatches, chunks=chunks, **given).bubble_frac)


@pytest.mark.parametrize(
    ("stages", "microbatches", "utilization"),
    [(4, 4, 4 / 7), (4, 32, 32 / 35), (8, 4, 4 / 11), (8, 32, 32 / 39), (8, 64, 64 / 71), (8, 63, 0.9)],
)
def test_gpipe_and_1f1b_have_the_same_bubble(stages: int, microbatches: int, utilization: float) -> None:
    for name in ("gpipe", "1f1b", "eager-1f1b"):
        assert 1 - bubble(name, stages, microbatches) == pytest.approx(utilization, rel=1e-12)


@pytest.mark.parametrize(
    ("stages", "microbatches", "chunks", "utilization"),
    [(4, 4, 2, 8 / 11), (8, 16, 2, 32 / 39), (8, 32, 4, 128 / 135), (16, 32, 2, 64 / 79), (64, 128, 4, 512 / 575)],
)
def test_interleaved_schedules_match_golden_values(
    stages: int, microbatches: int, chunks: int, utilization: float
) -> None:
    assert 1 - bubble("interleaved", stages, microbatches, chunks) == pytest.approx(utilization, rel=1e-12)


@examples
@given(count, st.integers(1, 6), st.integers(2, 5), time, time)
def test_interleaving_divides_the_bubble_time(p: int, groups: int, v: int, f: int, b: int) -> None:
    plain = pipelines.get("1f1b").price(p, p * groups, forward_s=f, backward_s=b)
    looped = pipelines.get("interleaved").price(p, p * groups, chunks=v, forward_s=f, backward_s=b)
    assert float(looped.bubble_s) == pytest.approx(float(plain.bubble_s) / v, rel=1e-9, abs=1e-9)


def test_peak_activations_in_device_micro_batches() -> None:
    """p=4, m=8: 8, 4, 5.5, 4.75. Interleaving holds 1 + (p - 1)/(p v) times 1F1B, not v times."""
    peaks = [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 4)]
    assert [float(pipelines.get(name).peak_live(4, 8, v, 0)) for name, v in peaks] == [8, 4, 5.5, 4.75]
    assert [float(x) for x in pipelines.get("1f1b").peak_live(4, 8, 1, np.arange(4))] == [4, 3, 2, 1]


@examples
@given(count, st.integers(1, 24), st.lists(st.tuples(time, time), min_size=8, max_size=8))
def test_unequal_stages_are_bounded_and_gpipe_is_exact(p: int, m: int, stage_times: list[tuple[int, int]]) -> None:
    """Any times per stage: GPipe is two flow shops, exactly; 1F1B lies between its slowest stage and GPipe."""
    f, b = zip(*stage_times[:p], strict=True)
    seconds = lambda step, s, c: f[s] if step == "F" else b[s]  # noqa: E731
    each = [x + y for x, y in zip(f, b, strict=True)]
    gpipe, _ = replay(pipelines.get("gpipe").order(p, m, 1), "looped", 1, seconds)
    assert gpipe == sum(each) + (m - 1) * (max(f) + max(b))
    one, _ = replay(pipelines.get("1f1b").order(p, m, 1), "looped", 1, seconds)
    assert max(sum(each), m * max(each)) <= one <= gpipe
    if f[-1] == max(f) and b[-1] == max(b):
        assert one == gpipe
    times = {"forward_s": np.array(f), "backward_s": np.array(b), "weight_s": np.array(b) / 2}
    answer = pipelines.pipeline("1f1b", p, m, **times)
    assert answer.makespan_s == pytest.approx(one, rel=1e-12)
    assert answer.formula_s >= one * (1 - 1e-12)


@examples
@given(count, st.integers(1, 30), st.integers(2, 20), st.integers(2, 20), st.sampled_from([1, 2]))
def test_1f1b_pays_delays_repeatedly_and_eager_1f1b_once(p: int, m: int, f: int, b: int, d: int) -> None:
    times = {"forward_s": f, "backward_s": b, "transfer_s": d, "blocking": False}
    rounds = -(-(m - 1) // p)
    cost = {name: float(pipelines.get(name).price(p, m, **times).makespan_s) for name in ("1f1b", "eager-1f1b")}
    work = (m + p - 1) * (f + b)
    assert cost["1f1b"] == work + 2 * d * (m + p - 2 - rounds) * (p > 1)
    assert cost["eager-1f1b"] == work + 2 * d * (p - 1)
    for name, price in cost.items():
        built = pipelines.program(pipelines.get(name), p, m, times=Times(**times))
        assert simulate(built).makespan_s == pytest.approx(price, rel=1e-12)


@examples
@given(count, st.integers(1, 4), st.integers(2, 4), st.integers(8, 20), st.integers(8, 20))
def test_delays_of_interleaved_schedules_match_the_simulation(p: int, groups: int, v: int, f: int, b: int) -> None:
    times = {"forward_s": f * v, "backward_s": b * v, "transfer_s": 1, "blocking": False}
    price = pipelines.get("interleaved").price(p, p * groups, chunks=v, **times).makespan_s
    built = pipelines.program(pipelines.get("interleaved"), p, p * groups, chunks=v, times=Times(**times))
    assert simulate(built).makespan_s == pytest.approx(float(price), rel=1e-12)


@examples
@given(count, st.integers(1, 24), time, time, time)
def test_zero_bubble_is_never_slower_than_1f1b(p: int, m: int, f: int, i: int, w: int) -> None:
    w = min(f, i, w)
    times = {"forward_s": f, "backward_s": i + w, "weight_s": w}
    plain = pipelines.pipeline("1f1b", p, m, **times)
    assert pipelines.pipeline("zb-h1", p, m, **times).makespan_s <= plain.makespan_s * (1 + 1e-12)
    assert pipelines.pipeline("zb-h2", p, m, **times).stage_s <= plain.stage_s * (1 + 1e-12)


@examples
@given(st.sampled_from(pipelines.names()), st.integers(0, 1000), st.integers(1, 30))
def test_a_longer_pass_never_shortens_a_fixed_order(name: str, which: int, more: int) -> None:
    """Monotone for a fixed order. (List scheduling that re-decides the order may get faster: Graham's anomaly.)"""
    schedule = pipelines.get(name)
    p, m, v = 4, 8, schedule.num_chunks or 2
    order = schedule.order(p, m, v)
    passes = [(s, step) for s, lane in enumerate(order) for step in lane]
    slow_device, (slow_step, _, slow_chunk) = passes[which % len(passes)]

    def seconds(extra: int) -> Any:
        return lambda step, s, c: 10 + extra * ((s, step, c) == (slow_device, slow_step, slow_chunk))

    before, _ = replay(order, schedule.placement.value, v, seconds(0))
    after, _ = replay(order, schedule.placement.value, v, seconds(more))
    assert after >= before


def test_full_recomputation_costs_a_third_when_backward_is_twice_forward() -> None:
    plain = pipelines.pipeline("1f1b", 4, 8, forward_s=1.0, backward_s=2.0)
    again = pipelines.pipeline("1f1b", 4, 8, forward_s=1.0, backward_s=2.0, recompute_frac=1.0)
    assert again.makespan_s / plain.makespan_s == pytest.approx(4 / 3, rel=1e-12)
    assert Times(1.0, 2.0).recomputing(1.0).weight_part_s == 1.0
    with pytest.raises(BadInput, match="between 0 and 1"):
        Times(1.0, 2.0).recomputing(1.5)


def test_stage_times_may_be_plain_lists() -> None:
    lists = {"forward_s": [1, 2, 1, 1], "backward_s": [2, 4, 2, 3], "weight_s": [1, 2, 1, 1]}
    arrays = {name: np.array(value, dtype=float) for name, value in lists.items()}
    for name in ("1f1b", "zb-h1", "zb-v"):
        for recompute_frac in (0.0, 0.5):
            one, two = (
                pipelines.pipeline(name, 4, 8, recompute_frac=recompute_frac, **times).to_dict()
                for times in (lists, arrays)
            )
            assert one == two


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 64), (16, 64)])
def test_chimera_halves_the_bubble_of_1f1b_with_two_copies(p: int, m: int) -> None:
    cost = pipelines.get("chimera").price(p, m, forward_s=1.0, backward_s=1.0)
    assert float(cost.bubble_frac) == pytest.approx((p - 2) / (2 * m + p - 2), rel=1e-12)


@examples
@given(st.integers(1, 8), st.integers(0, 9), time, time, st.integers(0, 40))
def test_the_dualpipe_bubble_matches_its_paper(half: int, more: int, f: int, w: int, hidden: int) -> None:
    """DeepSeek-V3, table 2: (PP/2 - 1)(F&B + B - 3 W) on the devices with most cells, where B - W = F."""
    w = min(f, w)
    b, p, m = f + w, 2 * half, 4 * half + 2 * more
    comm = 2 * min(hidden, f)
    times = {"forward_s": 2.0 * f, "backward_s": 2.0 * b, "weight_s": 2.0 * w}
    cost = pipelines.get("dualpipe").price(p, m, forward_comm_s=comm / 2, backward_comm_s=comm / 2, **times)
    cell_s, cells = 2.0 * (f + b) - comm, float(pipelines.get("dualpipe").num_cells(p, m, 2, half - 1))
    busy_s = cells * cell_s + (m - cells) * 2.0 * (f + b)
    assert float(cost.makespan_s) - busy_s == pytest.approx((half - 1) * (cell_s + 2 * b - 6 * w), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("name", "p", "m"), [("dualpipe", 8, 20), ("dualpipe-v", 4, 11)])
@pytest.mark.parametrize("blocking", [False, True])
def test_cells_hide_traffic_on_a_separate_lane(name: str, p: int, m: int, blocking: bool) -> None:
    schedule = pipelines.get(name)
    times = {"forward_s": 4.0, "backward_s": 6.0, "weight_s": 2.0, "forward_comm_s": 2.0, "backward_comm_s": 2.0}
    answer = pipelines.pipeline(name, p, m, blocking=blocking, transfer_s=0.25, **times)
    built = answer.program
    traffic = (built.stream == built.streams.index("comm")) & (built.duration_s > 0)
    cell_traffic_s = 4.0 / (1 if schedule.copies == 2 else 2)
    assert set(built.duration_s[traffic]) == {cell_traffic_s}
    counted = np.bincount(built.rank[traffic], minlength=p) * cell_traffic_s / 4.0
    assert tuple(counted) == answer.cells
    ends = simulate(built)
    assert (
        ends.makespan_s
        < simulate(
            pipelines.program(schedule, p, m, times=Times(**times, transfer_s=0.25, blocking=blocking), cells=False)
        ).makespan_s
    )


@examples
@given(st.sampled_from(["dualpipe", "dualpipe-v"]), st.integers(1, 4), st.integers(0, 12), st.data())
def test_cells_full_of_traffic_are_estimated_a_few_percent_short(name: str, half: int, more: int, data: Any) -> None:
    """Traffic up to twice the computing: where a pass alone is longer than a cell, devices wait for one another."""
    p, m = 2 * half, 4 * half + 2 * more
    f, i, w, forth, back = (data.draw(st.integers(60, 120)) for _ in range(5))
    times = {"forward_s": f + forth, "backward_s": i + w + back, "weight_s": w, "forward_comm_s": forth}
    answer = pipelines.pipeline(name, p, m, backward_comm_s=back, comm_device_frac=0.15, **times)
    assert -0.05 <= answer.formula_s / answer.makespan_s - 1 <= 1e-12


def test_traffic_within_a_pass_is_part_of_its_time() -> None:
    with pytest.raises(BadInput, match="part of a forward pass that takes 2"):
        pipelines.pipeline("dualpipe", 4, 8, forward_s=2.0, forward_comm_s=3.0)
    alone = pipelines.pipeline("1f1b", 4, 8, forward_s=2.0, backward_s=4.0, forward_comm_s=1.0, backward_comm_s=1.0)
    assert alone.makespan_s == 11 * 6
    assert alone.utilization_frac == pytest.approx(8 * 4 / 66, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "p", "m", "chunks"),
    [
        ("interleaved", 4, 9, 2), ("interleaved", 4, 8, 1), ("chimera", 3, 6, 2), ("dualpipe", 4, 7, 2),
        ("dualpipe-v", 4, 7, 2), ("zb-v", 4, 8, 3), ("gpipe", 4, 8, 2),
    ],
)  # fmt: skip
def test_impossible_sizes_are_refused_with_the_rule(name: str, p: int, m: int, chunks: int) -> None:
    number = pipelines.get(name).num_chunks
    wrong = f"has {number} chunks? per stage, got {chunks}"
    rule = f"cannot run with stages={p}" if number in (None, chunks) else wrong
    with pytest.raises(BadInput, match=f"{name} {rule}"):
        pipelines.pipeline(name, p, m, chunks=chunks)
    assert not pipelines.valid(pipelines.code(name), p, m, chunks)


@pytest.mark.parametrize(
    "bad",
    [
        {"forward_s": -1.0}, {"backward_s": float("nan")}, {"forward_s": float("inf")}, {"transfer_s": -1e-9},
        {"forward_s": np.ones(3)}, {"stages": 0}, {"microbatches": 0}, {"schedule": "1f2b"}, {"recompute_frac": 2.0},
        {"weight_s": 3.0}, {"chunks": -1},
    ],
)  # fmt: skip
def test_bad_numbers_are_refused(bad: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"schedule": "1f1b", "stages": 4, "microbatches": 8} | bad
    with pytest.raises(BadInput):
        pipelines.pipeline(**arguments)


def test_unknown_schedule_names_and_codes_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean gpipe"):
        pipelines.get("gpip")
    with pytest.raises(BadInput, match="codes are 0 to"):
        pipelines.price_by_code(np.array([0, 99]), 4, 8, forward_s=1.0, backward_s=2.0)


def test_exchanges_count_as_exposed_communication() -> None:
    """p = 4, m = 8, every pass held for 0.5: the share computing is m (f + b) over (m + p - 1)(f + b + 1)."""
    built = pipelines.program(pipelines.get("1f1b"), 4, 8, times=Times(1.0, 2.0, transfer_s=0.5))
    timeline = simulate(built)
    assert timeline.utilization_frac == pytest.approx(8 * 3 / (11 * 4), rel=1e-12)
    assert timeline.exposed_s == pytest.approx([8.0] * 4, rel=1e-12)
    answer = pipelines.pipeline("1f1b", 4, 8, forward_s=1.0, backward_s=2.0, transfer_s=0.5)
    assert answer.utilization_frac == pytest.approx(timeline.utilization_frac, rel=1e-12)


def test_result_is_plain_and_bytes_are_counted() -> None:
    """p = 4, m = 8: ends send m messages, middle stages 2 m; v chunks send v times as much around the loop."""
    answer = pipelines.pipeline("1f1b", 4, 8, message_B=10.0)
    assert answer.to_dict()["sent_B"] == [80.0, 160.0, 160.0, 80.0]
    assert answer.bubble_frac == pytest.approx(3 / 11, rel=1e-12)
    looped = pipelines.pipeline("interleaved", 4, 8, chunks=2, message_B=10.0)
    assert sum(looped.sent_B) == 2 * 8 * (4 * 2 - 1) * 10.0


@pytest.mark.parametrize("name", pipelines.names())
@pytest.mark.parametrize("blocking", [False, True])
def test_a_pipeline_can_be_written_into_a_larger_program(name: str, blocking: bool) -> None:
    """The operations that `write` returns are the last ones of their devices, wherever the builder was."""
    schedule = pipelines.get(name)
    v = schedule.num_chunks or 2
    times = Times(2.0, 4.0, 2.0, transfer_s=0.5, blocking=blocking)
    alone = simulate(pipelines.program(schedule, 4, 8, chunks=v, times=times)).makespan_s
    builder = ProgramBuilder(4, (*pipelines.lanes(v), "before"))
    starts = [builder.compute(s, 7.0, stream="before") for s in range(4)]
    cells = schedule.cells(4, 8, v) if schedule.cells else None
    last = pipelines.write(builder, schedule, schedule.order(4, 8, v), v, times, cells=cells)
    after = [builder.compute(s, 1.0, after=last[s], stream="before") for s in range(4)]
    timeline = simulate(builder.build())
    assert starts == [0, 1, 2, 3]
    compute = timeline.program.stream == 0
    for s in range(4):
        lane = compute & (timeline.program.rank == s)
        assert timeline.end_s[last[s]] == timeline.end_s[lane].max()
    assert timeline.makespan_s == pytest.approx(alone + 1.0, rel=1e-12)
    assert timeline.end_s[after].max() == timeline.makespan_s


def test_progress_counts_up_to_its_total() -> None:
    heard: list[tuple[int, int]] = []
    pipelines.pipeline("1f1b", 4, 8, progress=lambda done, total: heard.append((done, total)))
    assert [done for done, _ in heard] == list(range(1, 9))
    assert {total for _, total in heard} == {8}


def test_only_schedules_in_both_directions_hold_two_copies_of_the_model() -> None:
    both_ways = {one.name for one in pipelines.SCHEDULES if one.placement is pipelines.Placement.BOTH_WAYS}
    assert both_ways == {"chimera", "dualpipe"}
    for schedule in pipelines.SCHEDULES:
        assert schedule.copies == (2 if schedule.name in both_ways else 1), schedule.name


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_v_schedules_warm_up_with_the_passes_in_flight(stages: int) -> None:
    """Before its first pass of the second chunk device s runs 2 (p - s) - 1 of the first: p - s - 1 stages each way."""
    for s, lane in enumerate(pipelines.get("zb-v").order(stages, 3 * stages, 2)):
        second = next(place for place, (step, _, chunk) in enumerate(lane) if (step, chunk) == ("F", 1))
        assert lane[:second] == [("F", m, 0) for m in range(2 * (stages - s) - 1)]
