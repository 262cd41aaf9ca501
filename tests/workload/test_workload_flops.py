"""FLOPs: 2mnk sums, attention counted both ways, recomputation, and the conventions of papers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_strategies import transformers

from lockstep import workload
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.workload import (
    CONVENTIONS,
    EXPERTS,
    convention,
    convnet_forward_flops,
    forward_flops,
    keys_per_query,
    layer_forward_flops,
    parameters,
    training_flops,
)

SETTINGS = settings(max_examples=50, derandomize=True, deadline=None)


def gpt(layers=96, hidden=12288, heads=96, vocab=51200):
    shape = replace(workload.model("megatron-175b"), layers=layers, hidden=hidden, vocab=vocab)
    attention = replace(shape.attention, heads=heads, kv_heads=heads, head_dim=hidden // heads)
    return replace(shape, attention=attention, mlp=replace(shape.mlp, ffn=4 * hidden))


def test_flops_of_a_llama_layer_match_a_count_by_product():
    """Each product of m x k by k x n costs 2mnk; typed out for Llama 3 8B at 8192 tokens."""
    flops = layer_forward_flops(workload.model("llama3-8b"), 8192)
    assert flops.attention_projections == 2 * (4096 * 4096 + 2 * 4096 * 1024 + 4096 * 4096)
    assert flops.mlp == 2 * 3 * 4096 * 14336
    assert flops.attention_core == 2 * 8192 * 32 * 128 + 2 * 8192 * 32 * 128
    assert flops.head == flops.routed_experts == 0


def test_a_mixtral_layer_pays_for_two_experts():
    flops = layer_forward_flops(workload.model("mixtral-8x7b"), 1, EXPERTS)
    assert flops.routed_experts == 2 * 2 * 3 * 4096 * 14336
    assert flops.router == 2 * 4096 * 8


def test_latent_attention_counts_unequal_head_sizes():
    flops = layer_forward_flops(workload.model("deepseek-v3"), 4096, EXPERTS)
    assert flops.attention_core == 2 * 4096 * 128 * (192 + 128)
    assert flops.shared_experts == 2 * 3 * 7168 * 2048


@SETTINGS
@given(transformers(), st.integers(1, 200))
def test_matmuls_are_two_flops_per_active_matrix_element(model, seq):
    model = replace(model, mtp_layers=0)
    flops = forward_flops(model, seq)
    matrices = [weight for weight in workload.all_weights(model) if weight.is_matrix and weight.category != "head"]
    assert flops.total - flops.attention_core - flops.head == 2 * sum(weight.active_elems for weight in matrices)
    assert flops.head == 2 * model.hidden * model.vocab


@SETTINGS
@given(st.integers(1, 300), st.none() | st.integers(1, 400))
def test_causal_count_is_the_continuous_mean_of_the_visible_keys(seq, window):
    """Brute force: query i sees min(i+1, w) keys; the convention drops the half key of the diagonal."""
    exact = Fraction(sum(min(query + 1, window or seq) for query in range(seq)), seq)
    counted = keys_per_query(seq, window, True, "causal")
    assert abs(counted - float(exact)) <= 0.5
    assert keys_per_query(seq, window, True, "full") == min(seq, window or seq)
    assert counted <= keys_per_query(seq, window, True, "full")


def test_causal_without_window_is_exactly_half():
    assert keys_per_query(8192, None, True, "causal") == 4096
    assert keys_per_query(8192, 8192, True, "causal") == 4096
    assert keys_per_query(512, None, False, "causal") == 512


@SETTINGS
@given(transformers(), st.integers(1, 200))
def test_hardware_flops_are_never_below_model_flops(model, seq):
    none, selective, full = (training_flops(model, seq, recompute=mode) for mode in workload.RECOMPUTE)
    assert none.backward.total == 2 * none.forward.total
    assert none.hardware == none.model == selective.model == full.model
    assert none.hardware <= selective.hardware <= full.hardware <= 4 * full.forward.total
    again = training_flops(model, np.array([seq, seq, seq]), recompute=np.array([0, 1, 2]))
    assert list(again.hardware) == [none.hardware, selective.hardware, full.hardware]


@pytest.mark.parametrize("shape", [(48, 6144, 64), (96, 12288, 96), (105, 20480, 128), (128, 25600, 160)])
def test_counts_equal_the_closed_forms_on_gpt(shape):
    """Narayanan et al. 2021 eq. 3 recomputes all but the head; Korthikanti et al. 2022 eq. 7 nothing."""
    model = gpt(*shape)
    full = training_flops(model, 2048, recompute="full")
    assert full.model == pytest.approx(convention("megatron-model").per_token(model, 2048), rel=1e-12)
    assert full.hardware == pytest.approx(convention("megatron-full-recompute").per_token(model, 2048), rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "mfu", "hfu"),
    [((48, 6144, 64), 41.5, 43.7), ((96, 12288, 96), 51.4, 52.8), ((105, 20480, 128), 56.0, 57.0)],
)
def test_selective_convention_gives_the_papers_hfu(shape, mfu, hfu):
    """Korthikanti et al. 2022, table 5: MFU and HFU of the same run stand in the ratio of the two conventions."""
    model = gpt(*shape)
    named = [convention(name).per_token(model, 2048) for name in ("megatron-selective-recompute", "megatron-model")]
    assert mfu * named[0] / named[1] == pytest.approx(hfu, abs=0.11)


def test_six_n_and_palm_conventions_match_their_formulas():
    model = workload.model("palm-540b")
    counted = parameters(model).total
    assert convention("6n").per_token(model, 2048) == 6 * counted
    assert convention("palm").per_token(model, 2048) == 6 * counted + 12 * 118 * 48 * 256 * 2048
    # Everything but the embedding table and norms is in a matrix, and the table is tied to the head.
    assert training_flops(model, 2048).model == pytest.approx(convention("palm").per_token(model, 2048), rel=1e-4)


def test_conventions_broadcast_and_are_named():
    model, seqs = workload.model("gpt3-175b"), np.array([1024, 2048])
    for name, each in CONVENTIONS.items():
        assert list(each.per_token(model, seqs)) == [each.per_token(model, 1024), each.per_token(model, 2048)]
        assert each.name == name
        assert each.source
    with pytest.raises(UnknownName, match="did you mean palm"):
        convention("plam")


def test_prediction_modules_count_as_work():
    model = workload.model("deepseek-v3")
    with_it, without = forward_flops(model, 4096), forward_flops(replace(model, mtp_layers=0), 4096)
    layer = layer_forward_flops(model, 4096, EXPERTS).total
    assert with_it.total - without.total == layer + 4 * 7168**2 + 2 * 7168 * 129280


def test_resnet50_has_4_09_gmac():
    """torchvision documents 4.09 GFLOPS (multiply-accumulates) for ResNet-50, 1.81 for ResNet-18, 11.51 for 152."""
    for name, gmac in (
        ("resnet50", 4.09),
        ("resnet18", 1.81),
        ("resnet34", 3.66),
        ("resnet101", 7.80),
        ("resnet152", 11.51),
    ):
        assert round(convnet_forward_flops(workload.model(name)) / 2e9, 2) == gmac


def test_unknown_counting_and_recompute_names_are_refused():
    with pytest.raises(UnknownName, match="counting"):
        forward_flops(workload.model("gpt2"), 8, counting="half")
    with pytest.raises(UnknownName, match="selective"):
        training_flops(workload.model("gpt2"), 8, recompute="selectiv")
    for code in (3, -1, 1.5, [0, 4]):
        with pytest.raises(BadInput, match="recompute"):
            training_flops(workload.model("gpt2"), 8, recompute=code)


def test_recomputed_latent_up_projections_are_counted() -> None:
    """Per token and layer of DeepSeek-V3: 2 x 128 heads x (512 x (128 + 128) + 1536 x (128 + 64))."""
    model = workload.model("deepseek-v3")
    found = training_flops(model, 4096, recompute="selective", modules=("layernorm", "mla_up_proj", "moe_act"))
    assert found.recomputed.total == 62 * 2 * 128 * (512 * 256 + 1536 * 192)
    blocks = training_flops(model, 4096, recompute="selective", modules=("mlp",)).recomputed
    assert blocks.total == blocks.mlp == 3 * 2 * 3 * 7168 * 18432  # three layers before those with experts
    assert (
        training_flops(
            workload.model("llama3-8b"), 4096, recompute="selective", modules=("mla_up_proj",)
        ).recomputed.total
        == 0
    )
