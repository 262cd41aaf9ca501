"""Tensors of fine-tuning steps by law; sizes as transformers 5.24, peft 0.21.2 and trl 1.16.0 hold them.

Held to measured steps as a whole in test_real_steps.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep import workload
from lockstep.decide.planner.utilisation import layout_flops
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import Stack, stack
from lockstep.describe.workload import Piece, TrainingFlops, Transformer, kept_tensors, layer_weights
from lockstep.describe.workload.adapter_words import read_adapters
from lockstep.describe.workload.huggingface import config_of
from lockstep.describe.workload.passing import passing_gradient_B
from lockstep.price.layout import FRAMEWORK_B, SLACK_FRAC, Job, Layout, Memory, Recipe, memory
from lockstep.price.layout.kept import piece
from lockstep.price.layout.moments import casts
from lockstep.price.layout.trained import trained_parameters

MACHINE = cluster("dgx-h200", gpus=1)
MODEL, MIXTRAL = workload.model("llama3.2-1b"), workload.model("mixtral-8x7b")
assert isinstance(MODEL, Transformer)
assert isinstance(MIXTRAL, Transformer)
PARAMETERS = workload.parameters(MODEL).total


def of(software: str | Stack = "trl", recompute: str = "full", model: Transformer = MODEL, **words: object) -> Memory:
    recipe = Recipe.by(software, **{"seq": 512, "batch": 2, **words})
    return memory(Job(model, recipe, 1), MACHINE, Layout(micro_batch=2, recompute=recompute).grid())


@pytest.mark.parametrize("software", ["trl", "hf-trainer-5"])
def test_products_in_fp32_read_the_parameters_themselves(software: str) -> None:
    found = of(software, dtype="fp32")
    assert float(found.parameters_B) == 4 * PARAMETERS
    # Nor are casts of them among the activations: recomputed layers keep their inputs.
    assert float(found.activations_B) < 4 * MODEL.layers * 2 * 512 * MODEL.hidden * 1.01


def test_the_reference_of_a_model_in_fp32_is_in_fp32_too() -> None:
    assert float(of(dtype="fp32", train="dpo").parameters_B) == 2 * 4 * PARAMETERS


@pytest.mark.parametrize(("dropout", "copies"), [("", 1), (",dropout=0.1", 0)])
def test_adapters_on_fp32_read_what_the_matrix_reads(dropout: str, copies: int) -> None:
    """PEFT casts to fp32, which is no copy here; a dropout makes one, and the matrix is frozen."""
    some = Piece(micro_batch=1, seq=512, element_B=4.0, adapters=read_adapters(f"lora:r=8{dropout}"))
    found = {one.name: float(one.size_B) for one in kept_tensors(MODEL, some)}
    assert ("mlp down input" in found) == bool(copies)
    assert MODEL.mlp is not None
    each_B = 8 * 4 + (0 if copies else MODEL.mlp.ffn * (4 + 1))
    assert found["down adapter input"] == 512 * each_B


@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_frozen_fp32_weights_under_autocast_have_casts_that_wait(targets: str) -> None:
    """TRL loads in fp32 and trains in bf16 by itself: each product's cast of its weight waits for its input's gradient.

    Where layers run again, one layer's casts are there at a time, and nothing of the others.
    """
    words = {"train": f"lora:r=8,targets={targets}", "parameter_B": 4.0}
    whole, narrow = (of(recompute="none", **{**words, "parameter_B": each}) for each in (4.0, 2.0))
    again = of(recompute="full", **words)
    matrices_B = 2 * sum(one.elems for one in layer_weights(MODEL, MODEL.kinds[0]) if one.is_matrix) * MODEL.layers
    more_B = float(whole.activations_B - narrow.activations_B)
    # The stream is fp32 too: what a norm reads is that, where of another it is a copy as large.
    assert more_B == matrices_B
    assert float(again.activations_B) < matrices_B / 4


def test_products_of_experts_that_are_one_parameter_are_not_cast() -> None:
    """transformers 5.24, integrations/moe.py: `grouped_mm` is not autocast-enabled, so that experts run in fp32."""
    found = {}
    for wide in (False, True):
        some = Piece(micro_batch=1, seq=512, own_casts=wide, wide_stream=wide)
        found[wide] = {one.name: float(one.size_B) for one in kept_tensors(MIXTRAL, some, MIXTRAL.kinds[0])}
    for name in ("expert gate", "expert up", "expert input", "expert down input"):
        assert found[True][name] == 2 * found[False][name]


def test_what_frozen_experts_read_does_not_wait() -> None:
    some = Piece(micro_batch=1, seq=512, adapters=read_adapters("lora:r=8,targets=attention").of("mixtral"))
    kept = {one.name for one in kept_tensors(MIXTRAL, some, MIXTRAL.kinds[0])}
    assert not kept & {"expert input", "expert down input"}
    summed = Piece(micro_batch=1, seq=512, adapters=read_adapters("lora:r=8").of("mixtral"))
    assert {"expert input", "expert down input"} <= {
        one.name for one in kept_tensors(MIXTRAL, summed, MIXTRAL.kinds[0])
    }


def test_adafactor_takes_two_more_of_its_largest_tensor() -> None:
    """transformers 5.24, optimization.py: `update = grad**2 + eps`; of half-precision tensors two fp32 copies too."""
    table, untied = MODEL.vocab * MODEL.hidden, {"model": replace(MODEL, tied_embeddings=False), "seq": 16}
    wide = of("hf-trainer-5", optimizer="adafactor", **untied)
    half = of("hf-trainer", optimizer="adafactor-no-master", gradient_B=2.0, **untied)
    for found, each_B in ((wide, 8), (half, 16)):
        assert found.when.startswith("at its fullest moment, the update")
        assert float(found.buffers_B) - FRAMEWORK_B == pytest.approx(
            each_B * table + SLACK_FRAC * _used_B(found), rel=1e-9
        )


def test_the_update_in_one_kernel_holds_nothing_besides() -> None:
    """The Trainer's default is adamw_torch_fused; adamw_torch runs in multi-tensor kernels, which hold a root."""
    software = stack("hf-trainer-5")
    fused, several = (of(software.having(foreach_update=each), seq=16) for each in (False, True))
    assert float(several.total_B - fused.total_B) == pytest.approx(
        4 * PARAMETERS * (1 + SLACK_FRAC) - float(fused.buffers_B - FRAMEWORK_B) + SLACK_FRAC * _used_B(fused), rel=0.05
    )


def test_gradients_of_a_tied_table_are_three_before_they_are_one() -> None:
    """autograd adds what the head gives to what the look-up gives, and accumulates the sum."""
    tied = of(recompute="full", seq=16, software="hf-trainer-5")
    untied = of(recompute="full", seq=16, software="hf-trainer-5", model=replace(MODEL, tied_embeddings=False))
    table_B = 4 * MODEL.vocab * MODEL.hidden
    assert _used_B(tied) - 16 * PARAMETERS == pytest.approx(2 * table_B, rel=0.01)
    assert _used_B(untied) - 16 * (PARAMETERS + table_B / 4) < 0.01 * table_B


def _used_B(found: Memory) -> float:
    """Bytes of tensors."""
    return (float(found.total_B) - FRAMEWORK_B) / (1 + SLACK_FRAC)


def _flops(
    model: Transformer, software: str | Stack = "trl", recompute: str = "none", **words: object
) -> TrainingFlops:
    recipe = Recipe.by(software, **{"seq": 512, "batch": 2, **words})
    layout = Layout(micro_batch=2, recompute=recompute)
    return layout_flops(Job(model, recipe, 1), model, layout, "full")


def test_a_head_in_tiles_runs_again() -> None:
    """TRL 1.16.0, chunked_logprob.py: backward makes each tile of logits once more."""
    tiled, whole = _flops(MODEL), _flops(MODEL, stack("trl").having(cross_entropy="eager"))
    assert tiled.hardware - whole.hardware == 2 * MODEL.hidden * MODEL.vocab
    assert tiled.model == whole.model


def test_experts_with_adapters_have_gradients_of_their_frozen_matrices() -> None:
    """PEFT multiplies by W + B A: the gradient of the sum is one of W's shape, and the sum is made twice in a pass."""
    found = _flops(MIXTRAL, train="lora:r=8")
    assert found.backward.routed_experts == 2 * found.forward.routed_experts
    assert found.backward.attention_projections == found.forward.attention_projections
    each = next(one for one in layer_weights(MIXTRAL, MIXTRAL.kinds[0]) if one.name == "expert up")
    # Gate and up at twice the rank, down at the rank: five ranks of a matrix; two sums and two products backward.
    fold = 2 * each.elems * 5 * 8 * MIXTRAL.layers
    assert found.recomputed.routed_experts == pytest.approx((2 + 2) * fold / (2 * 512))


def test_the_last_product_of_a_layer_is_not_run_again() -> None:
    """torch/utils/checkpoint.py stops where all that is kept is there: before down, unless an adapter reads there."""
    forward = _flops(MODEL).forward
    down = 2 * MODEL.layers * next(one.elems for one in layer_weights(MODEL, MODEL.kinds[0]) if one.name == "down")
    again = _flops(MODEL, recompute="full").recomputed
    assert forward.mlp - again.mlp == down
    assert _flops(MODEL, recompute="full", train="lora:r=8").recomputed.mlp >= forward.mlp


def test_gpt2_has_the_function_of_its_class() -> None:
    """transformers 5.24, configuration_gpt2.py: gelu_new where a file names none, which is written out."""
    text = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 512}'
    found = config_of(text, "config.json")
    assert isinstance(found, Transformer)
    assert found.mlp is not None
    assert found.mlp.activation == "gelu_new"


def test_values_of_a_joint_product_keep_queries_and_keys_alive() -> None:
    """Phi-3 slices what one linear layer gives, and joins heads anew (modeling_phi3.py); Llama's layers are three."""
    named = {}
    for kind in ("phi3", "llama"):
        model = replace(MODEL, model_type=kind)
        one = piece(Recipe.by("trl", seq=512, batch=1), Layout().grid(), model)
        named[kind] = {kept.name for kept in kept_tensors(model, one)}
    before = {"queries before rotary embedding", "keys before rotary embedding"}
    assert named["phi3"] - named["llama"] == before | {"attention output by token"}


def _kept(model: Transformer, **words: object) -> dict[str, float]:
    one = piece(Recipe.by("hf-trainer", seq=512, batch=1, **words), Layout().grid(), model)
    return {kept.name: float(kept.size_B) for kept in kept_tensors(model, one, model.kinds[0])}


def test_a_router_in_fp32_keeps_a_copy_of_what_it_reads() -> None:
    """transformers 5.24, modeling_deepseek_v3.py: F.linear(hidden_states.type(torch.float32), ...)."""
    apart, wide = (_kept(replace(MIXTRAL, model_type=kind)) for kind in ("mixtral", "deepseek_v3"))
    assert wide["router input in fp32"] == 512 * MIXTRAL.hidden * 4
    assert "router input in fp32" not in apart


def test_norms_of_gemma_keep_what_they_multiply_in_fp32() -> None:
    """transformers 5.24, modeling_gemma3.py: `output * (1.0 + self.weight.float())` before it is half precision."""
    llama, gemma = (_kept(replace(MODEL, model_type=kind)) for kind in ("llama", "gemma3_text"))
    name = "norms: normed values"
    assert gemma[name] == 2 * llama[name] == 2 * 512 * MODEL.hidden * 4


@pytest.mark.parametrize(("kind", "each_B"), [("qwen3_moe", 3 * 2), ("deepseek_v3", 3 * 4 + 2)])
def test_fine_experts_are_fullest_while_routing_weights_get_gradients(kind: str, each_B: int) -> None:
    """transformers 5.24, integrations/moe.py: two products and rows put back, in the format of the weights."""
    model = workload.model("qwen3-30b-a3b")
    assert isinstance(model, Transformer)
    assert model.experts is not None
    model = replace(model, model_type=kind)
    one = piece(Recipe.by(stack("trl").having(autocast=False), seq=512, batch=1), Layout().grid(), model)
    stream_B = 512 * model.hidden * 2
    found_B = float(passing_gradient_B(model, one, model.kinds[0])) - stream_B
    assert found_B == 512 * model.experts.top_k * model.hidden * each_B


FP32_MOMENTS = {"adamw": 8, "adamw-no-master": 8, "lion": 4, "sgd-momentum": 4, "sgd": 0}
"""Bytes of moments beside an fp32 parameter."""


@pytest.mark.parametrize(("base", "cast"), [("nf4", True), ("int8", True), (None, False), ("fp8", False)])
@pytest.mark.parametrize(
    ("optimizer", "moments_B"), [("adamw", 4), ("adamw-no-master", 8), ("lion", 2), ("sgd-momentum", 2), ("sgd", 0)]
)
def test_trl_casts_adapters_above_a_base_of_bitsandbytes(
    base: str | None, cast: bool, optimizer: str, moments_B: float
) -> None:
    """Run with trl 1.16.0 and bitsandbytes 0.50.2: adapters are bf16, and so torch's moments; those of
    paged_adamw_32bit and its kind stay fp32, which `-no-master` says."""
    words = {"optimizer": optimizer, "base": base}
    apart = {rank: of("hf-trainer-5", train=f"lora:r={rank},targets=all-linear", **words) for rank in (8, 16)}
    adapters = 2 * float(apart[16].parameters_B - apart[8].parameters_B) / 4
    trl = of("trl", train="lora:r=16,targets=all-linear", **words)
    assert float(apart[16].parameters_B - trl.parameters_B) == (2 * adapters if cast else 0)
    assert float(trl.optimizer_B) == adapters * (moments_B if cast else FP32_MOMENTS[optimizer])


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize(("software", "base"), [("hf-trainer-5", None), ("hf-trainer-5", "nf4"), ("trl", "nf4")])
def test_autocast_casts_adapters_that_are_in_fp32(software: str, base: str | None, recompute: str) -> None:
    """Run with peft 0.21.2 above nf4 (tests/real): what a layer keeps has two bytes for every adapter's element."""
    recipe = Recipe.by(software, seq=512, batch=2, train="lora:r=8,targets=all-linear", base=base)
    job, grid = Job(MODEL, recipe, 1), Layout(micro_batch=2, recompute=recompute).grid()
    held = job.device_layers(grid.stages, grid.placement, grid.split)[0]
    elems = float(trained_parameters(job, grid, held).total_elems) * (software != "trl")
    found = casts(job, grid, held, last=True)
    layers = 2.0 * elems if recompute == "none" else 0.0
    assert float(found.kept_B) == layers
    assert float(found.passed_B) == 2.0 * elems - layers
    assert float(found.layer_B) == (2.0 * elems - layers) / MODEL.layers
