"""Intervals: what widens them, what does not, and the robust choice among layouts that are nearly as fast."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lockstep
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.interval import FASTER_HOST_FRAC, Interval, ends_of, known_spread
from lockstep.decide.planner.points import FITS, points
from lockstep.decide.planner.result import Plan
from lockstep.decide.planner.robust import SAFE_FRAC, TIE_FRAC, complexity, robust_among, robust_order
from lockstep.decide.planner.search import MOST_NEAR, NEAR_FRAC, Scored
from lockstep.decide.planner.together import Together
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, is_safe, stack
from lockstep.price.layout.risk import SAFE_USED_FRAC

LLAMA = model("llama3-8b")


def job(devices: int, **words: object) -> Job:
    return Job(LLAMA, replace(Recipe(seq=8192, batch=64), **words), devices)


def measured(machine: Cluster) -> Cluster:
    """The machine as if all its links had been measured."""
    levels = tuple(replace(one, link=one.link.reaching(one.link.achieved_frac)) for one in machine.levels)
    return replace(machine, levels=levels)


def widths(machine: Cluster, layout: Layout, **words: object) -> tuple[float, float]:
    found = estimate(job(machine.num_devices, **words), machine, layout)
    between = found.interval
    assert between.low < found.step_time_s < between.high
    return found.step_time_s / between.low, between.high / found.step_time_s


def test_unmeasured_links_widen_the_interval_where_the_step_waits_for_them() -> None:
    machine = cluster("cloud-h100:8")
    assert widths(machine, Layout(dp=64, zero=3)) > widths(measured(machine), Layout(dp=64, zero=3))


def test_unused_links_do_not_widen_the_interval() -> None:
    machine = cluster("cloud-h100:1")
    assert widths(machine, Layout(dp=8)) == widths(measured(machine), Layout(dp=8))


def test_the_less_is_known_of_a_device_the_wider_are_both_ends() -> None:
    known, few, kernels, borrowed = (
        widths(cluster(name), Layout(dp=8)) for name in ("dgx-h100:1", "dgx-h200:1", "dgx-b300:1", "rtx-pro-6000-8:1")
    )
    for place in range(2):
        assert known[place] < few[place] < kernels[place] < borrowed[place]


def test_host_bound_work_widens_both_ends() -> None:
    machine = cluster("dgx-h100:1")
    bound, other = widths(machine, Layout(dp=8), batch=8, seq=128), widths(machine, Layout(dp=8))
    assert bound[0] > other[0]
    assert bound[1] > other[1]


def test_time_of_the_host_widens_the_interval_by_its_share() -> None:
    """A step that is all software of the host: its upper end is linear in its share, not exponential."""
    spread = known_spread()
    most = math.exp(float(spread.software(1.0)))
    half = math.exp(float(spread.software(0.5)))
    assert most - 1 == pytest.approx(2 * (half - 1) - spread.above)
    assert most < 8


def test_interval_bounds_match_the_formula() -> None:
    machine, layout = cluster("cloud-h100:8"), Layout(dp=64, zero=3)
    found, spread = estimate(job(64), machine, layout).ends, known_spread()
    up = spread.above + spread.above_per_host * found.host_frac
    saved = math.log1p(-FASTER_HOST_FRAC * float(found.host_frac))
    links = math.log(float(found.slow_s / found.step_time_s))
    between = found.interval(spread)
    assert between.high == pytest.approx(
        float(found.step_time_s) * math.exp(math.hypot(math.log1p(up), links)), rel=1e-12
    )
    assert between.low == pytest.approx(
        float(found.step_time_s)
        * math.exp(-math.hypot(spread.below, saved, math.log(found.step_time_s / found.fast_s))),
        rel=1e-12,
    )


def test_a_grid_has_the_ends_of_each_layout() -> None:
    machine = cluster("cloud-h100:8")
    layouts = [Layout(dp=64, zero=3), Layout(dp=32, tp=2, zero=1), Layout(dp=8, tp=8)]
    together = ends_of(job(64), machine, stack(layouts))
    for place, layout in enumerate(layouts):
        alone = estimate(job(64), machine, layout).ends
        for name in ("step_time_s", "slow_s", "fast_s", "host_frac"):
            shown = np.broadcast_to(getattr(together, name), (3,))[place]
            assert shown == pytest.approx(float(getattr(alone, name)), rel=1e-9)


def test_rate_intervals_invert_the_time_interval() -> None:
    between = Interval(2.0, 5.0, 0.9)
    assert between.over(10.0) == Interval(2.0, 5.0, 0.9)
    assert between.times(3.0) == Interval(6.0, 15.0, 0.9)


def test_answers_carry_intervals() -> None:
    answer = lockstep.estimate("llama3-8b", "dgx-h100:1", batch=64, dp=8).to_dict()
    between, tokens, mfu = (answer[name] for name in ("interval", "tokens_per_s_interval", "mfu_interval"))
    assert between["low"] < answer["step_time_s"] < between["high"]
    assert tokens["low"] * between["high"] == pytest.approx(answer["tokens_per_s"] * answer["step_time_s"])
    assert mfu["low"] < answer["mfu_frac"] < mfu["high"]
    assert between["level_frac"] == tokens["level_frac"] == mfu["level_frac"] == 0.9


@pytest.fixture(scope="module")
def near() -> tuple[Plan, Plan]:
    """The same question, by the formulas alone and robustly."""
    asked = {"batch_tokens": "4M", "seq": 8192, "tokens": "1T", "top": 20}
    by_time, robust = (
        lockstep.plan("llama3-70b", "dgx-h100:16", objective=objective, **asked) for objective in ("time", "robust")
    )
    return by_time, robust


def test_the_robust_choice_is_nearly_as_fast(near: tuple[Plan, Plan]) -> None:
    by_time, robust = near
    assert 0 <= robust.given_up_frac <= (1 + SAFE_FRAC) * (1 + NEAR_FRAC) - 1
    assert robust.best.step_time_s == pytest.approx((1 + robust.given_up_frac) * by_time.best.step_time_s)
    assert by_time.given_up_frac == 0
    assert by_time.to_dict()["given_up"] is None


def test_the_robust_choice_is_safe_and_loses_least_in_the_worst_case(near: tuple[Plan, Plan]) -> None:
    _, robust = near
    spread, safe = known_spread(), robust_among(robust.findings)
    assert all(is_safe(one.memory_B, robust.cluster.device.memory_B) for one in safe)
    badly = {one.layout: estimate(robust.job, robust.cluster, one.layout).ends.badly_s(spread) for one in safe}
    assert robust.best.layout in badly
    assert badly[robust.best.layout] <= (1 + TIE_FRAC) * min(badly.values())


def test_among_equals_the_simpler_layout_is_chosen() -> None:
    machine, asked = cluster("dgx-h100:1"), job(8)
    plain, same = Layout(dp=8, zero=1), Layout(dp=8, zero=2)
    seconds = estimate(asked, machine, plain).step_time_s
    near = [Scored(seconds, 1.0, (0, 0, 0), same), Scored(seconds, 2.0, (0, 0, 1), plain)]
    found = robust_order(machine, near, Together(asked, machine, [same, plain]).ends)
    assert complexity(plain) < complexity(same)
    assert [one.layout for one in found] == [plain, same]


def test_a_layout_that_may_not_fit_comes_after_those_that_will() -> None:
    machine, asked = cluster("dgx-h100:1"), job(8)
    full_B = machine.device.memory_B * (1 + SAFE_USED_FRAC) / 2
    tight, safe = Scored(1.0, full_B, (0, 0, 0), Layout(dp=8)), Scored(1.1, 1.0, (0, 0, 1), Layout(dp=4, tp=2))
    ends = Together(asked, machine, [tight.layout, safe.layout]).ends
    assert robust_order(machine, [tight, safe], ends) == [safe, tight]
    assert robust_order(machine, [tight], ends) == [tight]


QUESTIONS = (
    ("llama3-70b", "dgx-h100:64", {"batch": 512}),
    ("llama3-8b", "dgx-h100:1", {"batch": 64}),
    ("llama3-70b", "dgx-h100:4", {"batch": 64}),
    ("llama3-405b", "dgx-h100:64", {"batch": 256}),
    ("mixtral-8x7b", "dgx-a100-80gb:8", {"batch": 256}),
    ("gpt3-13b", "dgx-h100:1", {"batch": 32, "tp": "8", "micro_batch": "8,16"}),
)


@pytest.mark.parametrize(("model", "machine", "words"), QUESTIONS, ids=str)
def test_the_robust_choice_never_barely_fits_where_a_safe_one_is_a_tenth_slower(
    model: str, machine: str, words: dict[str, Any]
) -> None:
    plan = lockstep.plan(model, machine, **words)
    capacity_B, fastest = plan.cluster.device.memory_B, plan.findings.best[0]
    safe = plan.findings.fastest_within(SAFE_USED_FRAC * capacity_B)
    if safe is not None and safe.step_time_s <= (1 + SAFE_FRAC) * fastest.step_time_s:
        assert is_safe(float(plan.best.memory.total_B), capacity_B)
    else:
        assert plan.roomier == safe or (plan.roomier is not None and plan.roomier.layout == safe.layout)


def test_the_safe_layouts_near_the_fastest_safe_one_are_those_of_all_layouts() -> None:
    found = lockstep.plan("llama3-70b", "dgx-h100:4", batch=32, seq=4096)
    capacity_B = found.cluster.device.memory_B
    every = [
        (float(seconds), layout)
        for some in points(found.job, found.cluster, found.findings.space)
        for seconds, memory_B, why, layout in zip(
            some.step_time_s, some.memory_B, some.why, some.layouts(), strict=True
        )
        if why == FITS and is_safe(memory_B, capacity_B)
    ]
    least_s = min(seconds for seconds, _ in every)
    near = {layout for seconds, layout in every if seconds <= (1 + NEAR_FRAC) * least_s}
    listed = {one.layout for one in found.findings.near_safe}
    assert listed <= near
    assert len(listed) == min(len(near), MOST_NEAR)


def test_a_layout_that_frees_much_memory_for_little_time_is_named() -> None:
    plan = lockstep.plan("llama3-8b", "dgx-h100:4", batch=512)
    roomier = plan.roomier
    assert roomier is not None
    freed_B = float(plan.best.memory.total_B) - float(roomier.memory.total_B)
    assert freed_B >= 0.15 * plan.cluster.device.memory_B
    assert roomier.step_time_s <= 1.05 * plan.best.step_time_s
    assert str(roomier.layout) in plan.verdict()
    assert plan.to_dict()["roomier"]["saves_B"] == freed_B
