"""Operations of a layer: every matrix in one product, and faults that lists written twice had."""

from __future__ import annotations

import pytest

from lockstep.describe.hardware import device
from lockstep.describe.workload import (
    LayerKind,
    Piece,
    Transformer,
    kept_tensors,
    layer_operations,
    layer_weights,
    model,
    names,
)
from lockstep.describe.workload.adapter_words import read_adapters
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import core_work, product_pairs
from lockstep.price.kernels.operations import CORES, priced
from lockstep.price.kernels.recompute import modules_again
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Layout
from recipes import recipe_by

TEXT = [name for name in names() if isinstance(model(name), Transformer)]
H100 = device("h100-sxm")


def shard(name: str, **words: object) -> Shard:
    found = model(name)
    assert isinstance(found, Transformer)
    recipe = recipe_by(seq=2048, batch=8, **words)
    return Shard(found, Layout(recompute="selective").grid(), recipe, Clock.of(H100, recipe))


@pytest.mark.parametrize("name", TEXT)
def test_every_matrix_that_rows_are_multiplied_by_is_in_one_product(name: str) -> None:
    described = model(name)
    assert isinstance(described, Transformer)
    for kind in {*described.kinds}:
        products = [one.weight for one in layer_operations(described, kind) if one.does == "product"]
        wanted = [one for one in layer_weights(described, kind) if one.is_matrix and not one.per_sequence]
        left = [one for one in wanted if one not in products]
        assert len(products) == len({*products})
        assert [(one.name, one.category) for one in left] in ([], [("shared gate", "router")])


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "t5-3b", "qwen3-next-80b-a3b"])
def test_flops_of_products_are_twice_rows_times_parameters(name: str) -> None:
    one = shard(name)
    for kind in {*one.model.kinds}:
        operations = [each for each in layer_operations(one.model, kind) if each.does not in CORES]
        used = sum(each.weight.active_elems for each in operations if each.weight)
        assert float(priced(one, operations).forward.flops) == pytest.approx(2.0 * 2048 * used)


def test_a_layer_without_positions_runs_no_rotary_embedding_again() -> None:
    """smollm3-3b turns no queries and keys in every fourth layer."""
    one = shard("smollm3-3b", recompute_modules=("op",))
    turned, bare = (modules_again(one, kind, core_work(one, kind)) for kind in (LayerKind(), LayerKind(mixer="nope")))
    rotary = [each for each in layer_operations(one.model, LayerKind()) if each.does == "rotary"]
    assert float(turned.stream_s - bare.stream_s) == pytest.approx(float(priced(one, rotary).forward.stream_s))
    assert float(turned.matmul_s) == float(bare.matmul_s)


def test_the_product_that_begins_gated_attention_makes_the_gate_too() -> None:
    one = shard("qwen3-next-80b-a3b")
    attention, kind = one.model.attention, LayerKind("experts")
    assert attention.gated
    columns = (2 * attention.heads + 2 * attention.kv_heads) * attention.head_dim
    assert float(product_pairs(one, kind)[0][0]) == float(one.clock.matmul(2048, columns, one.model.hidden).matmul_s)


def test_recomputed_expert_activations_exclude_missing_shared_experts() -> None:
    one, kind = shard("mixtral-8x7b", recompute_modules=("moe_act",)), LayerKind("experts")
    assert float(modules_again(one, kind, core_work(one, kind)).kernels) == 1.0


@pytest.mark.parametrize(("joint", "products"), [(True, 5), (False, 7)])
def test_separate_products_are_one_kernel_per_matrix(joint: bool, products: int) -> None:
    """Of seven matrices, three are joined, or three and two."""
    one = shard("llama3-8b", own_projections=True, joint_qkv=joint)
    operations = [each for each in layer_operations(one.model, LayerKind()) if each.does == "product"]
    apart = priced(one, operations).forward
    together = priced(shard("llama3-8b"), operations).forward
    assert float(apart.kernels) == products
    assert float(together.kernels) == 4
    assert float(apart.flops) == pytest.approx(float(together.flops))
    assert float(apart.matmul_s) > float(together.matmul_s)


def test_models_with_fused_matrices_run_one_product_in_every_software() -> None:
    one = shard("gpt2", own_projections=True)
    operations = [each for each in layer_operations(one.model, LayerKind()) if each.does == "product"]
    assert float(priced(one, operations).forward.kernels) == 4


def test_repeated_keys_are_sharded_like_queries() -> None:
    """Llama 3 8B has 8 key heads: over 16 ranks each has the keys of its two queries, and a norm before reads one."""
    described = model("llama3-8b")
    assert isinstance(described, Transformer)
    for tp in (1, 8, 16):
        rows = kept_tensors(described, Piece(micro_batch=1, seq=4096, tp=tp, repeated_heads=True))
        sizes_B = {row.name: float(row.size_B) for row in rows}
        assert sizes_B["key"] == sizes_B["value"] == sizes_B["query"]
    normed = model("qwen3-8b")
    assert isinstance(normed, Transformer)
    apart, repeated = (
        {row.name: float(row.size_B) for row in kept_tensors(normed, Piece(micro_batch=1, seq=4096, repeated_heads=on))}
        for on in (False, True)
    )
    assert apart["key norm input"] == repeated["key norm input"]


def test_a_frozen_matrix_without_an_adapter_keeps_no_input() -> None:
    """Adapters that share what attention's queries read are none on a recurrent mixer's matrices."""
    described = model("qwen3-next-80b-a3b")
    assert isinstance(described, Transformer)
    adapters = read_adapters("lora:r=8,targets=q_proj")
    one = Piece(micro_batch=1, seq=4096, adapters=adapters, half_adapters=True)
    kept = {kind.mixer: {row.name for row in kept_tensors(described, one, kind)} for kind in described.kinds}
    assert "attention input" in kept["attention"]
    assert "attention input" not in kept["recurrent"]


@pytest.mark.parametrize(
    ("name", "norms", "others"),
    [("llama3-8b", 2, 0), ("gemma2-9b", 4, 0), ("falcon-7b", 1, 0), ("olmo2-7b", 2, 2), ("qwen3-8b", 2, 2),
     ("t5-3b", 3, 0), ("deepseek-v3", 2, 2), ("deepseek-v2-lite", 2, 1)],
)  # fmt: skip
def test_a_layer_runs_all_its_norms(name: str, norms: int, others: int) -> None:
    """Of hidden width, and of queries and keys or of latents, each a kernel forward and two backward."""
    one = shard(name)
    kind = max({*one.model.kinds}, key=lambda each: each.crosses)
    for does, count in (("norm", norms), ("head norms", others)):
        found = priced(one, [each for each in layer_operations(one.model, kind) if each.does == does])
        assert (float(found.forward.kernels), float(found.backward.kernels)) == (count, 2 * count)


def test_low_rank_products_and_their_norms_see_the_tokens_of_a_rank() -> None:
    """With sequence parallelism tensor-parallel ranks gather what the norms of latents give."""
    found = model("deepseek-v3")
    assert isinstance(found, Transformer)
    recipe = recipe_by(seq=2048, batch=8)
    together, apart = (
        Shard(found, Layout(tp=8, sequence_parallel=on).grid(), recipe, Clock.of(H100, recipe)) for on in (False, True)
    )
    down = [each for each in layer_operations(found, LayerKind()) if each.name in ("query down", "key-value down")]
    norms = [each for each in layer_operations(found, LayerKind()) if each.name == "norms of latents"]
    assert float(priced(together, down).forward.flops) == 8 * float(priced(apart, down).forward.flops)
    assert float(priced(together, norms).forward.stream_s) == 8 * float(priced(apart, norms).forward.stream_s)


def test_a_gate_scales_the_output_of_shared_experts() -> None:
    """Qwen 1.5's: three passes over the stream forward and five backward."""
    one = shard("qwen1.5-moe-a2.7b")
    kind = LayerKind("experts")
    gate = [each for each in layer_operations(one.model, kind) if each.name == "gate of shared experts"]
    wanted = one.elementwise(2048 * one.model.hidden, 3.0, 5.0)
    assert priced(one, gate) == wanted
