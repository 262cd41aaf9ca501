"""PEFT's methods beside LoRA: what they keep and what passes, against bytes counted with peft; words and refusals.

The rows of peft_kept.jsonl were counted on CPU with peft 0.21.2, transformers 5.24.0 and torch 2.13.0: distinct
storages saved for the backward pass between the first layer's input and the last layer's output that are still there
after the forward pass, for each layer, parameters and buffers apart. Those of peft_dora_peak.jsonl are most bytes at
once in the forward pass of one linear layer with DoRA of rank 16, by a dispatch mode that follows storages; two tokens
pass it.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import workload
from lockstep.base.errors import BadInput, UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Piece, Transformer, layer_activation_B, read_training, training_flops
from lockstep.describe.workload.adapter_words import read_adapters
from lockstep.describe.workload.huggingface import config_of
from lockstep.describe.workload.method_rows import passing_B
from lockstep.price.layout import Job, Layout, Recipe, memory, trained_parameters
from lockstep.price.layout.kept import piece
from lockstep.price.step import price_step
from lockstep.price.step.program import step_program
from lockstep.simulate.play import simulate

HERE = Path(__file__)
KEPT, PEAKS = (
    [json.loads(line) for line in HERE.with_name(name).read_text("utf-8").splitlines()]
    for name in ("peft_kept.jsonl", "peft_dora_peak.jsonl")
)
STACKS = {"autocast": "trl", "bf16": "hf-trainer", "fp32": "hf-trainer"}
LLAMA, MACHINE = workload.model("llama3-8b"), cluster("dgx-h200", gpus=1)
METHODS = ("lora:r=16,dora=yes", "vera:r=256", "oft:block=32", "ia3", "prompt:tokens=20", "lora:r=16,rslora=yes")


def transformer(config: dict[str, Any]) -> Transformer:
    found = config_of(json.dumps(config), "config.json")
    assert isinstance(found, Transformer)
    return found


def kept_B(row: dict[str, Any]) -> float:
    """Bytes that a layer keeps, as Lockstep says it."""
    model, dtype = transformer(row["config"]), "fp32" if row["format"] == "fp32" else "bf16"
    sizes = {"seq": row["seq"], "batch": row["batch"], "train": row["train"], "dtype": dtype}
    recipe, grid = Recipe.by(STACKS[row["format"]], **sizes), Layout(micro_batch=row["batch"]).grid()
    return float(layer_activation_B(model, piece(recipe, grid, model), model.kinds[0]))


def job(train: str, stack: str = "trl", **words: Any) -> Job:
    return Job(LLAMA, Recipe.by(stack, **{"seq": 2048, "batch": 8, "train": train, **words}), 1)


@pytest.mark.parametrize("row", [one for one in KEPT if one["format"] == "autocast"], ids=lambda row: row["train"])
def test_a_layer_keeps_what_peft_keeps_under_autocast(row: dict[str, Any]) -> None:
    assert kept_B(row) == pytest.approx(row["kept_B"], rel=0.03)


@pytest.mark.parametrize("form", ["bf16", "fp32"])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_without_autocast_methods_differ_by_what_differs_in_peft(kind: str, form: str) -> None:
    """The old release of transformers that is priced without autocast repeats heads; differences from LoRA remain."""
    rows = [one for one in KEPT if one["format"] == form and one["config"]["model_type"] == kind]
    plain = next(one for one in rows if one["train"].startswith("lora") and "=yes" not in one["train"])
    for row in rows:
        ours, measured = kept_B(row) - kept_B(plain), row["kept_B"] - plain["kept_B"]
        assert ours == pytest.approx(measured, abs=0.01 * plain["kept_B"]), row["train"]


@pytest.mark.parametrize("row", PEAKS, ids=str)
def test_doras_norm_takes_what_it_takes_in_peft(row: dict[str, Any]) -> None:
    """A block's up and down projection alone: the larger one's dense matrices are there at once."""
    if row["dropout"]:
        return
    wide, element_B = max(row["inputs"], row["outputs"]), 4.0 if row["format"] == "fp32" else 2.0
    config = {"model_type": "llama", "vocab_size": 512, "hidden_size": min(row["inputs"], row["outputs"]),
              "intermediate_size": wide, "num_hidden_layers": 1, "num_attention_heads": 4}  # fmt: skip
    target = "up" if row["outputs"] > row["inputs"] else "down"
    adapters, model = read_adapters(f"lora:r=16,targets={target},dora=yes"), transformer(config)
    one = Piece(micro_batch=1, seq=2, element_B=element_B, own_casts=row["format"] == "autocast", adapters=adapters)
    assert float(passing_B(model, one, model.kinds[0])) == pytest.approx(row["peak_B"], rel=0.01)


def test_dora_with_dropout_keeps_every_matrix_once_more() -> None:
    """Each layer keeps its matrices in half precision under autocast, in fp32 without: 4 bytes of every element."""
    assert isinstance(LLAMA, Transformer)
    elems = workload.parameters(LLAMA).total - 2 * LLAMA.vocab * LLAMA.hidden
    for stack, each_B in (("trl", 2), ("hf-trainer", 4)):
        found = [
            float(memory(job(f"lora:r=16,dora=yes{dropout}", stack), MACHINE, Layout().grid()).activations_B)
            for dropout in ("", ",dropout=0.05")
        ]
        assert found[1] - found[0] > 0.99 * each_B * elems


def test_methods_change_memory_and_time_in_the_direction_they_must() -> None:
    grid = Layout(micro_batch=2, recompute="full").grid()
    step_s = {one: float(price_step(job(one), MACHINE, grid).step_time_s) for one in ("lora:r=16", "full", *METHODS)}
    assert step_s["lora:r=16,rslora=yes"] == step_s["lora:r=16"] < step_s["lora:r=16,dora=yes"]
    assert step_s["prompt:tokens=20"] < step_s["ia3"] < step_s["lora:r=16"]
    assert all(step_s[one] < step_s["full"] for one in ("vera:r=256", "oft:block=32", "ia3", "prompt:tokens=20"))


@pytest.mark.parametrize("train", METHODS)
def test_the_simulated_step_takes_the_priced_time(train: str) -> None:
    layout = Layout(micro_batch=2)
    priced = float(price_step(job(train), MACHINE, layout.grid()).step_time_s)
    assert simulate(step_program(job(train), MACHINE, layout)).makespan_s == pytest.approx(priced, rel=1e-9)


def test_a_prompt_lengthens_sequences_and_is_all_that_is_trained() -> None:
    """As many tokens more pass the model; the memory of what is kept grows by their share."""
    asked, longer = job("prompt:tokens=128"), job("prompt:tokens=1", seq=2048 + 127)
    assert float(trained_parameters(asked, Layout().grid(), Counter(LLAMA.kinds)).total_elems) == 128 * LLAMA.hidden
    grid = Layout().grid()
    kept_B = [float(memory(one, MACHINE, grid).activations_B) for one in (asked, longer)]
    assert kept_B[0] == pytest.approx(kept_B[1], rel=1e-3)
    assert asked.step_units == 8 * 2048
    steps = [float(price_step(one, MACHINE, grid).step_time_s) for one in (asked, longer)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)


def test_veras_frozen_matrices_are_there_once_and_are_not_trained() -> None:
    """One A as wide as the widest input, one B as the widest output, whatever the number of layers."""
    assert isinstance(LLAMA, Transformer)
    assert LLAMA.mlp is not None
    small, large = (memory(job(f"vera:r={rank}"), MACHINE, Layout().grid()) for rank in (256, 512))
    vectors_B = 4 * 256 * 7 * LLAMA.layers
    assert float(large.parameters_B - small.parameters_B) == 4 * 256 * 2 * LLAMA.mlp.ffn + vectors_B


def test_products_beside_frozen_matrices_have_fewer_gradients() -> None:
    """VeRA's A and B get none; a rotation in blocks has inputs x block multiply-accumulates for a token."""
    assert isinstance(LLAMA, Transformer)
    found = {one: training_flops(LLAMA, 2048, training=read_training(one)) for one in ("lora:r=64", "vera:r=64", "oft")}
    lora, vera = found["lora:r=64"], found["vera:r=64"]
    assert lora.adapters == vera.adapters
    assert lora.adapters is not None
    assert lora.model - vera.model == pytest.approx(float(lora.adapters))
    inputs = LLAMA.layers * (6 * LLAMA.hidden + 14336)
    assert found["oft"].adapters == 2 * 32 * inputs


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("prompt", BadInput, "prompt needs tokens"),
        ("prompt:targets=q_proj,tokens=4", UnknownName, "setting of prompt"),
        ("oft:block=32,blocks=8", BadInput, "block or blocks"),
        ("oft:block=0", BadInput, "block must be"),
        ("lora:r=8,dora=maybe", UnknownName, "value of dora"),
        ("lora:r=8,init=eva", UnknownName, "value of init"),
        ("lora:r=8,parameters=up_proj", UnknownName, "parameter of experts"),
        ("lora:r=8,parameters=down_proj,dropout=0.1", BadInput, "no dropout on parameters"),
        ("vera:r=8,lora:r=8", BadInput, "do not go together"),
        ("full,ia3", BadInput, "do not go together"),
    ],
)
def test_words_that_mean_nothing_are_refused(text: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        read_training(text)


@pytest.mark.parametrize(
    ("model", "train", "words", "why"),
    [
        ("mixtral-8x7b", "lora:r=8,dora=yes", {}, "peft cannot put DoRA on experts"),
        ("mixtral-8x7b", "lora:r=8,init=pissa", {}, "peft cannot put PiSSA on experts"),
        ("llama3-8b", "lora:r=8,parameters=down_proj", {}, "experts of llama have no down_proj"),
        ("gpt2", "oft", {}, "peft puts no OFT on the Conv1D"),
        ("llama3-8b", "lora:r=8,dora=yes", {"base": "nf4"}, "DoRA is not priced beside --base nf4"),
        ("llama3-8b", "vera", {"stack": "nemo-25"}, "nemo-25 has adapters of its own"),
        ("llama3-8b", "prompt:tokens=8", {"sample_tokens": 100}, "not priced with --sample-tokens"),
    ],
)
def test_what_peft_or_lockstep_cannot_do_is_refused(model: str, train: str, words: dict[str, Any], why: str) -> None:
    asked = {"stack": "trl", **words}
    with pytest.raises(BadInput, match=why):
        lockstep.estimate(model, "dgx-h100", gpus=1, batch=8, seq=512, train=train, **asked)


@pytest.mark.parametrize("train", ["ia3", "lora:r=16,dora=yes"])
def test_models_that_a_card_trains_by_a_method_are_found(train: str) -> None:
    """Neither a quantised base nor models on which PEFT refuses the method are in the way of the others."""
    found = lockstep.memory(cluster="rtx-4090:1", train=train)
    fits = [row for row in found.rows if row.fit is not None]
    assert fits
    assert {row.method for row in found.rows} >= {train}


def test_a_prompt_may_be_before_a_quantised_model_whose_layers_have_no_adapters() -> None:
    found = lockstep.estimate(
        "llama3-8b", "dgx-h100", gpus=1, batch=8, seq=512, train="prompt:tokens=8", base="nf4", stack="trl"
    )
    assert found.memory.parameters_B < 8e9
