"""Parameter counts: categories, layers, active parts, and how tensor and expert parallelism cut them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_strategies import transformers

from lockstep import workload
from lockstep.describe.workload import (
    EXPERTS,
    all_weights,
    embedding_weights,
    head_weights,
    layer_weights,
    parameters,
    rank_parameters,
)

SETTINGS = settings(max_examples=50, derandomize=True, deadline=None)


@SETTINGS
@given(transformers())
def test_layers_embedding_and_head_add_up_to_the_total(model):
    counted = parameters(model)
    edges = sum(weight.elems for weight in (*embedding_weights(model), *head_weights(model)))
    dense, expert = model.num_dense_layers, model.num_expert_layers
    assert dense + expert == model.layers
    assert counted.total == edges + dense * counted.per_dense_layer + expert * counted.per_expert_layer
    assert counted.active <= counted.total
    assert (counted.active == counted.total) == (not model.experts or model.experts.top_k == model.experts.experts)
    assert counted.to_dict()["total"] == counted.total


@SETTINGS
@given(transformers(), st.sampled_from([1, 2, 4, 8]))
def test_all_ranks_together_hold_everything_at_least_once(model, tp):
    """Sum over ranks = total + what is replicated: (tp-1) times uncut tensors, and key-value heads beyond kv_heads."""
    for weight in all_weights(model):
        ranks = tp * weight.per_rank_elems(tp)
        if weight.cut == "none":
            expected = tp * weight.elems
        elif weight.cut == "kv":
            expected = weight.elems * tp / min(tp, model.attention.kv_heads)
        elif weight.cut == "vocab":
            rows = -(-weight.shape[0] // tp) * tp
            expected = weight.elems // weight.shape[0] * rows
        else:
            expected = weight.elems
        assert ranks == expected >= weight.elems


@SETTINGS
@given(transformers())
def test_a_single_rank_holds_every_trained_parameter(model):
    counted = parameters(model)
    alone = rank_parameters(all_weights(model))
    assert alone.total_elems == counted.total - counted.untrained
    assert alone.expert_elems == counted.by_category["routed_experts"]


@SETTINGS
@given(transformers(), st.lists(st.sampled_from([1, 2, 4]), min_size=3, max_size=3))
def test_arrays_price_like_scalars(model, degrees):
    weights = all_weights(model)
    tp, ep = np.array(degrees), np.array(degrees[::-1])
    many = rank_parameters(weights, tp, ep, 1).total_elems
    for index in range(3):
        assert (
            np.broadcast_to(many, 3)[index] == rank_parameters(weights, int(tp[index]), int(ep[index]), 1).total_elems
        )


def test_expert_parallelism_cuts_only_routed_experts():
    weights = all_weights(workload.model("deepseek-v3"))
    alone, cut = rank_parameters(weights), rank_parameters(weights, ep=64)
    assert cut.expert_elems * 64 == alone.expert_elems
    assert cut.matrix_elems == alone.matrix_elems
    assert (alone * 2).total_elems == (alone + alone).total_elems


def test_keys_and_values_are_replicated_when_heads_run_out():
    key = next(weight for weight in layer_weights(workload.model("llama3-70b")) if weight.name == "key")
    assert key.per_rank_elems(8) == key.per_rank_elems(16) == 8192 * 128
    assert key.per_rank_elems(4) == 2 * 8192 * 128


def test_hybrid_models_have_dense_and_expert_layers():
    model = workload.model("deepseek-v3")
    assert model.expert_layers == (False,) * 3 + (True,) * 58
    every_second = workload.Experts(experts=8, top_k=1, ffn=8, every=2)
    assert [every_second.in_layer(layer) for layer in range(4)] == [False, True, False, True]
    skipped = workload.Experts(experts=8, top_k=1, ffn=8, dense_layers=(1,))
    assert [skipped.in_layer(layer) for layer in range(3)] == [True, False, True]


def test_wrong_kind_of_layer_is_refused():
    with pytest.raises(ValueError, match="no experts"):
        layer_weights(workload.model("gpt2"), EXPERTS)
    with pytest.raises(ValueError, match="no dense"):
        layer_weights(workload.model("mixtral-8x7b"))


def test_non_embedding_parameters_match_kaplans_count():
    """Kaplan et al. 2020, table 1: N = 12 L h^2 without embeddings, up to biases and norms."""
    counted = parameters(workload.model("gpt3-175b"))
    assert counted.non_embedding == pytest.approx(12 * 96 * 12288**2, rel=1e-3)
