"""Laws of what passes do besides their layers' kernels: copies of states, parts of attention, a host that is ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.describe.hardware import cluster, device
from lockstep.describe.stacks import find_way, stack
from lockstep.describe.workload import DENSE, RankParameters, Transformer, model
from lockstep.price.kernels.attention import attention_core
from lockstep.price.kernels.clock import MIXED, Clock, Work
from lockstep.price.kernels.layer import layer_work
from lockstep.price.kernels.optimizer import bucketing_s
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import Layout, Recipe
from lockstep.price.step.network import Network
from lockstep.price.step.stage import layer_times

from .undisturbed import undisturbed

PARAMETERS = 1e8


def _shard(software: str, launch_s: float = 1e-9, seq: int = 2048, **where: int) -> Shard:
    known, machine = model("llama3-8b"), undisturbed(cluster("dgx-h100:1"))
    assert isinstance(known, Transformer)
    own = replace(stack(software), launch_s=launch_s, recompute_host_s=0.0)
    recipe = replace(Recipe.by(software, seq=seq, batch=64), stack=own)
    return Shard(known, Layout(**{"dp": 8, **where}).grid(), recipe, Clock.of(machine.device, recipe))


def _moved_B(shard: Shard) -> tuple[float, float]:
    """Bytes per parameter that states take, forward and backward."""
    found = states_work(shard, DENSE, PARAMETERS)
    unit_s = float(shard.clock.stream(PARAMETERS).stream_s)
    return float(found.forward.stream_s) / unit_s, float(found.backward.stream_s) / unit_s


def test_fsdp2_copies_gathered_parameters_in_every_gathering_pass() -> None:
    given_up, kept = _moved_B(_shard("torchtitan", zero=3)), _moved_B(_shard("torchtitan", zero=2))
    assert given_up[0] == kept[0] == pytest.approx(2 + 2)
    assert given_up[1] - kept[1] == pytest.approx(2 + 2)
    # A gradient is read in half precision, written in fp32 for the wire, and an eighth of the sum is added to, but for
    # the first of the micro-batches, which finds none.
    shard = _shard("torchtitan", zero=3)
    count = float(shard.grid.microbatches(shard.recipe.batch))
    assert count > 1
    added = (1 - 1 / count) * (2 + 2 * shard.recipe.gradient_B) / 8
    assert kept[1] == pytest.approx(2 + 4 + added)
    assert _moved_B(_shard("nanotron", zero=1))[0] == 0.0


def test_fsdp1_joins_gradients_and_divides_them() -> None:
    """Read and written twice in half precision where they are reduced, with a sum of a rank's part after the first."""
    shard = _shard("fsdp-eager", zero=3)
    count = float(shard.grid.microbatches(shard.recipe.batch))
    added = (1 - 1 / count) * (2 + 2 * shard.recipe.gradient_B) / 8
    assert _moved_B(shard) == pytest.approx((0, 4 + 4 + added))
    # A single micro-batch adds to nothing.
    once = replace(shard, recipe=replace(shard.recipe, batch=8))
    assert _moved_B(once) == pytest.approx((0, 4 + 4))


def test_sums_of_two_formats_take_longer_than_their_bytes() -> None:
    """nanotron adds gradients in half precision to sums in fp32; InternEvo's sums are in half precision themselves."""
    shards = _shard("nanotron"), _shard("internevo")
    bytes_each = [2 + 2 * shard.recipe.gradient_B for shard in shards]
    assert bytes_each == [10, 6]
    factors = [_moved_B(shard)[1] / each_B for shard, each_B in zip(shards, bytes_each, strict=True)]
    assert factors == pytest.approx([MIXED, 1.0])
    whole = replace(shards[0], recipe=replace(shards[0].recipe, dtype="fp16"))
    assert _moved_B(whole)[1] == pytest.approx(bytes_each[0])


@pytest.mark.parametrize(
    ("software", "layout", "copies"),
    [("internevo", {}, 4), ("nanotron", {}, 0), ("hf-trainer", {"dp": 8}, 4), ("hf-trainer", {"dp": 1}, 0),
     ("hf-trainer", {"dp": 8, "zero": 1}, 0), ("torchtitan", {"dp": 8}, 0)],
)  # fmt: skip
def test_gradients_travel_through_buckets_and_back(software: str, layout: dict[str, int], copies: int) -> None:
    shard = _shard(software, **layout)
    each_B = shard.recipe.wire_B if software == "internevo" else shard.recipe.gradient_B
    unit_s = float(shard.clock.stream(PARAMETERS * each_B).stream_s)
    held = RankParameters(PARAMETERS, 0.0, 0.0)
    assert bucketing_s(shard.clock, shard.grid, shard.recipe, held) == pytest.approx(copies * unit_s)


def test_torch_context_parallelism_merges_one_partial_output_per_other_rank() -> None:
    def more_s(ranks: int) -> tuple[float, float]:
        shard = _shard("torchtitan", dp=8 // ranks, cp=ranks)
        shard = replace(shard, recipe=replace(shard.recipe, cp_kind="gather"))
        found, unit = attention_core(shard, 0), shard.tokens * shard.model.hidden * 2.0
        unit_s = float(shard.clock.stream(unit).stream_s)
        return float(found.forward.stream_s) / unit_s, float(found.backward.stream_s) / unit_s

    parts = find_way("context", "compiled").parts
    forward, backward = parts["later"].passes[0], parts["exchanged"].passes[1]
    assert more_s(1) == (0.0, 0.0)
    assert more_s(2) == pytest.approx((forward, 2 * backward))
    assert more_s(8) == pytest.approx((7 * forward, 8 * backward))


@pytest.mark.parametrize("launch_s", [1e-9, 5e-6, 2e-5, 5e-5, 2e-4])
def test_a_host_that_is_ahead_has_less_to_do_later(launch_s: float) -> None:
    shard = _shard("megatron-te", launch_s)
    network, bare = Network(cluster("dgx-h100:1"), shard.grid), Passes(Work(), Work())
    found, work = layer_times(shard, network, DENSE, bare), layer_work(shard, DENSE)
    device_s = float(work.forward.device_s), float(work.backward.device_s)
    host_s = tuple(
        float(one.kernels) * float(each_s)
        for one, each_s in zip((work.forward, work.backward), shard.clock.launches_s, strict=True)
    )
    total_s = float(found.compute_forward_s + found.compute_backward_s)
    assert total_s >= max(sum(device_s), sum(host_s)) - 1e-12
    assert total_s <= max(device_s[0], host_s[0]) + max(device_s[1], host_s[1]) + 1e-12
    if device_s[0] >= host_s[0]:
        assert total_s == pytest.approx(max(sum(device_s), sum(host_s)))


def test_every_kernel_that_the_host_has_launched_ahead_costs_a_gap() -> None:
    """None where a graph of the whole step is replayed."""
    shard = _shard("megatron-te")
    bare, work = Passes(Work(), Work()), layer_work(shard, DENSE)
    curve = replace(shard.clock.device.efficiency, gap_s=1e-6)
    spaced = replace(shard, clock=replace(shard.clock, device=replace(shard.clock.device, efficiency=curve)))
    replayed = replace(spaced, clock=replace(spaced.clock, stack=replace(spaced.clock.stack, launch_s=0.0)))
    seconds = []
    for one in (shard, spaced, replayed):
        found = layer_times(one, Network(cluster("dgx-h100:1"), one.grid), DENSE, bare)
        seconds.append(float(found.compute_forward_s + found.compute_backward_s))
    kernels = float(work.forward.kernels + work.backward.kernels)
    assert seconds[1] - seconds[0] == pytest.approx(1e-6 * kernels, rel=1e-9)
    assert seconds[2] == pytest.approx(seconds[0], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "slow"), [("h100-sxm", True), ("a100-sxm-80gb", True), ("h200", True), ("rtx-4090", False), ("l4", False)]
)
def test_kernels_wait_for_instructions_where_memory_is_fast(name: str, slow: bool) -> None:
    """By bandwidth over the fp32 rate; no kernel takes less than its bytes."""
    clock = Clock(device(name), "bf16")
    assert clock.instruction_bound(1.5) == (1.5 if slow else 1.0)
    assert clock.instruction_bound(1.0) == 1.0
