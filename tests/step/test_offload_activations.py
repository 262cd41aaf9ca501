"""Offloaded activations: bytes over the host's link by hand, an independent simulation, and what memory is left."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from effort import drawn
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.export import export
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, memory, stage_memory
from lockstep.price.step import price_step
from lockstep.price.step.program import step_timeline
from lockstep.simulate.parallel.data.around import Around
from lockstep.simulate.parallel.data.offload import HostTraffic, kept_alone_frac
from lockstep.simulate.parallel.data.sharing import sharing
from lockstep.simulate.parallel.data.zero import Kernels, Traffic
from lockstep.simulate.play import simulate
from lockstep.simulate.program import ProgramBuilder

CLUSTER = cluster("dgx-a100-40gb:2")
LAYERS, HIDDEN = 32, 4096
LINK_BPS = 0.8 * 31.5e9 / 2
"""PCIe 4 at 80 %, shared by two devices."""


def asked(**recipe: object) -> Job:
    known = Recipe(seq=1024, batch=128, gradient_B=2.0)
    return Job(model("llama3-8b"), replace(known, **recipe), 16)  # type: ignore[arg-type]


def passes_s(copy_s: float, kernels_s: float, layers: int, offloaded: int, backward: bool) -> float:
    """Layers compute one after another; the first `offloaded` send a copy behind their kernels, or wait for theirs."""
    builder = ProgramBuilder(1, ("compute", "host"))
    done: dict[int, list[int]] = {}
    order = reversed(range(layers)) if backward else range(layers)
    if backward:
        for layer in reversed(range(offloaded)):
            done[layer] = [builder.compute(0, copy_s / offloaded, stream="host")]
    for layer in order:
        end = builder.compute(0, kernels_s / layers, stream="compute", after=done.get(layer, []))
        if not backward and layer < offloaded:
            builder.compute(0, copy_s / offloaded, stream="host", after=[end])
    return float(simulate(builder.build()).makespan_s)


SECONDS = st.floats(0.0, 10.0)


@given(SECONDS, st.floats(1e-3, 10.0), st.integers(1, 12), st.data(), st.booleans())
def test_overlapped_copies_match_a_layerwise_program(
    copy_s: float, kernels_s: float, layers: int, data: st.DataObject, backward: bool
) -> None:
    """Some layers or all of them, down in forward and up in backward passes."""
    offloaded = data.draw(st.integers(1, layers))
    host = HostTraffic(kept_s=copy_s, kept_alone_frac=kept_alone_frac(offloaded, layers, blocking=False))
    nothing, kernels = Traffic(0.0, 0.0, 0.0, 0.0), Kernels(kernels_s, kernels_s)
    waits = Around(sharing(0, False), nothing, kernels, layers, True, host=host).waits
    left_s = float(waits.host_backward_s if backward else waits.host_forward_s)
    assert kernels_s + left_s == pytest.approx(passes_s(copy_s, kernels_s, layers, offloaded, backward), rel=1e-9)


def layouts(job: Job) -> st.SearchStrategy[Layout]:
    def one(shape: tuple[int, int], micro_batch: int, recompute: str, zero: int) -> Layout:
        tp, pp = shape
        return Layout(
            tp=tp, pp=pp, dp=16 // (tp * pp), micro_batch=micro_batch, recompute=recompute, zero=zero,
            sequence_parallel=tp > 1,
        )  # fmt: skip

    shapes = st.sampled_from([(1, 1), (2, 1), (1, 4), (4, 2)])
    return st.builds(
        one, shapes, st.sampled_from([1, 2]), st.sampled_from(["none", "selective", "full"]), st.integers(0, 3)
    )


OFFLOADED = st.sampled_from([1, 5, "all"])


@settings(max_examples=drawn(50))
@given(layouts(asked()), OFFLOADED)
def test_traffic_of_offloaded_checkpoints_matches_a_count_by_hand(layout: Layout, offloaded: int | str) -> None:
    """Under full recomputation a layer's input: two bytes per token and hidden element, divided by tp."""
    slow = replace(CLUSTER, host=replace(CLUSTER.known_host, link=replace(CLUSTER.known_host.link, bandwidth_Bps=1e7)))
    layout, job = replace(layout, recompute="full"), asked(offload_layers=offloaded)
    stage = LAYERS // layout.pp
    gone = stage if offloaded == "all" else min(stage, int(offloaded))
    passes = 128 // (layout.dp * layout.micro_batch)
    kept_B = passes * gone * layout.micro_batch * 1024 * HIDDEN * 2 / layout.tp
    least_s = 2 * kept_B / (LINK_BPS * 1e7 / 31.5e9)
    found_s = float(price_step(job, slow, layout.grid()).step_time_s)
    kept_s = float(price_step(asked(), slow, layout.grid()).step_time_s)
    # Copies run beside kernels and each way once per micro-batch; other stages wait for the slow one.
    assert least_s <= found_s <= kept_s + (1 + layout.pp) * least_s


@settings(max_examples=drawn(50))
@given(layouts(asked()), OFFLOADED)
def test_offloaded_activations_are_counted_on_the_host(layout: Layout, offloaded: int | str) -> None:
    """Stage by stage; at most two layers' activations pass through the device's buffers."""
    job, grid, stage_layers = asked(offload_layers=offloaded), layout.grid(), LAYERS // layout.pp
    gone = stage_layers if offloaded == "all" else min(stage_layers, int(offloaded))
    for stage in range(layout.pp):
        kept, found = (stage_memory(one, CLUSTER, grid, stage) for one in (asked(), job))
        assert float(found.host_B) == pytest.approx(gone / stage_layers * float(kept.activations_B), rel=1e-9)
        assert float(found.activations_B) == pytest.approx(float(kept.activations_B - found.host_B), rel=1e-9, abs=1.0)
        more_B = float(found.buffers_B - kept.buffers_B)
        assert more_B <= 1.05 * 2 * float(kept.activations_B) / stage_layers
    assert float(memory(job, CLUSTER, grid).host_B) == max(
        float(stage_memory(job, CLUSTER, grid, stage).host_B) for stage in range(layout.pp)
    )


@settings(max_examples=drawn(50))
@given(layouts(asked()), OFFLOADED)
def test_offloading_never_speeds_a_step_up_and_a_faster_link_never_slows_it(
    layout: Layout, offloaded: int | str
) -> None:
    job, host = asked(offload_layers=offloaded), CLUSTER.known_host
    faster = replace(CLUSTER, host=replace(host, link=replace(host.link, bandwidth_Bps=2 * host.link.bandwidth_Bps)))
    kept_s, found_s, better_s = (
        float(price_step(one, hardware, layout.grid()).step_time_s)
        for one, hardware in ((asked(), CLUSTER), (job, CLUSTER), (job, faster))
    )
    assert kept_s * (1 - 1e-12) <= better_s <= found_s * (1 + 1e-12)


def test_deepspeed_waits_for_every_copy() -> None:
    """2 x 8 micro-batches x 32 layers x 8 MiB over half of a PCIe link."""
    layout = Layout(dp=16, recompute="full", zero=1)
    job = asked(offload_layers="all", sharding="deepspeed")
    step = price_step(job, CLUSTER, layout.grid())
    assert float(step.host_comm_s) == pytest.approx(2 * 8 * LAYERS * 1024 * HIDDEN * 2 / LINK_BPS, rel=0.01)


def test_the_trace_has_copies_on_the_host_lane_and_less_memory() -> None:
    layout = Layout(dp=8, pp=2, recompute="selective", zero=1)
    kept, gone = (step_timeline(asked(offload_layers=count), CLUSTER, layout) for count in (0, "all"))
    busy = [sum(seconds for (_, lane), seconds in one.busy_s().items() if lane == "host") for one in (kept, gone)]
    assert busy[0] == 0.0 < busy[1]
    assert all(gone.peak_memory_B() < kept.peak_memory_B())


def test_impossible_offloading_is_refused() -> None:
    with pytest.raises(BadInput, match="offload_layers must be a count of layers, or all, got -1"):
        asked(offload_layers=-1)
    with pytest.raises(BadInput, match=r"all or none \(cpu_checkpointing\); use --recompute full"):
        estimate(asked(offload_layers=2, sharding="deepspeed"), CLUSTER, Layout(dp=16))
    mixture = Job(model("deepseek-v2"), asked(offload_layers=2).recipe, 16)
    with pytest.raises(BadInput, match="two copies of the model"):
        estimate(mixture, CLUSTER, Layout(dp=2, ep=2, pp=8, vpp=2, schedule="dualpipe"))
    images = Job(model("resnet50"), Recipe(seq=1, batch=128, offload_layers="all"), 16)
    with pytest.raises(BadInput, match="resnet50 has no layers of a transformer"):
        estimate(images, CLUSTER, Layout(dp=16))
    with pytest.raises(BadInput, match="does not describe its hosts"):
        estimate(asked(offload_layers=2), replace(CLUSTER, host=None), Layout(dp=16))


def test_deepspeed_exports_enable_cpu_checkpointing() -> None:
    job = asked(offload_layers="all", sharding="deepspeed")
    found = estimate(job, CLUSTER, Layout(dp=4, pp=4, recompute="full", zero=1))
    assert json.loads(export(found, "deepspeed"))["activation_checkpointing"] == {"cpu_checkpointing": True}


def test_the_answer_states_what_is_offloaded() -> None:
    found = lockstep.estimate("llama3-8b", "dgx-h100:1", batch=64, dp=8, zero=1, offload_layers="all")
    said = " ".join(found.assumptions())
    assert "kept activations of all layers of a stage go to the host in forward passes" in said
    assert "host memory: 2 TiB for 8 devices" in said
    assert "the host updates" not in said
