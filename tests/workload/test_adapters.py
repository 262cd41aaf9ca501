"""Adapters: counts that their software prints, how layouts cut them, what they save, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

import lockstep
from lockstep import workload
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Adapters, layer_activation_B, layer_weights, read_training, training_flops
from lockstep.describe.workload.piece import Piece
from lockstep.describe.workload.weight import Weight
from lockstep.price.layout import ADAPTER_B, Job, Layout, memory, trained_parameters
from lockstep.price.step import price_step
from lockstep.price.step.program import step_program
from lockstep.simulate.play import simulate
from recipes import recipe_by

ONE = cluster("dgx-a100-80gb", gpus=1)
LLAMA = workload.model("llama2-7b")


def trained(text: str) -> Adapters | None:
    return read_training(text).adapters


def total(text: str) -> int:
    adapters = trained(text)
    assert adapters is not None
    weights = adapters.weights(layer_weights(LLAMA))
    return LLAMA.layers * sum(weight.elems for weight in weights)


def job(train: str, **words: object) -> Job:
    recipe = recipe_by("hf-trainer", seq=2048, batch=8, train=train, **words)
    return Job(LLAMA, recipe, 1)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        # print_trainable_parameters of PEFT for LLaMA 7B, in its examples and in public logs.
        ("lora:r=8,targets=q_proj+v_proj", 4_194_304),
        ("lora:r=16,targets=q+v", 8_388_608),
        ("lora:r=16,targets=all-linear", 39_976_960),
        ("lora:r=64,targets=all-linear", 159_907_840),
    ],
)
def test_adapter_parameters_match_the_numbers_printed_by_peft(text: str, printed: int) -> None:
    assert total(text) == printed


def test_one_adapter_for_a_joined_product_is_smaller_and_faster_than_several() -> None:
    """r (in + q + k + v) parameters, where three adapters have r (3 in + q + k + v)."""
    hidden, ffn = LLAMA.hidden, 11008
    assert total("lora:r=8,targets=qkv") == LLAMA.layers * 8 * (hidden + 3 * hidden)
    assert total("lora:r=8,targets=gate_up") == LLAMA.layers * 8 * (hidden + 2 * ffn)
    apart, joined = (
        float(price_step(job(f"lora:r=8,targets={text}"), ONE, Layout().grid()).step_time_s)
        for text in ("q+k+v", "qkv")
    )
    assert joined < apart
    with pytest.raises(BadInput, match="qkv_proj covers q_proj"):
        read_training("lora:r=8,targets=qkv+q")


@pytest.mark.parametrize("half", [True, False])
def test_adapter_dropout_keeps_a_mask_and_in_half_precision_a_copy(half: bool) -> None:
    """Inputs of q and v are 4,096 wide; the copy in fp32 that PEFT makes is there without dropout too."""
    kept = {
        text: layer_activation_B(LLAMA, Piece(micro_batch=1, seq=1, adapters=trained(text), half_adapters=half))
        for text in ("lora:r=8,targets=q+v", "lora:r=8,targets=q+v,dropout=0.05")
    }
    plain, dropped = kept.values()
    assert float(dropped) - float(plain) == 2 * 4096 * (3 if half else 1)
    joint = [
        float(
            layer_activation_B(
                LLAMA, Piece(micro_batch=1, seq=1, adapters=trained(text), half_adapters=half, joint_qkv=True)
            )
        )
        for text in kept
    ]
    assert joint[1] - joint[0] == 4096 * (3 if half else 1)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_adapter_shards_add_up_except_for_replicated_matrices(tp: int) -> None:
    found = trained_parameters(
        job("lora:r=16"), Layout(tp=tp).grid(), job("lora:r=16").device_layers(1, Layout().grid().placement, ())[0]
    )
    hidden, ffn = 4096, 11008
    whole = 32 * 16 * (3 * hidden + 2 * hidden + 2 * hidden)  # A of q, k, v, gate and up; B of o and down
    cut = 32 * 16 * (3 * hidden + hidden + 2 * ffn + ffn)
    assert float(found.total_elems) == pytest.approx(whole + cut / tp)


def test_states_cover_only_adapters_and_the_base_has_its_storage_format() -> None:
    elems = total("lora:r=16")
    linear = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    rest = workload.parameters(LLAMA).total - linear
    for base, each_B in ((None, 2.0), ("int8", 1.0), ("nf4", 0.5 + 65 / 4096)):
        found = memory(job("lora:r=16", base=base), ONE, Layout(micro_batch=8).grid())
        assert float(found.optimizer_B) == 8 * elems
        assert float(found.parameters_B) == pytest.approx(2 * rest + each_B * linear + ADAPTER_B * elems, rel=1e-3)


def test_frozen_layers_keep_fewer_inputs() -> None:
    """Without an adapter on it, neither a block's input nor what its down product reads is needed again."""
    some, every = (
        layer_activation_B(
            LLAMA, Piece(micro_batch=1, seq=1, adapters=read_training(f"lora:r=16,targets={targets}").adapters)
        )
        for targets in ("q+v", "all-linear")
    )
    casts = 4 * (4 * (4096 + 16) + (11008 + 16))  # k, o, gate, up and down, each cast to fp32, and what A gives
    assert every - some == pytest.approx(casts)


def test_a_peft_adapter_keeps_only_its_own_cast() -> None:
    """PEFT's LoraLayer on a frozen product: its input converted to fp32, under autocast back for the product with A."""
    torch = pytest.importorskip("torch", reason="needs torch")
    tokens, width, rank, kept = 64, 32, 4, {}
    base, first, second = (
        torch.nn.Linear(*sides, bias=False) for sides in ((width, width), (width, rank), (rank, width))
    )
    base.bfloat16().requires_grad_(False)

    def keep(tensor: Any) -> Any:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    start = torch.zeros(tokens, width, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one), torch.autocast("cpu", torch.bfloat16):
        read = start * 1.0
        base(read) + second(first(read.to(torch.float32))) * 2.0
    weights_B = 2 * (width * width + 2 * width * rank)
    assert sum(kept.values()) - weights_B == 2 * tokens * (width + rank)
    one = Piece(micro_batch=1, seq=tokens, adapters=read_training(f"lora:r={rank},targets=all-linear").adapters)
    assert not one.needs_input_of(Weight("down", "mlp", (width, width), "tensor"))
    assert replace(one, half_adapters=True).needs_input_of(Weight("down", "mlp", (width, width), "tensor"))


def test_a_step_computes_no_gradient_of_frozen_weights() -> None:
    full, lora = (training_flops(LLAMA, 2048, training=read_training(text)) for text in ("full", "lora:r=16"))
    core = full.forward.attention_core
    assert full.model == 3 * full.forward.total
    assert lora.model == pytest.approx(2 * full.forward.total + core + 3 * 2 * total("lora:r=16"))
    layout = Layout(micro_batch=8).grid()
    # PEFT's own kernels around adapters take about as long as the products that are saved.
    jobs = [job(text, adapters="fused") for text in ("full", "lora:r=16")]
    steps = [float(price_step(one, ONE, layout).step_time_s) for one in jobs]
    assert 0.6 * steps[0] < steps[1] < 0.95 * steps[0]


@pytest.mark.parametrize(
    "layout", [Layout(dp=8, zero=3), Layout(dp=2, tp=2, pp=2, zero=1), Layout(dp=8, zero=2, recompute="full")]
)
def test_the_simulated_step_takes_the_priced_time(layout: Layout) -> None:
    asked = replace(job("lora:r=16", base="nf4"), devices=8)
    asked = replace(asked, recipe=asked.recipe.having(batch=32))
    machine = cluster("dgx-a100-80gb", gpus=8)
    priced = float(price_step(asked, machine, layout.grid()).step_time_s)
    assert simulate(step_program(asked, machine, layout)).makespan_s == pytest.approx(priced, rel=1e-9)


def test_only_adapter_gradients_are_reduced() -> None:
    machine, layout = cluster("aws-p4d:4", gpus=32), Layout(dp=32, zero=0)
    asked = {text: replace(job(text), devices=32) for text in ("full", "lora:r=16")}
    slow = [
        float(
            price_step(
                replace(one, recipe=one.recipe.having(batch=64, overlap_dp=False)), machine, layout.grid()
            ).dp_comm_s
        )
        for one in asked.values()
    ]
    assert slow[1] < 0.05 * slow[0]


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("adapters", UnknownName, "thing to train"),
        ("lora:r=0", BadInput, "r must be"),
        ("lora:dropout=1", BadInput, "dropout must be"),
        ("lora:dropout=many", BadInput, "many"),
        ("lora:rank=4", UnknownName, "setting of lora"),
        ("lora:targets=query", UnknownName, "target of lora"),
    ],
)
def test_invalid_training_methods_are_refused(text: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        recipe_by(seq=1, batch=1, train=text)


def test_a_quantised_base_requires_adapters() -> None:
    with pytest.raises(BadInput, match="--train lora"):
        recipe_by(seq=1, batch=1, base="nf4")


@pytest.mark.parametrize(
    ("name", "train", "why"),
    [
        ("resnet50", "lora:r=16", "none of the linear layers that adapters are put on"),
        ("gpt2", "lora:r=16,targets=gate_proj", "gpt2 has no gate_proj"),
    ],
)
def test_adapters_without_matching_targets_are_refused(name: str, train: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        lockstep.estimate(name, "dgx-a100-80gb", gpus=1, batch=8, train=train)


@pytest.mark.parametrize("base", [None, "nf4"])
def test_offloading_moves_the_frozen_base_and_updates_adapters_alone(base: str | None) -> None:
    """Host memory is the base as it is stored and 16 bytes per adapter element; its update follows the rank."""
    layout = Layout(micro_batch=8, zero=3, offload="parameters")
    host_B, update_s = {}, {}
    for rank in (8, 16, 32):
        asked = job(f"lora:r={rank}", base=base)
        host_B[rank] = float(memory(asked, ONE, layout.grid()).host_B)
        update_s[rank] = float(price_step(asked, ONE, layout.grid()).optimizer_s)
    elems = total("lora:r=8")
    assert host_B[16] - host_B[8] == pytest.approx(16 * elems)
    frozen_B = float(memory(job("lora:r=8", base=base), ONE, Layout(micro_batch=8).grid()).parameters_B) - 4 * elems
    assert host_B[8] == pytest.approx(frozen_B + 16 * elems)
    assert update_s[32] == pytest.approx(2 * update_s[16], rel=1e-6)
