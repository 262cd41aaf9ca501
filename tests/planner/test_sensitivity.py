"""Elasticities: the step model is homogeneous, so they sum to one; signs; agreement with direct re-pricing."""

import math
from dataclasses import replace

import pytest
from advice_samples import CASES, DENSE, NODES, allowed
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.decide.planner.replans import Replans
from lockstep.decide.planner.search import search
from lockstep.decide.planner.sensitivity import (
    DEGREES,
    RATES,
    SWAPPED,
    TIMES,
    batch_elasticity,
    degree_elasticity,
    double,
    half,
    hardware_elasticity,
    memory_elasticity,
    sensitivity,
    sequence_elasticity,
)
from lockstep.decide.planner.space import Space
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import Cluster, Level, cluster, link
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step import price_step

CASE = st.sampled_from(CASES)
SMALL = Space(tp=(1, 2, 8), cp=(1,), ep=(1,), pp=(1, 2), micro_batch=(1, 2), layers=32, unit=8)


def small() -> Replans:
    return Replans(DENSE.model, DENSE.recipe, SMALL)


def seconds(job: Job, hardware: Cluster, layout: Layout) -> float:
    return float(price_step(job, hardware, layout.grid()).step_time_s)


@given(CASE, st.floats(0.01, 100.0))
def test_scaling_every_rate_and_every_time_scales_the_step_exactly(case: tuple[Job, Layout], factor: float) -> None:
    """P5: k times the rates and 1/k of the times give 1/k of the step, whatever maxima and minima lie between."""
    job, layout = case
    changed = scaled(
        NODES, peak_flops=factor, memory_bandwidth=factor, bandwidth=factor, latency=1 / factor, host=1 / factor
    )
    assert seconds(job, changed, layout) == pytest.approx(seconds(job, NODES, layout) / factor, rel=1e-11)


@settings(max_examples=drawn(50))
@given(CASE)
def test_elasticities_of_hardware_sum_to_one(case: tuple[Job, Layout]) -> None:
    found = {name: hardware_elasticity(case[0], NODES, case[1], name) or 0.0 for name in (*RATES, *TIMES)}
    total = sum(found[name] for name in TIMES) - sum(found[name] for name in RATES)
    # Central differences are exact to second order, and to first order in the step where a maximum changes sides.
    assert total == pytest.approx(1.0, abs=0.01)
    assert all(found[name] <= 1e-12 for name in RATES)
    assert all(found[name] >= -1e-12 for name in TIMES)


@given(CASE)
def test_halving_and_doubling_degrees_are_inverse_and_keep_the_rules(case: tuple[Job, Layout]) -> None:
    job, layout = case
    for name in DEGREES:
        bigger = double(job, layout, name)
        if bigger is not None:
            assert allowed(job, bigger)
            assert half(job, bigger, name) == layout
            assert bigger.world == (layout.world if name in SWAPPED or name == "ep" else bigger.world)


@settings(max_examples=drawn(50))
@given(CASE)
def test_the_batch_moves_the_step_as_far_as_one_more_micro_batch_does(case: tuple[Job, Layout]) -> None:
    job, layout = case
    found = batch_elasticity(job, NODES, layout)
    assert found is not None
    assert 0.0 < found <= 1.0 + 1e-9, "more micro-batches cost time, never more than in proportion"
    assert batch_elasticity(job, NODES, layout) == found


def test_elasticity_of_a_degree_is_the_slope_between_its_neighbours() -> None:
    layout = Layout(tp=2, dp=16, micro_batch=2, zero=1, sequence_parallel=True)
    low_s, high_s = (seconds(DENSE, NODES, replace(layout, micro_batch=size)) for size in (1, 4))
    found = degree_elasticity(DENSE, NODES, layout, "micro_batch")
    assert found == pytest.approx(math.log(high_s / low_s) / math.log(4), rel=1e-12)
    assert degree_elasticity(DENSE, NODES, layout, "ep") is None


def test_longer_sequences_cost_more_than_in_proportion_when_compute_bounds() -> None:
    """Attention grows with the square, so a single device's step has an elasticity above 1 at long sequences."""
    job = Job(model("llama3-8b"), Recipe(seq=32768, batch=1), 1)
    found = sequence_elasticity(job, cluster("dgx-a100-80gb", gpus=1), Layout())
    assert found is not None
    assert 1.0 < found < 2.0


def test_a_single_device_depends_on_no_network() -> None:
    job = Job(model("gpt2-xl"), Recipe(seq=1024, batch=8), 1)
    alone = replace(SMALL, layers=48, tp=(1,), pp=(1,))
    found = sensitivity(job, cluster("dgx-a100-80gb", gpus=1), Layout(), replans=Replans(job.model, job.recipe, alone))
    assert found.elasticity["intra_bw"] == found.elasticity["inter_bw"] == found.elasticity["latency"] == 0.0
    assert found.ranked[0][0] in ("batch", "seq", "peak_flops")


def test_memory_counts_only_where_it_changes_the_plan() -> None:
    replans = small()
    assert memory_elasticity(scaled(NODES, memory=100.0), replans) == 0.0
    assert memory_elasticity(scaled(NODES, memory=0.001), replans) is None
    tight = scaled(NODES, memory=0.3)
    now, more = (search(DENSE, scaled(tight, memory=factor), SMALL).best[0].step_time_s for factor in (1.0, 1.1))
    assert memory_elasticity(tight, replans) == pytest.approx(math.log(more / now) / math.log(1.1), abs=1e-12)
    assert more <= now


def test_each_outer_level_has_an_elasticity_of_its_own() -> None:
    rails = (*NODES.levels[:1], Level("rail", 2, link("hdr"), 8), Level("spine", 2, link("hdr"), 16))
    deep = replace(NODES, levels=rails)
    found = sensitivity(DENSE, deep, Layout(tp=8, dp=4, zero=1, sequence_parallel=True), replans=small()).elasticity
    parts = (found["bw_rail"] or 0.0) + (found["bw_spine"] or 0.0)
    assert parts == pytest.approx(found["inter_bw"], abs=1e-3)


def test_keys_of_the_contract() -> None:
    answer = sensitivity(DENSE, NODES, Layout(tp=8, dp=4), replans=small()).to_dict()
    assert {"peak_flops", "memory_B", "intra_bw", "inter_bw", "latency"} <= set(answer["elasticity"])


def test_a_layout_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(BadInput):
        sensitivity(DENSE, NODES, Layout(dp=3))
