"""Upgrades: better hardware never plans worse, rankings are what they say, every device knows its successor."""

import json
from dataclasses import replace

import pytest
from advice_samples import DENSE, NODES

from lockstep import hardware
from lockstep.decide.planner.estimate import estimate, hourly_price_usd
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.replans import Replans
from lockstep.decide.planner.search import search
from lockstep.decide.planner.space import Space, default_space
from lockstep.decide.planner.upgrades import SAME, Upgrades, upgrades
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe

JOB = Job(model("gpt2-large"), Recipe(seq=1024, batch=64), 16)
PAIR = cluster("dgx-a100-40gb:2")
SMALL = Space(tp=(1, 4), cp=(1,), ep=(1,), pp=(1, 2), micro_batch=(1, 4), layers=36, unit=8)
POOR = estimate(JOB, PAIR, Layout(tp=4, dp=4, zero=1, recompute="full"))


@pytest.fixture(scope="module")
def found() -> Upgrades:
    return upgrades(POOR)


def test_upgrade_savings_equal_those_of_planning_again(found: Upgrades) -> None:
    """Faster parts never give a slower plan, so each saving is at least that of the same hardware."""
    names = {one.what: one for one in found.found}
    free = names[SAME]
    assert 0.0 < free.saving_frac < 1.0
    assert free.cost == 0.0
    for what in ("twice the node bandwidth", "twice the fabric bandwidth", "half the latency of every link",
                 "twice the memory", "twice the devices"):  # fmt: skip
        assert names[what].saving_frac >= free.saving_frac - 1e-12, what


def test_savings_are_those_of_the_estimates(found: Upgrades) -> None:
    for one in found.found:
        assert one.saving_frac == pytest.approx(1.0 - one.after.step_time_s / POOR.step_time_s)
        again = estimate(one.after.job, one.after.cluster, one.after.layout)
        assert again.step_time_s == one.step_time_s
        assert one.after.memory.fits or "of memory per device" in one.what


def test_upgrades_are_ranked_by_saving_and_by_value(found: Upgrades) -> None:
    savings = [one.saving_frac for one in found.by_saving]
    assert savings == sorted(savings, reverse=True)
    assert sorted(one.what for one in found.by_value) == sorted(one.what for one in found.found)
    values = [one.saving_per_cost for one in found.by_value if one.saving_per_cost is not None and one.saving_frac > 0]
    assert values == sorted(values, reverse=True)
    assert found.by_value[0].cost == 0.0


def test_costs_are_known_where_prices_are(found: Upgrades) -> None:
    names = {one.what: one for one in found.found}
    price = hourly_price_usd(PAIR)
    assert price is not None
    assert names["twice the devices"].cost == pytest.approx(16 * price)
    assert names["twice the memory"].cost is None
    assert names["twice the memory"].to_dict()["cost_per_token"] is None


def test_less_recomputation_is_offered_only_if_it_fits(found: Upgrades) -> None:
    offered = [one for one in found.found if one.what.startswith("recompute selective instead of full")]
    assert len(offered) == 1
    assert offered[0].after.layout == replace(POOR.layout, recompute="selective")
    tight = Job(model("gpt2-large"), Recipe(seq=1024, batch=1024), 16)
    full = estimate(tight, PAIR, Layout(dp=16, zero=1, micro_batch=64, recompute="full"))
    found = upgrades(full, replans=Replans(tight.model, tight.recipe, SMALL)).found
    needed = [one for one in found if one.what.startswith("recompute")]
    assert "of memory per device" in needed[0].what
    assert needed[0].cost is None
    assert not needed[0].after.memory.fits


def test_the_best_plan_has_nothing_to_gain_from_planning_again() -> None:
    best = plan(JOB.model, PAIR, JOB.recipe, space=SMALL)
    assert SAME not in [one.what for one in upgrades(best, replans=Replans(JOB.model, JOB.recipe, SMALL)).found]


def test_leaving_gpipe_out_of_the_space_loses_nothing() -> None:
    whole = default_space(DENSE, 8)
    without = replace(whole, schedules=tuple(name for name in whole.schedules if name != "gpipe"))
    one, other = (search(DENSE, NODES, space, top=1).best[0] for space in (whole, without))
    assert (one.step_time_s, one.memory_B) == (other.step_time_s, other.memory_B)


def test_impossible_upgrades_are_named_with_a_reason() -> None:
    """12 devices fill no whole servers of 8; a rack of 72 may be used in part, so 80 make two of 40."""
    job = Job(JOB.model, replace(JOB.recipe, batch=12), 12)
    now = estimate(job, cluster("workstation-4090:12"), Layout(dp=12, zero=1))
    skipped = dict(upgrades(now, replans=Replans(job.model, job.recipe, SMALL)).skipped)
    assert "12" in skipped["the same number of devices on dgx-a100-80gb"]
    job = Job(JOB.model, replace(JOB.recipe, batch=80), 80)
    now = estimate(job, cluster("dgx-b200:10"), Layout(dp=80, zero=1))
    assert upgrades(now, replans=Replans(job.model, job.recipe, SMALL)).skipped == ()


def test_upgrades_are_deterministic(found: Upgrades) -> None:
    assert json.dumps(upgrades(POOR).to_dict(), allow_nan=False) == json.dumps(found.to_dict(), allow_nan=False)


def test_every_device_names_its_successors() -> None:
    for now in hardware.devices():
        for name in now.successors:
            follower = cluster(name).device
            faster = max(follower.peak_flops.values()) > max(now.peak_flops.values())
            assert faster or follower.memory_B > now.memory_B, f"{name} after {now.name}"
