"""Paged optimizer states: what finds no room is on the host, and comes and goes once per update."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import model, parameters
from lockstep.price.layout import Job, Layout, memory
from lockstep.price.step import price_step
from recipes import recipe_by

CLUSTER = cluster("dgx-a100-40gb:1", gpus=1)
LLAMA = model("llama3.2-1b")
JOB = Job(LLAMA, recipe_by(seq=1024, batch=8, gradient_B=2.0), 1)
STATES_B = 12.0 * parameters(LLAMA).total
"""An fp32 master and two moments."""


def sized(memory_B: float) -> Cluster:
    return replace(CLUSTER, device=replace(CLUSTER.device, memory_B=memory_B))


def layout(offload: str) -> Layout:
    return Layout(offload=offload, recompute="full")


def seconds(hardware: Cluster, offload: str, job: Job = JOB) -> float:
    return float(price_step(job, hardware, layout(offload).grid()).step_time_s)


@given(st.floats(1e9, 80e9))
def test_states_are_on_the_device_or_on_the_host(memory_B: float) -> None:
    paged = memory(JOB, sized(memory_B), layout("paged").grid())
    assert float(paged.optimizer_B + paged.host_B) == pytest.approx(STATES_B, rel=1e-9)
    whole = memory(JOB, sized(memory_B), layout("none").grid())
    assert float(paged.total_B) <= float(whole.total_B) * (1 + 1e-9)
    if whole.fits:
        assert float(paged.host_B) == pytest.approx(0.0, abs=1.0)
    elif paged.fits:
        assert float(paged.total_B) == pytest.approx(memory_B, rel=1e-9)


@given(st.floats(6e9, 40e9))
def test_paged_states_without_room_cross_the_link_twice_per_step(memory_B: float) -> None:
    hardware = sized(memory_B)
    away_B = float(memory(JOB, hardware, layout("paged").grid()).host_B)
    rate_Bps = hardware.known_host.link.rate_Bps
    assert seconds(hardware, "paged") - seconds(hardware, "none") == pytest.approx(2 * away_B / rate_Bps, abs=1e-9)


def test_paging_does_not_grow_with_micro_batches() -> None:
    """Pages come for the update, not for passes."""
    hardware = sized(12e9)
    added = [
        seconds(hardware, "paged", job) - seconds(hardware, "none", job)
        for job in (replace(JOB, recipe=JOB.recipe.having(batch=batch)) for batch in (8, 64))
    ]
    assert added[0] == pytest.approx(added[1], rel=1e-9)
    assert added[0] > 0


def test_a_master_that_is_the_parameter_is_not_paged() -> None:
    """PyTorch's autocast keeps fp32 parameters alone: moments are all that an optimizer pages."""
    single = replace(JOB, recipe=JOB.recipe.having(working_copy=False))
    found = memory(single, sized(12e9), layout("paged").grid())
    assert float(found.optimizer_B + found.host_B) == pytest.approx(STATES_B * 8 / 12, rel=1e-9)


@pytest.mark.parametrize("offload", ["paged", "optimizer", "parameters"])
def test_with_adapters_the_host_holds_only_what_is_trained(offload: str) -> None:
    """PEFT's adapters in fp32: 4 bytes of gradient and 8 of moments each; frozen weights only where parameters go."""
    recipe = JOB.recipe.having(train="lora:r=8,targets=q_proj", batch=8)
    hidden, layers, rank = LLAMA.hidden, LLAMA.layers, 8
    adapters = 2 * hidden * rank * layers
    zero = 3 if offload == "parameters" else 0
    found = memory(Job(LLAMA, recipe, 8), cluster("dgx-a100-40gb:1"), replace(layout(offload), dp=8, zero=zero).grid())
    if offload == "paged":
        assert float(found.optimizer_B) == pytest.approx(8 * adapters)
        assert float(found.host_B) == 0.0
    elif offload == "optimizer":
        assert float(found.host_B) == pytest.approx(12 * adapters)
    else:
        weights_B = 2 * parameters(LLAMA).total + 4 * adapters
        assert float(found.host_B) == pytest.approx((weights_B + 12 * adapters) / 8)
