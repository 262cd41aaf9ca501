"""Rooflines: laws of the roof, bytes against formulas written out by hand, critical batches against a scan."""

from dataclasses import replace
from fractions import Fraction

import pytest
from advice_samples import CASES, DENSE, EXPERTS, NODES
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_runner import run
from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.roofline import MEMORY_LEVEL, RooflineLevel, roofline
from lockstep.decide.planner.whatif import scaled
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, stage_parameters
from lockstep.price.step import price_step
from lockstep.show.views.roofline import plot_roofline

CASE = st.sampled_from(CASES)


@given(CASE)
def test_nothing_is_above_its_roof(case: tuple[Job, Layout]) -> None:
    found = roofline(case[0], NODES, case[1])
    assert [level.name for level in found.levels] == [MEMORY_LEVEL, "node", "fabric"]
    for level in found.levels:
        assert level.achieved_flops <= level.peak_flops
        assert level.achieved_Bps <= level.peak_Bps
        assert level.attained_flops <= level.achieved_flops
        if level.intensity_flop_per_B is not None:
            assert level.attained_flops <= level.intensity_flop_per_B * level.achieved_Bps * (1 + 1e-12)
            assert (level.share > 1.0) == (level.intensity_flop_per_B < level.ridge_flop_per_B)


@settings(max_examples=drawn(50))
@given(CASE)
def test_a_step_is_no_shorter_than_any_kind_of_traffic_or_its_kernels(case: tuple[Job, Layout]) -> None:
    found, step_s = roofline(case[0], NODES, case[1]), estimate(case[0], NODES, case[1]).step_time_s
    assert step_s >= found.compute_s
    for level in found.levels[1:]:
        for size_B in level.traffic_B.values():
            assert step_s >= size_B / level.achieved_Bps * (1 - 1e-12)


@given(st.floats(1e9, 1e15), st.floats(1e9, 1e13), st.floats(1e6, 1e15))
def test_the_two_roofs_meet_at_the_ridge(achieved_flops: float, achieved_Bps: float, flops: float) -> None:
    ridge = achieved_flops / achieved_Bps

    def attained(intensity: float) -> float:
        level = RooflineLevel("x", {"dp": flops / intensity}, flops, achieved_flops, 1e16, achieved_Bps, 1e14)
        return level.attained_flops

    assert attained(ridge) == pytest.approx(achieved_flops, rel=1e-12)
    assert attained(ridge / 2) == pytest.approx(achieved_flops / 2, rel=1e-12)
    assert attained(ridge * 2) == achieved_flops


@settings(max_examples=drawn(50))
@given(CASE, st.floats(1.5, 10.0))
def test_ridges_scale_with_rates_and_intensities_do_not(case: tuple[Job, Layout], factor: float) -> None:
    job, layout = case
    now = roofline(job, NODES, layout)
    wider = roofline(job, scaled(NODES, bandwidth=(1.0, factor)), layout)
    faster = roofline(job, scaled(NODES, peak_flops=factor, memory_bandwidth=factor, host=1 / factor), layout)
    for name, ratio in (("node", 1.0), ("fabric", factor)):
        assert wider.level(name).ridge_flop_per_B == pytest.approx(now.level(name).ridge_flop_per_B / ratio)
        assert wider.level(name).bytes_B == pytest.approx(now.level(name).bytes_B)
        assert faster.level(name).ridge_flop_per_B == pytest.approx(now.level(name).ridge_flop_per_B * factor)
        assert faster.level(name).bytes_B == pytest.approx(now.level(name).bytes_B)
    assert faster.level(MEMORY_LEVEL).ridge_flop_per_B == pytest.approx(now.level(MEMORY_LEVEL).ridge_flop_per_B)


def test_tensor_parallel_bytes_by_hand() -> None:
    """Per layer and micro-batch 4 pairs of all-gather and reduce-scatter, and 2 gathers again for weight gradients.

    Each is (t-1)/t of b s h bf16 elements.
    """
    layout = Layout(tp=8, pp=2, dp=2, micro_batch=2, sequence_parallel=True)
    found = roofline(DENSE, NODES, layout)
    layers, microbatches = DENSE.layers // 2, 64 // (2 * 2)
    by_hand = Fraction(7, 8) * (4 * 2 + 2) * (2 * 4096 * 4096 * 2) * layers * microbatches
    assert found.level("node").traffic_B["tp"] == pytest.approx(float(by_hand), rel=1e-12)
    assert found.level("fabric").traffic_B["tp"] == 0.0


def test_full_recomputation_repeats_the_forward_traffic() -> None:
    """Two pairs of the four, beside two gathers that are made again anyway."""
    plain = Layout(tp=8, dp=4, sequence_parallel=True)
    once, again = (roofline(DENSE, NODES, replace(plain, recompute=mode)) for mode in ("none", "full"))
    both = [float(one.level("node").traffic_B["tp"]) for one in (once, again)]
    assert both[1] == pytest.approx((10 + 4) / 10 * both[0], rel=1e-12)


@pytest.mark.parametrize(("zero", "bytes_each"), [(0, 2 * 4.0), (1, 4.0 + 2.0)])
def test_data_parallel_bytes_by_hand(zero: int, bytes_each: float) -> None:
    """All-reduce = 2 (d-1)/d of the fp32 gradients; ZeRO 1 = one way of gradients, one of bf16 parameters.

    dp = 16 in 4 nodes with 2 tensor-parallel ranks: 4 replicas a node. Rings of 4 inside the node; across it each of
    the 4 sends its quarter of the buffer in a ring of 4.
    """
    layout = Layout(tp=2, dp=16, zero=zero, sequence_parallel=True)
    held = DENSE.stage_layers(1)[0]
    parameters = float(stage_parameters(DENSE, layout.grid(), 0, held).total_elems)
    found = roofline(DENSE, NODES, layout)
    assert found.level("node").traffic_B["dp"] == pytest.approx(3 / 4 * parameters * bytes_each, rel=1e-6)
    assert found.level("fabric").traffic_B["dp"] == pytest.approx(3 / 4 / 4 * parameters * bytes_each, rel=1e-12)


def test_pipeline_bytes_by_hand() -> None:
    """One activation forward and one gradient back per micro-batch, each rank its 1/t of b s h bf16 elements."""
    found = roofline(DENSE, NODES, Layout(tp=8, pp=4, sequence_parallel=True))
    assert found.level("fabric").traffic_B["pp"] == pytest.approx(2 * 64 * 4096 * 4096 * 2 / 8, rel=1e-12)


def test_context_parallel_bytes_by_hand() -> None:
    """cp - 1 steps of keys and values forward, of them and their gradients backward; 8 key-value heads of 128."""
    found = roofline(DENSE, NODES, Layout(cp=4, dp=8))
    step_B = (4096 / 4) * 2 * 8 * 128 * 2
    by_hand = DENSE.layers * (64 / 8) * 3 * (1 + 2) * step_B
    assert found.level("node").traffic_B["cp"] == pytest.approx(by_hand, rel=1e-12)


def test_expert_parallel_bytes_by_hand() -> None:
    """Dispatch and combine forward and backward: 4 all-to-alls of (e-1)/e of T k h bf16 elements."""
    found = roofline(EXPERTS, NODES, Layout(ep=8, dp=32))
    by_hand = EXPERTS.layers * (64 / 32) * 4 * Fraction(7, 8) * 2048 * 2 * 4096 * 2
    assert found.level("node").traffic_B["ep"] == pytest.approx(float(by_hand), rel=1e-12)


@settings(max_examples=drawn(50))
@given(CASE)
def test_traffic_stays_inside_the_unit_that_holds_the_group(case: tuple[Job, Layout]) -> None:
    """The rows that ranks which cut the same experts exchange count as the experts' traffic."""
    job, layout = case
    found = roofline(job, NODES, layout)
    sharing = layout.ep * int(layout.grid().expert_tp) if job.num_experts else 1
    for kind in ("tp", "cp", "ep", "pp", "dp"):
        moves = {"dp": layout.dp * layout.cp, "ep": sharing}.get(kind, getattr(layout, kind, 1)) > 1
        assert any(level.traffic_B[kind] > 0 for level in found.levels[1:]) == moves
    if layout.tp * layout.cp <= 8:
        assert found.level("fabric").traffic_B["tp"] == found.level("fabric").traffic_B["cp"] == 0.0


def dp_fits(job: Job, layout: Layout, level: int, microbatches: int) -> bool:
    """Whether data-parallel traffic over one level takes no longer than kernels, asked of the step model itself."""
    recipe = replace(job.recipe, batch=microbatches * layout.dp * layout.micro_batch, overlap_dp=False)
    asked = Job(job.model, recipe, job.devices)
    free = scaled(NODES, bandwidth=1e30, latency=0.0)
    factors = [1.0 if index == level else 1e30 for index in range(2)]
    only = scaled(NODES, bandwidth=factors, latency=0.0)
    compute_s = float(price_step(asked, free, layout.grid()).compute_s)
    return float(price_step(asked, only, layout.grid()).dp_comm_s) <= compute_s


@settings(max_examples=drawn(50))
@given(st.sampled_from([case for case in CASES if case[1].vpp == 1]), st.sampled_from([0, 1]))
def test_the_critical_batch_is_the_first_that_a_scan_finds(case: tuple[Job, Layout], level: int) -> None:
    job, layout = case
    found = roofline(job, NODES, layout).levels[level + 1]
    unit = layout.dp * layout.micro_batch * job.recipe.seq
    scan = next((count for count in range(1, 200) if dp_fits(job, layout, level, count)), None)
    if found.critical_batch is not None:
        assert scan is not None
        assert found.critical_batch == scan * unit
    elif found.traffic_B["dp"] == 0.0:
        assert "no data-parallel" in found.critical_why
    else:
        assert scan in (None, 1), "traffic that grows with the batch binds at every batch or at none"
        assert ("never binds" in found.critical_why) == (scan == 1)


def test_the_critical_batch_does_not_depend_on_the_batch() -> None:
    layout = Layout(tp=8, dp=4, zero=1, sequence_parallel=True)
    bigger = Job(DENSE.model, replace(DENSE.recipe, batch=256), DENSE.devices)
    one, other = (roofline(job, NODES, layout).level("fabric").critical_batch for job in (DENSE, bigger))
    assert one == other


def test_regimes_are_described_in_words() -> None:
    single = Job(model("llama3-8b"), Recipe(seq=2048, batch=8), 1)
    alone = roofline(single, cluster("dgx-a100-80gb", gpus=1), Layout())
    assert alone.regime().startswith("no communication")
    slow = roofline(DENSE, scaled(NODES, bandwidth=(1.0, 0.01)), Layout(dp=32, zero=3))
    assert slow.regime().startswith("communication bound at fabric")
    assert [level.name for level in slow.binding] == ["fabric"]
    fast = roofline(DENSE, scaled(NODES, bandwidth=100.0), Layout(dp=32, zero=1))
    assert fast.regime().startswith("compute bound at every level")


def test_to_dict_has_the_promised_keys_and_finite_numbers() -> None:
    answer = roofline(DENSE, NODES, Layout(tp=8, dp=4)).to_dict()
    for level in answer["levels"]:
        assert {"name", "ridge_flop_per_B", "intensity_flop_per_B", "bound", "critical_batch"} <= set(level)
    fabric_only = roofline(DENSE, NODES, Layout(tp=8, pp=4)).to_dict()["levels"][1]
    assert fabric_only["intensity_flop_per_B"] is not None


def test_a_layout_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(BadInput):
        roofline(DENSE, NODES, Layout(dp=3))


@pytest.mark.parametrize(("zero", "microbatches", "bytes_each"), [(0, 1, 8.0), (3, 1, 2.0 + 2.0 + 4.0)])
def test_bytes_on_a_node_whose_switch_reduces_are_those_of_a_ring(
    zero: int, microbatches: int, bytes_each: float
) -> None:
    """Eight H100: 7/8 of fp32 gradients twice; or of bf16 parameters twice and of fp32 gradients once. 7 B each."""
    job = Job(model("llama3-8b"), Recipe(seq=2048, batch=8 * microbatches), 8)
    layout = Layout(dp=8, zero=zero)
    elems = float(stage_parameters(job, layout.grid(), 0, job.stage_layers(1)[0]).total_elems)
    for name in ("dgx-h100", "dgx-a100-80gb"):
        found = roofline(job, cluster(name, gpus=8), layout).levels[1].traffic_B["dp"]
        assert found == pytest.approx(7 / 8 * bytes_each * elems, rel=1e-6)


def test_knees_of_the_plot_are_the_ridges_of_the_table() -> None:
    found = roofline(DENSE, NODES, Layout(tp=8, dp=4, zero=1, sequence_parallel=True))
    (axes,) = plot_roofline(found).axes
    lines = [line.get_xydata() for line in axes.lines]
    bent = [points[1] for points in lines if len(points) == 3]
    assert len(bent) == len(found.levels)
    for (knee, height), level in zip(bent, found.levels, strict=True):
        assert knee == pytest.approx(level.ridge_flop_per_B)
        assert height == pytest.approx(level.achieved_flops)
    dots = [points[0][1] for points in lines if len(points) == 1]
    assert dots == pytest.approx([level.attained_flops for level in found.levels])


@pytest.mark.parametrize(("name", "fits"), [("gpt3-175b", False), ("llama3-8b", True)])
def test_roofline_states_that_a_layout_does_not_fit(name: str, fits: bool) -> None:
    words = ("roofline", name, "-c", "dgx-h100:1", "--batch", "8", "--seq", "2048", "--zero", "3")
    assert run(*words, "--json").json()["fits"] == fits
    assert ("It does not fit in memory" in run(*words).out) != fits
