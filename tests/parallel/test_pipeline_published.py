"""Bubble rates that the zero-bubble paper prints, from the times it prints. Rates are (cost - m (F + B + W)) / cost."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_oracle import replay

from effort import share
from lockstep.base.errors import BadInput
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.pipeline import Times, automatic_order, automatic_v_order
from lockstep.simulate.parallel.pipeline.automatic import _Pace, _Run
from lockstep.simulate.play import simulate

HAND_MADE = {"1F1B": "1f1b", "1F1B-I": "interleaved", "ZB-H1": "zb-h1", "ZB-H2": "zb-h2"}
TABLE = Path(__file__).parent / "data" / "zero_bubble_2024.csv"
# Table 5 has four digits, calculated from Table 9 with three: 1e-4. Interleaved: our cost is p message times longer in
# every row, which we have not explained: 3e-3.
TOLERANCE = {"1F1B-I": 3e-3}


def table() -> list[dict[str, str]]:
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def name_of(row: dict[str, str]) -> str:
    return f"{row['model']}-{row['microbatches']}-{row['schedule']}"


def times_of(row: dict[str, str]) -> Times:
    f, i, w, d = (float(row[f"t_{name}_ms"]) for name in ("f", "b", "w", "comm"))
    return Times(forward_s=f, backward_s=i + w, weight_s=w, transfer_s=d, blocking=False)


def rate_of_order(order: pipelines.Order, times: Times, chunks: int = 1) -> float:
    """Bubble rate of an order with one chunk per stage, or two in a V, by the independent replay."""
    w = float(times.weight_s)
    seconds = {"F": float(times.forward_s), "I": float(times.backward_s) - w, "W": w}
    seconds = {step: value / chunks for step, value in seconds.items()}
    placement = "looped" if chunks == 1 else "vee"
    _, stage_s = replay(order, placement, chunks, lambda step, s, c: seconds[step], float(times.transfer_s))
    return 1 - len(order[0]) / 3 * sum(seconds.values()) / stage_s


@pytest.mark.parametrize("row", share(sorted(table(), key=lambda row: row["schedule"]), 3), ids=name_of)
def test_bubble_rates_match_table_5(row: dict[str, str]) -> None:
    p, m, published = int(row["stages"]), int(row["microbatches"]), float(row["bubble_rate"])
    times = times_of(row)
    if row["schedule"] in HAND_MADE:
        chunks = int(row["layers_per_stage"]) if row["schedule"] == "1F1B-I" else 1
        used = ("forward_s", "backward_s", "weight_s", "transfer_s", "blocking")
        values = {name: getattr(times, name) for name in used}
        answer = pipelines.pipeline(HAND_MADE[row["schedule"]], p, m, chunks=chunks, **values)
        assert answer.stage_bubble_frac == pytest.approx(published, abs=TOLERANCE.get(row["schedule"], 1.0e-4))
        return
    kept_frac = 32 / (34 + float(row["attention"]))
    memory = p if row["schedule"] == "ZB-1p" else 2 * p
    rate = rate_of_order(automatic_order(p, m, times, memory=memory, kept_frac=kept_frac), times)
    assert rate <= published + 1.0e-4
    assert rate >= published - 2.0e-3


@pytest.mark.parametrize(("p", "m", "percent"), [(8, 24, 8.9), (8, 64, 3.5), (16, 64, 7.3), (32, 128, 7.5)])
def test_zb_schedules_with_equal_passes_match_the_paper(p: int, m: int, percent: float) -> None:
    """ZB-H1 as printed to one digit (15/207 = 7.246 is printed 7.3); no bubble in the cost of ZB-H2 and ZB-V."""
    times = {"forward_s": 1.0, "backward_s": 2.0, "weight_s": 1.0}
    assert 100 * pipelines.pipeline("zb-h1", p, m, **times).stage_bubble_frac == pytest.approx(percent, abs=0.06)
    for name in ("zb-h2", "zb-v"):
        assert pipelines.pipeline(name, p, m, **times).stage_bubble_frac == pytest.approx(0.0, abs=1e-12)


def test_zb_schedules_with_unequal_passes_match_the_paper() -> None:
    """F/B/W 1000/1200/800, messages of 50, p = 8, m = 24: printed 13.5 (one 1F1B memory), 1.5 (two), 5.9 % (ZB-V).

    The hand-made ZB-V order gives 6.25: the printed number is of an automatic one, and ours is 0.12 points better.
    """
    times = {"forward_s": 1000.0, "backward_s": 2000.0, "weight_s": 800.0, "transfer_s": 50.0, "blocking": False}
    assert 100 * pipelines.pipeline("zb-h1", 8, 24, **times).stage_bubble_frac == pytest.approx(13.5, abs=0.05)
    vee = automatic_v_order(8, 24, Times(**times))
    assert 5.9 - 0.2 <= 100 * rate_of_order(vee, Times(**times), chunks=2) <= 5.9
    order = automatic_order(8, 24, Times(**times), memory=16, kept_frac=0.4)
    assert 100 * rate_of_order(order, Times(**times)) == pytest.approx(1.5, abs=0.05)


def test_twice_the_memory_reaches_the_bound_of_the_first_gradient() -> None:
    """2p forward passes end before the first gradient can be back: 1100 of 73,100 is the printed 1.5 %, and optimal."""
    p, m, f, i, w, d = 8, 24, 1000, 1200, 800, 50
    soonest_s = p * f + (p - 1) * i + 2 * (p - 1) * d
    least_s = m * (f + i + w) + max(0, soonest_s - 2 * p * f)
    times = Times(f, i + w, w, d, False)
    rate = rate_of_order(automatic_order(p, m, times, memory=2 * p, kept_frac=0.4), times)
    assert rate == pytest.approx(1 - m * (f + i + w) / least_s, rel=1e-9)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(1, 6), st.integers(1, 16), st.data())
def test_automatic_orders_are_complete_and_within_memory(p: int, m: int, data: st.DataObject) -> None:
    f, i, w = (data.draw(st.integers(1, 20)) for _ in range(3))
    memory, kept_frac = data.draw(st.integers(1, 2 * p)), data.draw(st.sampled_from([0.0, 0.4, 1.0]))
    times = Times(f, i + w, w, data.draw(st.integers(0, 3)), False)
    order = automatic_order(p, m, times, memory=memory, kept_frac=kept_frac)
    for lane in order:
        assert Counter(lane) == Counter((step, k, 0) for step in "FIW" for k in range(m))
        live = peak = 0.0
        for step, _, _ in lane:
            live += {"F": 1.0, "I": kept_frac - 1, "W": -kept_frac}[step]
            peak = max(peak, live)
        assert peak <= memory + 1e-9
    assert 0 <= rate_of_order(order, times) < 1
    for name in ("zb-h1", "zb-h2"):
        if pipelines.get(name).peak_live(p, m, 1, 0) <= memory:
            assert rate_of_order(order, times) <= rate_of_order(pipelines.get(name).order(p, m, 1), times) + 1e-12


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(1, 6), st.integers(1, 16), st.data())
def test_automatic_v_orders_are_complete_and_no_worse_than_handcrafted_ones(
    p: int, m: int, data: st.DataObject
) -> None:
    f, i, w, d = (data.draw(st.integers(low, 20)) for low in (1, 1, 1, 0))
    times = Times(2 * f, 2 * (i + w), 2 * w, min(d, f, i), False)
    order, by_hand = automatic_v_order(p, m, times), pipelines.get("zb-v").order(p, m, 2)
    for lane in order:
        assert Counter(lane) == Counter((step, k, c) for step in "FIW" for k in range(m) for c in (0, 1))
        live = peak = 0
        for step, _, _ in lane:
            live += {"F": 1, "I": 0, "W": -1}[step]
            peak = max(peak, live)
        assert peak <= 2 * p
    assert 0 <= rate_of_order(order, times, chunks=2) <= rate_of_order(by_hand, times, chunks=2) + 1e-12
    timeline = simulate(pipelines.program_of(pipelines.get("zb-v"), order, 2, times))
    makespan_s, _ = replay(order, "vee", 2, lambda step, s, c: {"F": f, "I": i, "W": w}[step], times.transfer_s)
    assert timeline.makespan_s == pytest.approx(makespan_s, rel=1e-12)


@pytest.mark.parametrize(("name", "published"), [("v-half", lambda p: (p + 2) // 2), ("v-min", lambda p: (p + 4) // 3)])
@pytest.mark.parametrize("p", range(1, 17))
def test_memory_of_v_schedules_matches_the_published_table(name: str, published: Callable[[int], int], p: int) -> None:
    """Micro-batches held by the fullest device: the table beside the authors' interactive scheduler (sail-sg)."""
    most = 0
    for lane in pipelines.get(name).order(p, 4 * p, 2):
        held = np.cumsum([{"F": 1, "I": 0, "W": -1}[step] for step, _, _ in lane])
        most = max(most, held.max())
    assert most / 2 == published(p)


@pytest.mark.parametrize(("name", "printed"), [("v-half", 1 / 2), ("v-min", 2 / 3)])
@pytest.mark.parametrize("p", [4, 8, 16, 24])
def test_bubbles_of_v_schedules_match_the_published_ones(name: str, printed: float, p: int) -> None:
    """Bubble p / 2m and 2p / 3m of the work, where all passes take equally long: ours is below by a few passes of
    6 per micro-batch, since they count what p devices cost for large p.
    """
    m = 10 * p
    _, stage = replay(pipelines.get(name).order(p, m, 2), "vee", 2, lambda step, s, c: 1)
    bubble_passes = stage - 6 * m
    assert 0 <= 6 * printed * p - bubble_passes <= 5


@pytest.mark.parametrize("p", [2, 3, 4, 6, 8])
def test_less_memory_increases_the_bubble_of_v_schedules(p: int) -> None:
    """zb-v, v-half, v-min: memory falls from p to p / 2 and p / 3, and the time of a device does not fall with it."""
    names, m = ("zb-v", "v-half", "v-min"), 4 * p
    held = [max(float(pipelines.get(name).peak_live(p, m, 2, s)) for s in range(p)) for name in names]
    stage = [replay(pipelines.get(name).order(p, m, 2), "vee", 2, lambda *_: 1)[1] for name in names]
    assert held == sorted(held, reverse=True)
    assert stage == sorted(stage)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.integers(1, 6), st.integers(1, 16), st.data())
def test_searched_orders_are_no_worse_than_handcrafted_ones_within_memory(p: int, m: int, data: st.DataObject) -> None:
    f, i, w = (data.draw(st.integers(5, 20)) for _ in range(3))
    times = Times(f, i + w, w, data.draw(st.integers(0, 3)), blocking=data.draw(st.booleans()))
    for name, by_hand, memory in (("zb-1p", "zb-h1", p), ("zb-2p", "zb-h2", 2 * p)):
        built = pipelines.program(pipelines.get(name), p, m, times=times)
        other = pipelines.program(pipelines.get(by_hand), p, m, times=times)
        assert simulate(built).peak_memory_B().max() <= memory
        assert pipelines.replay_s(built)[1] <= pipelines.replay_s(other)[1] * (1 + 1e-12)


def test_automatic_order_refuses_invalid_inputs() -> None:
    with pytest.raises(BadInput, match="some time"):
        automatic_order(4, 8, Times(1.0, 2.0, 2.0))
    with pytest.raises(BadInput, match="at least one"):
        automatic_order(4, 8, Times(1.0, 2.0), memory=0.5)


def test_the_automatic_order_delivers_messages_to_neighbours_in_time() -> None:
    """Forward passes tell the next device, input gradients the one before, a message of 0.5 s later."""
    run = _Run(_Pace(1.0, 2.0, 3.0, 0.5), 3, 4, 3.0, 1.0, 0, 0.0, False)
    assert run._do(0, "F", 0.0) == 1.0
    assert run._do(1, "F", 1.5) == 2.5
    assert run._do(2, "F", 3.0) == 4.0
    assert run._do(2, "I", 4.0) == 6.0
    assert run._do(1, "I", 6.5) == 8.5
    assert run._do(0, "I", 9.0) == 11.0
    assert run._do(0, "W", 11.0) == 14.0
    assert [device.forward_at for device in run.devices] == [[0.0] * 4, [1.5], [3.0]]
    assert [device.input_at for device in run.devices] == [[9.0], [6.5], [4.0]]
    assert [device.live for device in run.devices] == [0.0, 1.0, 1.0]
    assert run.order == [[("F", 0, 0), ("I", 0, 0), ("W", 0, 0)], *[[("F", 0, 0), ("I", 0, 0)]] * 2]


SPEEDUPS = {(2, 1): 1.0, (2, 4): 1.539, (2, 32): 1.773, (4, 1): 1.004, (4, 4): 1.666, (4, 32): 2.709, (8, 1): 0.932,
            (8, 4): 2.621, (8, 32): 4.953}  # fmt: skip
"""torchgpipe's AmoebaNet-D (18, 256) on P40 by partitions and micro-batches, over 2 partitions with one
(kakaobrain/torchgpipe, docs/benchmarks.rst)."""


def test_published_gpipe_speed_ups_stay_below_equal_stages() -> None:
    """Equal stages are the most that GPipe gives; measured ones reach 73 to 100 % of it."""

    def seconds(stages: int, microbatches: int) -> float:
        each_s = 1.0 / (stages * microbatches)
        times = Times(forward_s=each_s, backward_s=3 * each_s, weight_s=0.0, transfer_s=0.0, blocking=False)
        return float(pipelines.get("gpipe").makespan(stages, microbatches, 1, times))

    least = seconds(2, 1)
    reached = {key: measured * seconds(*key) / least for key, measured in SPEEDUPS.items()}
    assert max(reached.values()) < 1.01
    assert min(reached.values()) > 0.70
