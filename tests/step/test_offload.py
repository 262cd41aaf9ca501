"""Offloading: bytes over the host's link as the software moves them, what host memory must hold, and laws of both."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from effort import drawn
from lockstep.base.errors import BadInput, Infeasible
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.pins import Pins
from lockstep.decide.planner.plan import plan
from lockstep.describe.hardware import Cluster, Host, cluster
from lockstep.describe.workload import Attention, Mlp, Transformer, model, parameters
from lockstep.price.layout import Job, Layout, Recipe, check, memory
from lockstep.price.step import price_step
from lockstep.price.step.program import step_program
from lockstep.simulate.parallel.data.around import Around
from lockstep.simulate.parallel.data.offload import HostTraffic
from lockstep.simulate.parallel.data.sharing import sharing
from lockstep.simulate.parallel.data.zero import Kernels, Traffic
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder

CLUSTER = cluster("dgx-a100-40gb:2")
LLAMA = Job(model("llama3-8b"), Recipe(seq=1024, batch=128, gradient_B=2.0), 16)
ELEMENTS = parameters(LLAMA.model).total


def known(hardware: Cluster) -> Host:
    assert hardware.host is not None
    return hardware.host


def with_host(hardware: Cluster, **changes: object) -> Cluster:
    return replace(hardware, host=replace(known(hardware), **changes))  # type: ignore[arg-type]


def least_host_s(job: Job, hardware: Cluster, layout: Layout) -> float:
    """Seconds of the busier direction of one rank's link, counted by hand for a dense model that stages share evenly.

    ZeRO-Infinity and FSDP bring the shard up for every pass and take the gradients down after every backward pass;
    ZeRO-Offload takes gradients down and brings updated parameters up.
    """
    passes = job.recipe.batch // (layout.dp * layout.micro_batch)
    owned = ELEMENTS / layout.tp / layout.pp / ((layout.shard or layout.dp) if layout.zero else 1)
    up_B = owned * job.recipe.parameter_B * (2 * passes if layout.offload == "parameters" else 1)
    downs = passes if (layout.zero >= 2 and layout.pp == 1) or layout.dp == 1 else 1
    rate_Bps = known(hardware).link.rate_Bps / min(known(hardware).devices_per_link, hardware.num_devices)
    return max(up_B, owned * job.recipe.gradient_B * downs) / rate_Bps


def seconds(job: Job, hardware: Cluster, layout: Layout) -> float:
    return float(price_step(job, hardware, layout.grid()).step_time_s)


@st.composite
def offloaded(draw: st.DrawFn) -> Layout:
    tp, pp = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4]))
    dp = 16 // (tp * pp)
    zero = draw(st.integers(0, 3))
    words = ["optimizer", "parameters"] if zero == 3 else ["optimizer"]
    return Layout(
        tp=tp, pp=pp, dp=dp, zero=zero, micro_batch=draw(st.sampled_from([1, 2, 4, 8])),
        recompute=draw(st.sampled_from(["none", "full"])), offload=draw(st.sampled_from(words)),
        shard=draw(st.sampled_from([0, dp])),
    )  # fmt: skip


@given(offloaded(), st.booleans(), st.sampled_from([1.0, 0.01, 100.0]))
def test_no_step_moves_more_over_the_host_link_than_its_rate_allows(
    layout: Layout, beside: bool, factor: float
) -> None:
    link = known(CLUSTER).link
    hardware = with_host(CLUSTER, link=replace(link, bandwidth_Bps=factor * link.bandwidth_Bps))
    job = replace(LLAMA, recipe=replace(LLAMA.recipe, overlap_dp=beside))
    check(layout, job)
    # Embedding and head make one stage heavier than a share, none lighter.
    assert seconds(job, hardware, layout) >= least_host_s(job, hardware, layout)


@given(offloaded())
def test_a_slow_enough_link_decides_the_step(layout: Layout) -> None:
    """Then the bytes and nothing else count: sums that come back, and parameters up after gradients down."""
    hardware = with_host(CLUSTER, link=replace(known(CLUSTER).link, bandwidth_Bps=1e6, achieved_frac=1.0))
    found_s, least_s = seconds(LLAMA, hardware, layout), least_host_s(LLAMA, hardware, layout)
    assert least_s <= found_s <= 3.5 * least_s


@settings(max_examples=drawn(50))
@given(offloaded())
def test_the_simulated_program_takes_the_priced_time(layout: Layout) -> None:
    simulated_s = float(simulate(step_program(LLAMA, CLUSTER, layout)).makespan_s)
    assert seconds(LLAMA, CLUSTER, layout) == pytest.approx(simulated_s, rel=1e-9)


@settings(max_examples=drawn(50))
@given(offloaded())
def test_a_faster_host_never_slows_a_step(layout: Layout) -> None:
    host = known(CLUSTER)
    assert host.memory_bandwidth_Bps is not None
    better = (
        with_host(CLUSTER, devices_per_link=1),
        with_host(CLUSTER, link=replace(host.link, bandwidth_Bps=2 * host.link.bandwidth_Bps)),
        with_host(CLUSTER, memory_bandwidth_Bps=2 * host.memory_bandwidth_Bps),
    )
    for one in better:
        assert seconds(LLAMA, one, layout) <= seconds(LLAMA, CLUSTER, layout) * (1 + 1e-12)


@settings(max_examples=drawn(50))
@given(offloaded())
def test_parts_add_up_and_only_offloading_brings_host_traffic(layout: Layout) -> None:
    step = price_step(LLAMA, CLUSTER, layout.grid())
    kept = price_step(LLAMA, CLUSTER, replace(layout, offload="none").grid())
    assert all(part >= 0 for part in step.breakdown_s().values())
    assert float(step.host_comm_s) > 0.0
    assert float(kept.host_comm_s) == 0.0
    assert float(step.dp_comm_s) == float(kept.dp_comm_s)
    assert float(step.compute_s) == float(kept.compute_s)


SECONDS = st.floats(0.0, 10.0)


@given(SECONDS, SECONDS, SECONDS, st.floats(1e-3, 10.0), st.integers(1, 12))
def test_traffic_over_several_links_matches_a_layerwise_program(
    up_s: float, network_s: float, down_s: float, compute_s: float, layers: int
) -> None:
    """Layers come up from the host, are gathered and compute; or come up, compute, are scattered and go down."""
    host = HostTraffic(up_forward_s=up_s, up_backward_s=up_s, down_backward_s=down_s)
    moved, kernels = Traffic(network_s, network_s, 0.0, 0.0), Kernels(compute_s, compute_s)
    forward, backward = (Around(sharing(zero, False), moved, kernels, layers, True, host=host).waits for zero in (3, 2))
    ways = {
        forward.forward_s + forward.host_forward_s: (up_s, network_s, compute_s),
        backward.backward_s + backward.host_backward_s: (up_s, compute_s, network_s, down_s),
    }
    for left_s, lanes in ways.items():
        assert compute_s + float(left_s) == pytest.approx(_layerwise_s(lanes, layers), rel=1e-9, abs=1e-12)


def _layerwise_s(lanes: tuple[float, ...], layers: int) -> float:
    """Layers pass over the lanes one behind another; each lane takes one at a time."""
    names = [f"lane {index}" for index in range(len(lanes))]
    builder = ProgramBuilder(1, tuple(names))
    for _ in range(layers):
        done = None
        for name, lane_s in zip(names, lanes, strict=True):
            done = builder.compute(0, lane_s / layers, stream=name, **({} if done is None else {"after": done}))
    return float(simulate(builder.build()).makespan_s)


@given(SECONDS, SECONDS, st.floats(1e-3, 10.0), st.integers(1, 12), st.booleans())
def test_a_pass_without_transfers_does_not_wait_for_the_host(
    gather_s: float, down_s: float, compute_s: float, layers: int, overlap: bool
) -> None:
    """Where other traffic hides on shared links too, and gradients leave after backward passes only."""
    kernels = Kernels(compute_s, compute_s, 0.6 * compute_s, 0.6 * compute_s)
    moved = Traffic(gather_s, gather_s, 0.0, 0.0, 0.5 * gather_s, 0.5 * gather_s)
    waits = Around(sharing(3, False), moved, kernels, layers, overlap, host=HostTraffic(down_backward_s=down_s)).waits
    assert float(waits.host_forward_s) == 0.0


def test_parameters_cross_the_link_for_every_micro_batch_and_pass() -> None:
    """64 micro-batches x 2 passes x 16.06 GB over PCIe 4 at 25.2 GB/s."""
    found = lockstep.estimate(
        "llama3-8b", "workstation-4090", gpus=1, batch=64, seq=1024, zero=3, recompute="full", offload="parameters",
        gradient_bytes=2, micro_batch=1,
    )  # fmt: skip
    assert found.step_time_s >= 64 * 2 * 2 * ELEMENTS / 25.2064e9
    assert found.step.bound_by == "host_comm"


def gpt(layers: int, hidden: int) -> Transformer:
    """A GPT-2 of so many layers, as ZeRO-Offload trained (arXiv 2101.06840, table of model configurations)."""
    return Transformer(
        name="gpt", layers=layers, hidden=hidden, vocab=50304, max_positions=1024, tied_embeddings=True,
        attention=Attention(heads=hidden // 128, kv_heads=hidden // 128, head_dim=128),
        mlp=Mlp(ffn=4 * hidden, gated=False), positions="learned",
    )  # fmt: skip


def test_thirteen_billion_parameters_train_on_one_v100_of_32_gb() -> None:
    """ZeRO-Offload's headline, on one GPU of a DGX-2; without its offloading 1.4B are the most (section 6.2)."""
    hardware = cluster("dgx-2:1", gpus=1)
    recipe = Recipe(seq=1024, batch=8, dtype="fp16", gradient_B=2.0)
    large, medium, small = gpt(65, 4096), gpt(10, 2048), gpt(24, 2048)
    assert parameters(large).total == pytest.approx(13e9, rel=0.03)
    fits = {}
    for name, described in (("large", large), ("medium", medium), ("small", small)):
        for offload in ("none", "optimizer"):
            layout = Layout(offload=offload, recompute="full", micro_batch=1)
            fits[name, offload] = bool(memory(Job(described, recipe, 1), hardware, layout.grid()).fits)
    assert fits == {
        ("large", "none"): False, ("large", "optimizer"): True, ("medium", "none"): True, ("medium", "optimizer"): True,
        ("small", "none"): True, ("small", "optimizer"): True,
    }  # fmt: skip
    assert plan(large, hardware, recipe, pins=Pins(offload=("optimizer",))).best.layout.offload == "optimizer"
    with pytest.raises(Infeasible):
        plan(large, hardware, recipe)


@given(offloaded())
def test_the_host_holds_what_is_offloaded(layout: Layout) -> None:
    """Of 2 + 2 + 12 bytes per parameter, each rank keeps its share of what it updates in host memory."""
    found = memory(LLAMA, CLUSTER, layout.grid())
    owned = ELEMENTS / layout.tp / layout.pp / (layout.dp if layout.zero else 1)
    bytes_each = 16 if layout.offload == "parameters" else 14
    assert (
        bytes_each * owned * 0.999
        <= float(found.host_B)
        <= bytes_each * owned * (1.0 if layout.pp == 1 else 2.5) * 1.001
    )
    assert float(found.optimizer_B) == 0.0
    leaves = (layout.zero >= 2 and layout.pp == 1) or layout.dp == 1
    assert (float(found.gradients_B) == 0.0) == leaves
    assert (float(found.parameters_B) == 0.0) == (layout.offload == "parameters")


@settings(max_examples=drawn(50))
@given(offloaded(), st.floats(1e9, 1e13))
def test_states_that_exceed_host_memory_do_not_fit(layout: Layout, memory_B: float) -> None:
    hardware = with_host(CLUSTER, memory_B=memory_B)
    found = memory(LLAMA, hardware, layout.grid())
    on_device = float(found.total_B) <= found.capacity_B
    assert bool(found.fits) == (on_device and 8 * float(found.host_B) <= 0.9 * memory_B)
    assert bool(memory(LLAMA, hardware, replace(layout, offload="none").grid()).host_B) is False
    unknown = memory(LLAMA, with_host(CLUSTER, memory_B=None), layout.grid())
    assert bool(unknown.fits) == on_device
    assert unknown.to_dict()["host_capacity_B"] is None


def test_the_planner_names_insufficient_host_memory() -> None:
    small = with_host(cluster("dgx-a100-40gb:1"), memory_B=64e9)
    with pytest.raises(Infeasible, match=r"in the memory of each host, which has 53\.6 GiB") as caught:
        plan(LLAMA.model, small, LLAMA.recipe, pins=Pins(offload=("optimizer",)))
    assert caught.value.violations[0].why == "host memory"
    half = with_host(cluster("dgx-a100-40gb:1"), memory_B=130e9)
    found = plan(LLAMA.model, half, LLAMA.recipe, pins=Pins(offload=("optimizer",)))
    assert {one["why"] for one in found.rejected} >= {"host memory"}
    assert all(bool(one.memory.fits) for one in (*found.plans, *found.front))


@pytest.mark.parametrize("offload", ["optimizer", "parameters"])
def test_the_planner_and_an_estimate_agree(offload: str) -> None:
    for one in plan(LLAMA.model, CLUSTER, LLAMA.recipe, pins=Pins(offload=(offload,)), top=20).plans:
        assert one.layout.offload == offload
        assert estimate(LLAMA, CLUSTER, one.layout).step_time_s == pytest.approx(one.step_time_s, rel=1e-12)


def test_an_answer_names_its_host() -> None:
    said = " ".join(estimate(LLAMA, CLUSTER, Layout(dp=16, zero=2, offload="optimizer")).assumptions())
    assert "host link pcie4: 12.6 GB/s per device and direction, 80 % (assumed) of 31.5 GB/s (datasheet: PCI" in said
    assert "shared by 2 devices" in said
    assert "host memory: 1 TiB for 8 devices (datasheet: NVIDIA DGX A100" in said
    assert "host" not in " ".join(estimate(LLAMA, CLUSTER, Layout(dp=16, zero=2)).assumptions())
    bare = with_host(CLUSTER, memory_B=None, memory_bandwidth_Bps=None)
    said = " ".join(estimate(LLAMA, bare, Layout(dp=16, zero=2, offload="optimizer")).assumptions())
    assert "host memory of dgx-a100-40gb is not given" in said
    assert "the rate of host memory is not given" in said


def test_impossible_offloading_is_refused() -> None:
    with pytest.raises(BadInput, match=r"parameters stay whole on the device.* use --zero 3, or --offload optimizer"):
        estimate(LLAMA, CLUSTER, Layout(dp=16, zero=2, offload="parameters"))
    muon = replace(LLAMA, recipe=replace(LLAMA.recipe, optimizer="muon"))
    with pytest.raises(BadInput, match="the update of muon consists of matrix products"):
        estimate(muon, CLUSTER, Layout(dp=16, zero=1, offload="optimizer"))
    with pytest.raises(BadInput, match="does not describe its hosts"):
        estimate(LLAMA, replace(CLUSTER, host=None), Layout(dp=16, zero=2, offload="optimizer"))


def test_the_host_updates_at_its_measured_rate() -> None:
    """ZeRO-Offload's CPU-Adam takes 2.57 s for 10B parameters on a DGX-2."""
    described = gpt(50, 4096)
    job = Job(described, Recipe(seq=1024, batch=8, dtype="fp16", gradient_B=2.0), 1)
    step = price_step(job, cluster("dgx-2:1", gpus=1), Layout(offload="optimizer", recompute="full").grid())
    expected_s = 2.57 * parameters(described).total / 10e9
    assert float(step.optimizer_s) == pytest.approx(expected_s, rel=0.03)
    assert math.isfinite(float(np.asarray(step.step_time_s)))
