"""Adapters against PEFT: trained parameters to the last one, what experts that are one parameter take, and 4 bits.

The rows of peft_trained.jsonl were counted with peft 0.21.2 and transformers 5.24.0: the parameters that require
gradients of what `get_peft_model` makes of a model of that configuration; of peft_trained_4.jsonl with peft 0.17.1 and
transformers 4.57.1.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lockstep import workload
from lockstep.base.errors import UnknownName
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Adapters, Piece, Transformer, kept_tensors, layer_weights
from lockstep.describe.workload.adapter_words import read_adapters
from lockstep.describe.workload.huggingface import config_of
from lockstep.describe.workload.modules import modules_of
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import head_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, Recipe, memory, trained_parameters


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(__file__).with_name(name).read_text("utf-8").splitlines()]


ROWS = _rows("peft_trained.jsonl")
MIXTRAL, MACHINE = workload.model("mixtral-8x7b"), cluster("dgx-h200", gpus=1)


def job(model: Any, train: str, stack: str = "trl", **words: Any) -> Job:
    return Job(model, Recipe.by(stack, **{"seq": 2048, "batch": 1, "train": train, **words}), 1)


def trained(asked: Job) -> float:
    assert isinstance(asked.model, Transformer)
    return float(trained_parameters(asked, Layout().grid(), Counter(asked.model.kinds)).total_elems)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['config']['model_type']} {row['train']}")
def test_trained_parameters_are_those_of_peft(row: dict[str, Any]) -> None:
    assert trained(job(config_of(json.dumps(row["config"]), "config.json"), row["train"])) == row["trained"]


@pytest.mark.parametrize("row", _rows("peft_trained_4.jsonl"), ids=lambda row: row["config"]["model_type"])
def test_trained_parameters_are_those_of_peft_on_transformers_4(row: dict[str, Any]) -> None:
    """Where experts are linear layers, each has adapters of its own."""
    asked = job(config_of(json.dumps(row["config"]), "config.json"), row["train"], "hf-trainer")
    assert trained(asked) == row["trained"]


def test_all_linear_layers_of_mixtral_are_as_many_parameters_as_peft_trains() -> None:
    """Counted on the whole configuration; gate and up are one matrix at twice the rank, and the router is adapted."""
    assert trained(job(MIXTRAL, "lora:r=16")) == 359_665_664
    assert trained(job(MIXTRAL, "lora:r=16", "hf-trainer")) == 242_225_152
    # Software with classes of its own adapts every expert's matrix by itself.
    assert trained(job(MIXTRAL, "lora:r=16", "nemo-25")) == 240_123_904


def test_every_model_of_the_catalog_has_a_type_as_its_configuration_says() -> None:
    assert workload.model("llama3-8b").model_type == "llama"
    assert workload.model("qwen3-30b-a3b").model_type == "qwen3_moe"
    assert config_of(json.dumps(ROWS[0]["config"]), "config.json").model_type == ROWS[0]["config"]["model_type"]


def _layer(adapters: Adapters | None) -> dict[str, float]:
    piece = Piece(micro_batch=1, seq=2048, adapters=None if adapters is None else adapters.of(MIXTRAL.model_type))
    return {one.name: float(one.size_B) for one in kept_tensors(MIXTRAL, piece, MIXTRAL.kinds[0])}


def test_a_layer_keeps_the_sum_of_its_experts_and_their_adapters() -> None:
    """One more copy of a layer's experts in half precision, whatever the tokens; a dense layer's targets keep none."""
    experts_B = 2 * sum(
        one.elems for one in layer_weights(MIXTRAL, MIXTRAL.kinds[0]) if one.category == "routed_experts"
    )
    sums = [size_B for name, size_B in _layer(read_adapters("lora:r=16")).items() if name.endswith("with its adapter")]
    assert sum(sums) == experts_B
    attention = _layer(read_adapters("lora:r=16,targets=attention"))
    assert not [name for name in attention if name.endswith("with its adapter")]


def test_a_mixtral_with_adapters_on_its_experts_needs_a_copy_of_them() -> None:
    """Of 46.7B parameters 45.1B are experts'. With recomputation only one layer's sum and a gradient are there."""
    found = {
        (recompute, targets): float(
            memory(job(MIXTRAL, f"lora:r=16,targets={targets}"), MACHINE, Layout(recompute=recompute).grid()).total_B
        )
        for recompute in ("none", "full")
        for targets in ("all-linear", "attention")
    }
    experts_B = 2 * 45.1e9
    more_B = found["none", "all-linear"] - found["none", "attention"]
    assert experts_B < more_B < 1.25 * experts_B
    assert found["full", "all-linear"] - found["full", "attention"] < experts_B / 8


def test_four_bits_leave_experts_that_are_one_parameter() -> None:
    """bitsandbytes replaces linear layers; a mixture's experts in transformers 5 are none (findings/)."""
    shares = {}
    for name in ("qwen3-30b-a3b", "llama3-8b"):
        words = {"train": "lora:r=16,targets=attention"}
        narrow, wide = (
            memory(job(workload.model(name), base=base, **words), MACHINE, Layout().grid()) for base in ("nf4", None)
        )
        shares[name] = float(narrow.parameters_B / wide.parameters_B)
    assert shares["qwen3-30b-a3b"] > 0.9
    assert shares["llama3-8b"] < 0.4


def test_four_bits_reach_experts_that_are_linear_layers() -> None:
    """In transformers 4 all of Mixtral's 46.7B parameters but the tables (0.26B) are in matrices of 4 bits."""
    asked = job(MIXTRAL, "lora:r=16", "hf-trainer", base="nf4")
    found = float(memory(asked, MACHINE, Layout().grid()).parameters_B)
    adapters_B = 4 * 242_225_152
    assert 46.7e9 / 2 < found - adapters_B < 46.7e9 * 0.55


def test_types_that_are_not_known_have_a_linear_layer_for_every_matrix() -> None:
    assert modules_of("").experts == "apart"
    assert modules_of("llama").joint == ()


@pytest.mark.parametrize("stack", ["trl", "hf-trainer"])
@pytest.mark.parametrize(("save", "tables"), [("lm_head", 1), ("lm_head+embed_tokens", 2)])
@pytest.mark.parametrize("name", ["llama3-8b", "llama3.2-1b"])
def test_what_is_trained_whole_is_a_copy_in_the_format_of_the_frozen_one(
    name: str, save: str, tables: int, stack: str
) -> None:
    """PEFT 0.21.2, modules_to_save: one more table each, also of a tied model, with two moments in bf16 as well."""
    model = workload.model(name)
    assert isinstance(model, Transformer)
    plain, found = (
        memory(job(model, words, stack), MACHINE, Layout().grid()) for words in ("lora:r=8", f"lora:r=8,save={save}")
    )
    table_B = 2 * tables * model.vocab * model.hidden
    assert float(found.parameters_B - plain.parameters_B) == pytest.approx(table_B)
    assert float(found.optimizer_B - plain.optimizer_B) == pytest.approx(2 * table_B)


def test_a_head_that_is_trained_has_a_gradient_of_its_weights() -> None:
    """Two products backward, where a frozen head has that of its input alone."""
    llama, grid = workload.model("llama3-8b"), Layout().grid()
    assert isinstance(llama, Transformer)
    work = {}
    for words in ("lora:r=8", "lora:r=8,save=lm_head"):
        recipe = job(llama, words, "hf-trainer").recipe
        work[words] = head_work(Shard(llama, grid, recipe, Clock.of(MACHINE.device, recipe))).backward.matmul_s
    assert float(work["lora:r=8,save=lm_head"]) > 1.9 * float(work["lora:r=8"])


def test_modules_to_save_that_are_not_tables_are_refused() -> None:
    with pytest.raises(UnknownName, match="lm_head"):
        read_adapters("lora:r=8,save=norm")
