"""What DeepSpeed's limits in elements do to the traffic, the memory and the program of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model, parameters
from lockstep.price.layout import Job, Layout, Recipe, memory, sharing_in
from lockstep.price.layout.layout import stack
from lockstep.price.step import compose, price_step, step_timeline

NODES = cluster("dgx-h100:2")
NOTHING = "max_reuse_distance=0,max_live_parameters=0,prefetch_bucket_size=0,param_persistence_threshold=0"
EVERYTHING = "max_reuse_distance=1000000000000"


def job_of(name: str, devices: int = 16, **words: Any) -> Job:
    recipe = Recipe.by("deepspeed", **{"seq": 1024, "batch": 4 * devices, "overlap_dp": False, **words})
    return Job(model(name), recipe, devices)


def traffic_s(job: Job, layout: Layout) -> float:
    return float(price_step(job, NODES, layout.grid()).dp_comm_s)


def test_a_model_that_fits_the_reuse_distance_is_gathered_once_for_each_micro_batch() -> None:
    """As where parameters are kept between the passes; whole on a rank, beside its own shard."""
    job, layout = job_of("gpt2-medium"), Layout(dp=16, zero=3)
    kept = replace(job, recipe=replace(job.recipe, reshard=False))
    assert traffic_s(job, layout) == pytest.approx(traffic_s(kept, layout), rel=1e-3)
    found, whole = memory(job, NODES, layout.grid()), memory(kept, NODES, layout.grid())
    shard_B = 2.0 * parameters(job.model).total / 16
    assert float(found.parameters_B) == pytest.approx(shard_B, rel=1e-6)
    assert float(found.total_B - whole.total_B) == pytest.approx(1.05 * shard_B, rel=1e-2)


def test_without_gather_limits_every_pass_gathers_everything() -> None:
    """As `sharding` any does, and a rank holds no more than its largest module."""
    job, layout = job_of("llama3-8b", gather_limits=NOTHING), Layout(dp=16, zero=3)
    usual = replace(job, recipe=job.recipe.having(sharding="any", gather_limits=""))
    assert traffic_s(job, layout) == pytest.approx(traffic_s(usual, layout), rel=1e-12)
    assert float(np.asarray(sharing_in(job, layout.grid()).held_frac)) == pytest.approx(
        128256 * 4096 / 8.03e9, rel=1e-3
    )


@pytest.mark.parametrize("limits", ["", NOTHING, EVERYTHING])
def test_gathers_of_a_grid_equal_those_of_each_layout(limits: str) -> None:
    layouts = [
        Layout(dp=16 // tp, tp=tp, zero=zero, recompute=recompute, offload=offload)
        for tp in (1, 2) for zero in (1, 3) for recompute in ("none", "full") for offload in ("none", "parameters")
        if zero == 3 or offload == "none"
    ]  # fmt: skip
    job = job_of("llama3-8b", gather_limits=limits)
    together, memories = price_step(job, NODES, stack(layouts)), memory(job, NODES, stack(layouts)).total_B
    for number, layout in enumerate(layouts):
        alone = price_step(job, NODES, layout.grid())
        for part in ("dp_comm_s", "host_comm_s", "step_time_s"):
            whole = np.broadcast_to(getattr(together, part), (len(layouts),))
            assert float(whole[number]) == pytest.approx(float(getattr(alone, part)), rel=1e-12)
        assert float(memories[number]) == float(memory(job, NODES, layout.grid()).total_B)


def test_offloaded_parameters_are_copied_as_often_as_they_are_gathered() -> None:
    """Where all stay from the forward to the backward pass, half as much comes from the host."""
    layout = Layout(dp=16, zero=3, offload="parameters")
    each = {}
    for limits in (NOTHING, EVERYTHING):
        host = compose(job_of("llama3-8b", batch=16, gather_limits=limits), NODES, layout.grid()).around.host
        each[limits] = float(host.up_forward_s + host.up_backward_s)
    assert each[EVERYTHING] == pytest.approx(each[NOTHING] / 2, rel=1e-3)


@pytest.mark.parametrize("limits", ["", NOTHING, EVERYTHING, "param_persistence_threshold=100000000"])
@pytest.mark.parametrize("words", [{}, {"overlap_dp": True}, {"train": "lora:r=16"}, {"train": "dpo"}])
def test_the_simulated_step_takes_the_priced_time(limits: str, words: dict[str, Any]) -> None:
    job = job_of("llama3.2-1b", gather_limits=limits, **words)
    for layout in (Layout(dp=16, zero=3), Layout(dp=16, zero=3, recompute="full", offload="parameters")):
        found = step_timeline(job, NODES, layout)
        assert found.makespan_s == pytest.approx(float(price_step(job, NODES, layout.grid()).step_time_s), rel=1e-9)
