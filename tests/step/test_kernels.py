"""Kernel work: the products of a layer are the model's FLOPs, curves are smooth, launches bound small shards."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import UnknownName
from lockstep.describe.hardware import device
from lockstep.describe.stacks import find_way, stack
from lockstep.describe.workload import DENSE, head_forward_flops, layer_forward_flops, model
from lockstep.price.kernels.attention import attention_core
from lockstep.price.kernels.layer import expert_work, head_work, layer_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.slots import slot_work
from lockstep.price.layout import Layout, Recipe
from lockstep.price.step import Clock
from recipes import recipe_by

H100 = device("h100-sxm")


def shard_of(name: str, *, seq: int = 2048, flash: bool = False, micro_batch: int = 1) -> Shard:
    recipe = Recipe(seq=seq, batch=8, flash_attention=flash)
    return Shard(model(name), Layout(micro_batch=micro_batch).grid(), recipe, Clock(H100, "bf16"))


@pytest.mark.parametrize(
    "name",
    ["llama3-8b", "gpt3-175b", "falcon-40b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3", "bert-large", "mpt-7b"],
)
def test_product_flops_of_a_layer_equal_those_of_the_model(name: str) -> None:
    """The list of kernel shapes and the list of weights are two derivations; unfused attention computes all scores."""
    shard = shard_of(name)
    for kind in sorted({kind.stored for kind in shard.model.kinds}):
        work = layer_work(shard, kind)
        expected = layer_forward_flops(shard.model, 2048, kind).total * 2048
        assert float(work.forward.flops) == pytest.approx(expected, rel=1e-12)
        assert float(work.backward.flops) == pytest.approx(2 * expected, rel=1e-12)


@pytest.mark.parametrize("name", ["llama3-8b", "gpt3-175b", "deepseek-v2"])
def test_product_flops_of_the_head_equal_those_of_the_model(name: str) -> None:
    shard = shard_of(name)
    assert float(head_work(shard).forward.flops) == pytest.approx(
        head_forward_flops(shard.model, 2048).total * 2048, rel=1e-12
    )


@given(st.sampled_from([128, 1000, 4096]), st.sampled_from([0, 64, 512]))
def test_fused_attention_skips_masked_work(seq: int, window: int) -> None:
    shard = shard_of("llama3-8b", seq=seq, flash=True)
    core = attention_core(shard, window)
    visible = sum(min(q + 1, window or seq) for q in range(seq)) / seq
    executed = float(core.forward.flops) / (4 * seq * shard.model.attention.heads * shard.model.attention.head_dim)
    assert executed == pytest.approx(visible, rel=2.0 / min(window or seq, seq))
    assert float(core.backward.flops) == pytest.approx(2.5 * float(core.forward.flops), rel=1e-12)


@given(*(st.integers(1, 65536) for _ in range(3)))
def test_a_product_never_beats_the_roofline(m: int, n: int, k: int) -> None:
    seconds = float(Clock(H100, "bf16").matmul(m, n, k).matmul_s)
    assert seconds >= 2.0 * m * n * k / H100.peak("bf16")


@given(*(st.integers(1, 65536) for _ in range(3)), st.sampled_from(["h100-sxm", "a100-sxm-80gb", "b200", "mi300x"]))
def test_a_product_never_beats_the_memory_bandwidth(m: int, n: int, k: int, name: str) -> None:
    machine = device(name)
    seconds = float(Clock(machine, "bf16").matmul(m, n, k).matmul_s)
    assert seconds >= 2.0 * (m * k + k * n + m * n) / machine.memory_bandwidth_Bps * (1 - 1e-12)


@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 4096))
def test_larger_products_run_at_a_higher_rate(m: int, n: int, k: int) -> None:
    clock = Clock(H100, "bf16")
    rates = [2.0 * m * n * k * s**3 / float(clock.matmul(m * s, n * s, k * s).matmul_s) for s in (1, 2, 4)]
    assert rates == sorted(rates)


def test_tensor_parallel_ranks_share_the_products_evenly() -> None:
    recipe = Recipe(seq=2048, batch=8, flash_attention=False)
    described = model("gpt3-175b")
    whole, eighth = (
        layer_work(Shard(described, Layout(tp=tp).grid(), recipe, Clock(H100, "bf16")), DENSE).forward for tp in (1, 8)
    )
    assert float(whole.flops) == pytest.approx(8 * float(eighth.flops), rel=1e-12)
    assert float(eighth.device_s) > float(whole.device_s) / 8


def test_work_adds_scales_and_waits_for_the_host() -> None:
    work = Clock(H100, "bf16").stream(1e9, kernels=3)
    assert float((work + work).device_s) == pytest.approx(2 * float(work.device_s))
    assert float((work * 3).kernels) == 9
    assert np.asarray(work.seconds(1.0)) == 3.0


def test_a_format_that_the_device_lacks_is_named() -> None:
    with pytest.raises(UnknownName, match="bf16"):
        Clock(device("v100-sxm-32gb"), "bf16").matmul(1, 1, 1)


def test_ring_attention_pays_for_merging_its_partial_outputs() -> None:
    """As many tokens on a rank, whether of one whole sequence or of a half and a quarter of longer batches. Queries: as
    much as zeros, and three times for each part; keys and values joined."""
    described, clock = model("llama3-8b"), Clock(H100, "bf16")
    recipe = Recipe(seq=8192, batch=8)
    cores = [
        attention_core(Shard(described, Layout(cp=cp, micro_batch=cp).grid(), recipe, clock), 0) for cp in (1, 2, 4)
    ]
    attention = described.attention
    keys_B = 2.0 * 2 * 8192 * 2 * attention.kv_heads * attention.head_dim
    merges_B = [(cp > 1) * ((1.0 + 3.0 * cp) * 8192 * attention.out_width * 2.0 + keys_B) for cp in (1, 2, 4)]
    rate_Bps = H100.memory_bandwidth_Bps * H100.efficiency.stream_frac
    for core, merged_B in zip(cores, merges_B, strict=True):
        assert float(core.forward.stream_s - cores[0].forward.stream_s) == pytest.approx(merged_B / rate_Bps, abs=1e-15)
        assert float(core.forward.flops) == pytest.approx(float(cores[0].forward.flops), rel=1e-12)
    # Shorter sequences are slower, and parts without a mask are not.
    assert float(cores[0].forward.attention_s) < float(cores[1].forward.attention_s)
    assert float(cores[2].forward.attention_s) < 1.2 * float(cores[0].forward.attention_s)


@pytest.mark.parametrize("flash", [True, False])
def test_a_layer_launches_the_kernels_that_can_be_counted_by_hand(flash: bool) -> None:
    """A host that waits for every kernel adds its time once for each, in either direction."""
    work = layer_work(shard_of("llama3-8b", flash=flash), DENSE)
    around = {"qkv": 1, "output": 1, "rotary": 2, "norms": 2, "residuals": 2, "up and gate": 1, "down": 1, "silu": 1}
    core = {"attention": 1} if flash else {"scores": 1, "values": 1, "softmax": 1, "copy": 1}
    assert float(work.forward.kernels) == sum(around.values()) + sum(core.values())
    products = 4 if flash else 6
    # Every product has two gradients; those of q, k and v are copied together; two norms add up what blocks summed.
    assert float(work.backward.kernels) == float(work.forward.kernels) + products + 1 + 2
    launch_s = 1.0
    assert float(work.core.forward.seconds(launch_s, blocking=True)) == pytest.approx(
        float(work.core.forward.device_s) + sum(core.values()) * launch_s
    )


@pytest.mark.parametrize(("tp", "split"), [(1, False), (2, False), (2, True)])
def test_tokens_are_moved_to_their_experts_once_for_each_of_them(tp: int, split: bool) -> None:
    """Two permutations read and write T k h elements each, in either direction; tp shares them only with sequences."""
    described, recipe = model("mixtral-8x7b"), recipe_by(seq=4096, batch=64)
    grid = Layout(tp=tp, ep=4, dp=4, sequence_parallel=split).grid()
    shard = Shard(described, grid, recipe, Clock(H100, "bf16"))
    tokens = 4096 / (tp if split else 1)
    rows, width = 4096 * 2 / 2, 14336 / tp
    rest = shard.product(tokens, 8, 4096) + slot_work(shard, "gate", 2 * rows * width)
    rest += shard.product(rows, 2 * width, 4096, 2) + shard.product(rows, 4096, width, 2)
    factor = stack("megatron-te").elementwise_factor
    moved_s = factor * 4 * tokens * 2 * 4096 * 2.0 / (H100.memory_bandwidth_Bps * H100.efficiency.stream_frac)
    found = expert_work(shard)
    sides = (found.forward, rest.forward), (found.backward, rest.backward)
    for (whole, part), routed in zip(sides, find_way("router", "operations").kernels, strict=True):
        assert float(whole.device_s - part.device_s) == pytest.approx(moved_s, rel=1e-9)
        assert float(whole.kernels - part.kernels) == 4 + routed
        assert float(whole.flops) == float(part.flops)
