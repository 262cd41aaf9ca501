"""Data-parallel traffic against bytes counted by hand, above all where shard groups hold several copies."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import drawn
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import Transformer, model, parameters
from lockstep.price.layout import Job, Layout, Recipe, broken_by, memory
from lockstep.price.step import compose, price_step, step_timeline
from lockstep.simulate.parallel.data import sharing
from lockstep.simulate.parallel.data.coordinator import Limits
from lockstep.simulate.parallel.piece import total_s
from recipes import recipe_by

NODES = 8
CLUSTER = cluster(f"dgx-h100:{NODES}")
LLAMA = Job(model("llama3-8b"), Recipe(seq=4096, batch=256, gradient_B=2.0, overlap_dp=False), 8 * NODES)
PARAMETERS = parameters(LLAMA.model).total


def data_parallel_s(layout: Layout, hardware: Cluster = CLUSTER, job: Job = LLAMA) -> float:
    return float(price_step(job, hardware, layout.grid()).dp_comm_s)


def least_outer_s(layout: Layout) -> float:
    """A node's gradients leave it once at least: 2 (n-1)/n of them over all its NICs, copies inside summed before."""
    whole_B = 2.0 * PARAMETERS / layout.tp
    return 2.0 * (NODES - 1) / NODES * whole_B / (8 / layout.tp) / CLUSTER.bandwidth_per_device_Bps(1)


@given(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 4, 8, 16, 0]), st.sampled_from([1, 2, 4]))
def test_gradients_of_all_nodes_are_reduced_on_the_fabric(zero: int, shard: int, tp: int) -> None:
    """Whatever the shard groups: one inside a node leaves a copy per node, which only the fabric can add up."""
    layout = Layout(dp=8 * NODES // tp, tp=tp, zero=zero, shard=shard)
    assert data_parallel_s(layout) >= least_outer_s(layout)


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_sharding_inside_nodes_adds_one_all_reduce_between_them(zero: int) -> None:
    """On a fabric that costs all the time, groups inside a node leave 2 (r-1)/r of a shard, once per step."""
    fabric = replace(CLUSTER.levels[1].link, bandwidth_Bps=1e6, achieved_frac=1.0, latency_s=0.0)
    slow = replace(CLUSTER, levels=(CLUSTER.levels[0], replace(CLUSTER.levels[1], link=fabric)))
    shard_B = 2.0 * PARAMETERS / 8
    found_s = data_parallel_s(Layout(dp=64, zero=zero, shard=8), slow)
    assert found_s == pytest.approx(2.0 * (NODES - 1) / NODES * shard_B / 1e6, rel=1e-3)


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_copies_sum_the_gradients_of_experts_too(ep: int) -> None:
    """A rank has its share of one copy: of dense layers one of eight, of the experts of its rank eight over ep."""
    mixtral = model("mixtral-8x7b")
    counted = parameters(mixtral)
    experts = counted.by_category["routed_experts"]
    job = replace(LLAMA, model=mixtral)
    found = compose(job, CLUSTER, Layout(dp=64, ep=ep, zero=3, shard=8).grid()).around.copied_B
    assert float(found) == pytest.approx(2.0 * ((counted.total - experts) / 8 + experts / ep / (8 / ep)))


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_shard_group_of_all_ranks_equals_none(zero: int) -> None:
    assert data_parallel_s(Layout(dp=64, zero=zero, shard=64)) == data_parallel_s(Layout(dp=64, zero=zero))


@given(st.sampled_from([0, 1, 2, 3]), st.sampled_from([0, 1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4]), st.booleans())
def test_gradients_reduced_once_overlap_with_the_last_pass_only(
    zero: int, shard: int, micro_batch: int, fast: bool
) -> None:
    """Overlap saves no more than the kernels of the passes last, however many kinds of traffic hide there."""
    hardware = CLUSTER if fast else replace(CLUSTER, levels=(CLUSTER.levels[0], *cluster("aws-p4d:8").levels[1:]))
    layout = Layout(dp=64, zero=zero, shard=shard, micro_batch=micro_batch)
    beside = replace(LLAMA, recipe=replace(LLAMA.recipe, overlap_dp=True))
    step = price_step(beside, hardware, layout.grid())
    saved_s = data_parallel_s(layout, hardware) - float(step.dp_comm_s)
    assert -1e-9 <= saved_s <= float(step.compute_s) * (1 + 1e-12)


ONCE, EACH = 1, 4
NO_LIMITS = ",".join(f"{one.name}=0" for one in fields(Limits))
"""Nothing is kept from a pass to the next."""
SOFTWARE = [
    ("megatron", 1, {}, (ONCE, ONCE)),
    ("megatron", 2, {}, (EACH, ONCE)),
    ("megatron", 3, {}, (EACH, 2 * EACH)),
    ("fsdp2", 2, {}, (EACH, EACH)),
    ("fsdp2", 3, {}, (EACH, 2 * EACH)),
    ("fsdp2", 3, {"reshard": False}, (EACH, EACH)),
    ("fsdp2", 3, {"gradient_sync": "step"}, (ONCE, 2 * EACH)),
    ("fsdp2", 3, {"gradient_sync": "step", "reshard": False}, (ONCE, ONCE)),
    ("deepspeed", 1, {}, (2 * ONCE, ONCE)),
    ("deepspeed", 2, {}, (2 * EACH, ONCE)),
    ("deepspeed", 3, {"gather_limits": NO_LIMITS}, (EACH, 2 * EACH)),
]
"""Software, ZeRO stage, recipe -> (scatters of all gradients, gathers of all parameters) of four micro-batches; an
all-reduce is two scatters."""


@pytest.mark.parametrize(("software", "zero", "words", "times"), SOFTWARE)
def test_sharding_traffic_matches_the_code_of_the_software(
    software: str, zero: int, words: dict[str, Any], times: tuple[int, int]
) -> None:
    """Eight ranks on a link that costs all the time: 7/8 of the buffer leaves each of them every time."""
    node = cluster("dgx-h100")
    link = replace(node.levels[0].link, bandwidth_Bps=1e6, achieved_frac=1.0, latency_s=0.0, switch=None)
    slow = replace(node, levels=(replace(node.levels[0], link=link), *node.levels[1:]))
    recipe = LLAMA.recipe.having(batch=8 * EACH, sharding=software, **words)
    found_s = data_parallel_s(Layout(dp=8, zero=zero), slow, Job(LLAMA.model, recipe, 8))
    assert found_s == pytest.approx(sum(times) * 7 / 8 * 2.0 * PARAMETERS / 1e6, rel=1e-3)


def test_with_pipeline_stages_gradients_are_reduced_once_per_step() -> None:
    """As torch's pipelines do; after every micro-batch they are a shard, and their traffic as often."""
    recipe = replace(LLAMA.recipe, batch=64)
    layout, job = Layout(dp=16, pp=4, zero=2), Job(LLAMA.model, recipe, 64)
    each = replace(job, recipe=replace(recipe, gradient_sync="micro-batch"))
    usual, often = memory(job, CLUSTER, layout.grid()), memory(each, CLUSTER, layout.grid())
    assert float(usual.gradients_B) == pytest.approx(16 * float(often.gradients_B), rel=1e-12)
    assert data_parallel_s(layout, job=each) > data_parallel_s(layout, job=job)


@pytest.mark.parametrize(("zero", "shard"), [(0, 0), (1, 8), (2, 8), (3, 8)])
def test_local_step_groups_exchange_once_in_k_steps(zero: int, shard: int) -> None:
    """On a fabric that costs all the time: 2 (r-1)/r of a rank's part, divided by K."""
    fabric = replace(CLUSTER.levels[1].link, bandwidth_Bps=1e6, achieved_frac=1.0, latency_s=0.0)
    slow = replace(CLUSTER, levels=(CLUSTER.levels[0], replace(CLUSTER.levels[1], link=fabric)))
    layout, groups = Layout(dp=64, zero=zero, shard=shard), NODES
    for steps in (2, 100):
        job = replace(LLAMA, recipe=replace(LLAMA.recipe, local_steps=steps))
        part_B = 2.0 * PARAMETERS / 8
        found_s = data_parallel_s(layout, slow, job) - data_parallel_s(
            Layout(dp=64, zero=zero, shard=shard), CLUSTER, job
        )
        assert found_s == pytest.approx(2.0 * (groups - 1) / groups * part_B / 1e6 / steps, rel=1e-2)


def test_the_outer_optimizer_keeps_a_copy_and_a_momentum() -> None:
    layout = Layout(dp=64, zero=1, shard=8)
    apart = replace(LLAMA, recipe=replace(LLAMA.recipe, local_steps=500))
    more_B = float(
        memory(apart, CLUSTER, layout.grid()).optimizer_B - memory(LLAMA, CLUSTER, layout.grid()).optimizer_B
    )
    assert more_B == pytest.approx(8.0 * PARAMETERS / 8, rel=1e-6)


def test_streaming_diloco_sends_a_four_hundredth() -> None:
    """arXiv 2501.18512, table 1: 441 TB with data parallelism, 1.1 TB with 4-bit exchanges every 100 steps."""
    slow = replace(CLUSTER, levels=(CLUSTER.levels[0], replace(CLUSTER.levels[1], link=replace(
        CLUSTER.levels[1].link, bandwidth_Bps=1e6, achieved_frac=1.0, latency_s=0.0))))  # fmt: skip
    usual = replace(LLAMA, recipe=replace(LLAMA.recipe, reduce_B=2.0))
    apart = replace(LLAMA, recipe=replace(LLAMA.recipe, reduce_B=0.5, local_steps=100))
    ratio = data_parallel_s(Layout(dp=64), slow, usual) / data_parallel_s(Layout(dp=64), slow, apart)
    assert ratio == pytest.approx(441 / 1.1, rel=0.02)


SLOW = replace(cluster("dgx-h100"), levels=tuple(
    replace(level, link=replace(level.link, bandwidth_Bps=1e6, achieved_frac=1.0, latency_s=0.0, switch=None))
    for level in cluster("dgx-h100").levels))  # fmt: skip
"""One node on whose links bytes cost all the time."""
MIXTRAL = model("mixtral-8x7b")


def adapted(base: str, words: dict[str, Any], **sizes: Any) -> Job:
    """Adapters on the attention of Mixtral, whose other matrices are of these sizes."""
    assert isinstance(MIXTRAL, Transformer)
    assert MIXTRAL.experts is not None
    frozen = replace(MIXTRAL, **sizes, experts=replace(MIXTRAL.experts, ffn=sizes.get("vocab", 32000) // 4))
    recipe = recipe_by(
        seq=512, batch=32, train="lora:r=16,targets=attention", **({"base": base} if base else {}), **words
    )
    return Job(frozen, recipe, 8)


@settings(max_examples=drawn(60))
@given(
    st.sampled_from(sharing.SOFTWARE), st.integers(0, 2), st.sampled_from(["none", "optimizer"]), st.booleans(),
    st.sampled_from([0, 2]), st.sampled_from(["", "nf4"]), st.sampled_from([1, 2]), st.sampled_from(["", "dpo,"]),
)  # fmt: skip
def test_below_zero_3_the_frozen_base_is_not_sent(
    software: str, zero: int, offload: str, overlap: bool, shard: int, base: str, tp: int, objective: str
) -> None:
    """Gradients and updated parameters of adapters alone: a base four times as large sends the same bytes."""
    if software == "fsdp2" and zero == 2:
        return  # It divides the parameters themselves at its stage 2 too.
    words = {"overlap_dp": overlap, "sharding": software}
    layout = Layout(dp=8 // tp, tp=tp, zero=zero, shard=shard, offload=offload if zero else "none")
    sent = []
    for vocab in (32000, 128000):
        job = adapted(base, words, vocab=vocab)
        job = replace(job, recipe=replace(job.recipe, train=objective + job.recipe.train))
        if broken_by(layout, job):
            return
        around = compose(job, SLOW, layout.grid()).around
        gathered = float(np.any(around.sharing.gathers_once))
        updated = around.parameter_B * gathered, around.moved.gather_s * gathered
        found = (*updated, around.gradient_B, total_s(around.once), around.moved.scatter_s)
        sent.append([float(np.max(one)) for one in found])
    assert sent[0] == sent[1]


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_adapters_send_their_gradients_and_updated_parameters(zero: int) -> None:
    """Seven eighths of the buffer leaves a rank in a gather and in a scatter; at stage 3 the base is gathered."""
    job = adapted("", {"overlap_dp": False})
    adapters, times, base_B = 32 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024)), 4, 2.0 * parameters(job.model).total
    moved_B = {0: 8.0 * adapters, 1: 8.0 * adapters, 2: 4.0 * adapters * (times + 1)}.get(
        zero, 4.0 * adapters * times + 2 * times * base_B
    )
    found_s = data_parallel_s(Layout(dp=8, zero=zero), SLOW, job)
    assert found_s == pytest.approx(7 / 8 * moved_B / 1e6, rel=1e-3)


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("words", [{}, {"sharding": "deepspeed"}, {"overlap_dp": False}, {"sharding": "internevo"}])
def test_the_simulated_step_with_adapters_takes_the_priced_time(zero: int, words: dict[str, Any]) -> None:
    """Neither gathers a frozen base of 87 GB, which takes over ten minutes here, below stage 3."""
    job, layout = adapted("", words), Layout(dp=8, zero=zero)
    found_s = step_timeline(job, SLOW, layout).makespan_s
    assert found_s == pytest.approx(float(price_step(job, SLOW, layout.grid()).step_time_s), rel=1e-9)
    assert (found_s > 600) == (zero == 3)
