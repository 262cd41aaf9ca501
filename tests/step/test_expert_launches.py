"""Launches of a rank's experts, counted by hand of a loop over experts, and what CUDA graphs save."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lockstep
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import own_stack
from lockstep.describe.workload import EXPERTS, Transformer, model
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.layer import layer_work
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.layout import Job, Layout
from lockstep.price.step import price_step
from lockstep.price.step.network import Network
from lockstep.price.step.stage import layer_times
from recipes import recipe_by

from .undisturbed import undisturbed

CLUSTER = undisturbed(replace(cluster("dgx-b200:1"), own_rank_spread_frac=0.0))
EP = 8


def shard(ep: int = EP, **words: Any) -> Shard:
    """A rank of Qwen3 30B, one sequence at a time."""
    found = model("qwen3-30b-a3b")
    assert isinstance(found, Transformer)
    recipe = recipe_by(words.pop("stack", "megatron-te"), seq=4096, batch=8, **{"experts": "grouped", **words})
    return Shard(found, Layout(dp=8, ep=ep).grid(), recipe, Clock.of(CLUSTER.device, recipe))


def launches(**words: Any) -> tuple[float, float]:
    """Forward and backward, of a layer."""
    work = layer_work(shard(**words), EXPERTS)
    return float(work.forward.kernels), float(work.backward.kernels)


@pytest.mark.parametrize(
    ("dtype", "current", "forward", "backward"),
    [
        # Two linear layers; forward a product each, backward two.
        ("bf16", False, 2 * 1, 2 * 2),
        # Before them a cast, which current scaling precedes with clearing, the largest value and a scale.
        ("fp8", False, 2 * (1 + 1), 2 * (1 + 2)),
        ("fp8", True, 2 * (4 + 1), 2 * (4 + 2)),
        # A cast, and the scales of both operands laid out before every product.
        ("mxfp8", False, 2 * (1 + 3), 2 * (1 + 3 * 2)),
    ],
)
def test_every_expert_has_its_own_launches(dtype: str, current: bool, forward: int, backward: int) -> None:
    """Ranks with twice the experts launch that many more; a kernel for all of them has none more."""
    few, many = (
        launches(ep=ep, dtype=dtype, experts="looped", scaling="current" if current else "delayed") for ep in (8, 4)
    )
    assert (many[0] - few[0], many[1] - few[1]) == (16 * forward, 16 * backward)
    assert launches(ep=8, dtype=dtype) == launches(ep=4, dtype=dtype)
    grouped = launches(dtype=dtype)
    casts = dtype != "bf16"
    assert (few[0] - grouped[0], few[1] - grouped[1]) == (
        16 * forward - 2 * (1 + casts),
        16 * backward - 2 * (2 + casts),
    )


def test_graphs_of_attention_leave_the_launches_of_experts_alone() -> None:
    for experts in ("grouped", "looped"):
        alone, captured = (launches(experts=experts, cuda_graphs=how) for how in ("none", "attention"))
        assert 0 < captured[0] < alone[0]
        assert 0 < captured[1] < alone[1]
    few, many = (launches(ep=ep, experts="looped", cuda_graphs="attention") for ep in (8, 4))
    assert (many[0] - few[0], many[1] - few[1]) == (16 * 2, 16 * 4)


def test_a_custom_router_has_the_launches_of_its_row() -> None:
    """Unless a graph does; its steps are over the scores of all experts for every token."""
    row = {"forward": ["scored and chosen 3"], "rate": "bytes", "kernels": [1, 2]}
    own = own_stack({"like": "megatron-te", "ways": {"router": "mine"}, "router": {"mine": row}})
    usual, mine = launches(), launches(stack=own)
    assert (usual[0] - mine[0], usual[1] - mine[1]) == (30 - 1, 15 - 2)
    assert launches(stack=own, cuda_graphs="attention") == launches(cuda_graphs="attention")
    works = [layer_work(shard(stack=one), EXPERTS).forward for one in ("megatron-te", own)]
    moved_s = shard().clock.stream(3 * 2.0 * 4096 * 128).stream_s
    assert float(works[1].stream_s - works[0].stream_s) == pytest.approx(float(moved_s), rel=1e-9)


def test_in_a_cuda_graph_looped_and_grouped_experts_take_the_same_time() -> None:
    """Without the host the experts of a rank, one by one or all at once, take the same."""
    steps = {}
    for experts in ("grouped", "looped"):
        for how in ("none", "attention", "step"):
            recipe = recipe_by("nemo-25", seq=4096, batch=64, dtype="mxfp8", experts=experts, cuda_graphs=how)
            job = Job(model("qwen3-30b-a3b"), recipe, 8)
            steps[experts, how] = float(price_step(job, CLUSTER, Layout(dp=8, ep=8).grid()).step_time_s)
    assert steps["grouped", "step"] == pytest.approx(steps["looped", "step"], rel=0.02)
    assert steps["looped", "none"] > steps["looped", "attention"] > steps["looped", "step"]
    assert steps["looped", "none"] > 1.5 * steps["grouped", "none"]


def test_a_host_that_counts_tokens_waits_for_the_router() -> None:
    """What precedes the experts and the launches of what follows take turns; from a graph of the whole step not."""

    def forward_s(one: Shard) -> float:
        times = layer_times(one, Network(CLUSTER, one.grid), EXPERTS, Passes(Work(), Work()))
        return float(times.compute_forward_s + times.ep_forward_s)

    def rank(experts: str = "looped", **words: Any) -> Shard:
        found = shard(dtype="mxfp8", stack="nemo-25", exchange="node", experts=experts, **words)
        return replace(found, grid=Layout(dp=8, ep=EP, micro_batch=4).grid())

    late, eager, step = (rank(cuda_graphs=how) for how in ("attention", "none", "step"))
    work = layer_work(late, EXPERTS)
    assert work.counted is not None
    launches_s = float(work.counted.kernels) * late.clock.launches_s[0]
    before_s = float(work.forward.device_s - work.counted.device_s)
    assert forward_s(late) == pytest.approx(before_s + launches_s)
    assert forward_s(late) > 1.1 * float(work.forward.kernels) * late.clock.launches_s[0]
    assert forward_s(eager) >= forward_s(late) > 1.05 * forward_s(step)
    # With one kernel for all experts the host is ahead, and the device sets the pace.
    ahead = rank(experts="grouped", cuda_graphs="attention")
    assert forward_s(ahead) == pytest.approx(forward_s(step))


def test_larger_micro_batches_hide_the_host() -> None:
    """Launches do not grow with tokens: four sequences at a time leave a quarter of them per token."""
    words = {"seq": 4096, "batch": 512, "dtype": "mxfp8", "stack": "nemo-25", "ep": 8, "zero": 1}
    one, four = (lockstep.estimate("qwen3-30b-a3b", "dgx-b200:1", micro_batch=mb, **words) for mb in (1, 4))  # type: ignore[arg-type]
    assert four.step_time_s < 0.6 * one.step_time_s


def test_the_answer_states_that_the_device_waits_for_the_host() -> None:
    words = {"seq": 4096, "batch": 512, "dtype": "mxfp8", "stack": "nemo-25", "ep": 8, "zero": 1, "micro_batch": 1}
    late, captured = (
        lockstep.estimate("qwen3-30b-a3b", CLUSTER, cuda_graphs=how, **words)  # type: ignore[arg-type]
        for how in ("none", "step")
    )
    said = [line for line in late.assumptions() if "waits for the host" in line]
    assert len(said) == 1
    assert f"{100 * (1 - captured.step_time_s / late.step_time_s):.0f} %" in said[0]
    assert not any("waits for the host" in line for line in captured.assumptions())
