"""Traffic that takes a share of the device from the kernels beside it: both last longer, by as much as they share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step import price_step
from lockstep.price.step.hiding import hiding
from lockstep.simulate.parallel.lanes import COMPUTE, Op, run
from lockstep.simulate.parallel.piece import Flow, Piece, slowing

CLUSTER = cluster("dgx-h100:4")
WHOLE = Layout(dp=32)
TENSOR = Layout(dp=4, tp=8, sequence_parallel=True)
RING = Layout(dp=8, cp=4)
seconds = st.floats(0.0, 10.0)
shares = st.floats(0.0, 0.95)


def job(**recipe: Any) -> Job:
    return Job(model("llama3-8b"), Recipe(seq=8192, batch=128, **recipe), 32)


@given(seconds, seconds, seconds, shares)
def test_a_pass_lasts_as_long_as_its_operations_and_traffic(
    kernels_s: float, beside_s: float, before_s: float, share: float
) -> None:
    """From event to event: while traffic lasts, kernels run at 1 - share of their rate."""
    before, beside = (Flow("all-gather", "tp", 1.0, each_s) for each_s in (before_s, beside_s))
    (found,) = slowing([Piece("tp", kernels_s, before=(before,), beside=(beside,))], share)
    ops = [Op("comm", beside_s, op="all-gather"), Op(COMPUTE, kernels_s)]
    both_s = max(run(ops, 1.0 - share)[1])
    assert before_s + both_s == pytest.approx(kernels_s + float(found.exposed_s), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("layout", [WHOLE, TENSOR, RING])
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_by_default_collectives_take_the_share_of_their_device(layout: Layout, share: float) -> None:
    curve = replace(CLUSTER.device.efficiency, traffic_device_frac=share)
    own = replace(CLUSTER, device=replace(CLUSTER.device, efficiency=curve))
    assert price_step(job(), own, layout.grid()) == price_step(job(overlap_device_frac=share), CLUSTER, layout.grid())


def test_collectives_of_gpus_run_on_their_multiprocessors_and_those_of_tpus_do_not() -> None:
    shares = {name: cluster(name).device.efficiency.traffic_device_frac for name in ("dgx-h100", "dgx-a100-80gb")}
    assert all(0.1 < share < 0.2 for share in shares.values())
    assert cluster("tpu-v4").device.efficiency.traffic_device_frac == 0


@pytest.mark.parametrize("part", ["tp_comm", "cp_comm", "dp_comm"])
def test_hidden_traffic_costs_its_device_share(part: str) -> None:
    """All of it fits beside what lets it through, so each second of it costs the share."""
    layout = {"tp_comm": replace(TENSOR, dp=8, tp=4), "cp_comm": RING, "dp_comm": WHOLE}[part]
    words = {"overlap_tp": "all", "overlap_dp": part == "dp_comm"}
    free = price_step(job(**words, overlap_device_frac=0.0), CLUSTER, layout.grid()).breakdown_s()
    hidden_s = hiding(job(**words, overlap_device_frac=0.0), CLUSTER, layout)[part].hidden_s
    assert hidden_s > 0
    for share in (0.05, 0.15):
        found = price_step(job(**words, overlap_device_frac=share), CLUSTER, layout.grid()).breakdown_s()
        assert found[part] - free[part] == pytest.approx(share * hidden_s, rel=1e-9)


@given(shares, shares, st.sampled_from([WHOLE, TENSOR]), st.integers(0, 3))
def test_a_larger_share_costs_more_but_less_than_no_overlap(
    one: float, other: float, layout: Layout, zero: int
) -> None:
    grid, words = replace(layout, zero=zero).grid(), {"overlap_tp": "all"}
    steps_s = [
        float(price_step(job(**words, overlap_device_frac=share), CLUSTER, grid).step_time_s)
        for share in sorted((one, other))
    ]
    apart_s = float(price_step(job(overlap_tp="none", overlap_dp=False), CLUSTER, grid).step_time_s)
    assert steps_s[0] <= steps_s[1] * (1 + 1e-12)
    # Overlapped traffic is cut into layers, each of which pays latency.
    assert steps_s[1] <= apart_s * (1 + 0.01)
