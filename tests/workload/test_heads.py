"""What follows the last layer, as `architectures` names it: parameters, work and memory; models cut down to a few
layers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import workload
from lockstep.base.errors import BadInput, Infeasible
from lockstep.describe.workload import Classifier, Piece, Transformer
from lockstep.describe.workload.huggingface import config_of

LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 256,
         "tie_word_embeddings": False}  # fmt: skip
BERT = {"model_type": "bert", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 256, "type_vocab_size": 2}  # fmt: skip
GPT2 = {"model_type": "gpt2", "vocab_size": 1000, "n_positions": 128, "n_embd": 64, "n_layer": 2, "n_head": 4}
SCORE = {"architectures": ["LlamaForSequenceClassification"], "num_labels": 1}
MASKED = {"architectures": ["BertForMaskedLM"]}
CONFIGS = Path(__file__).parent / "configs"


def read(*tables: dict[str, Any]) -> Any:
    given: dict[str, Any] = {}
    for table in tables:
        given |= table
    return config_of(json.dumps(given, indent=1), "config.json")


@pytest.mark.parametrize(
    ("tables", "count"),
    [((LLAMA, SCORE), 212_096), ((BERT, MASKED), 152_872), ((BERT, MASKED, {"tie_word_embeddings": False}), 217_872)],
)
def test_parameters_match_the_class_named_in_the_file(tables: tuple[dict[str, Any], ...], count: int) -> None:
    """Counts of transformers 5.24, made on the meta device."""
    assert workload.parameters(read(*tables)).total == count


def test_attention_over_another_model_is_refused_at_its_line() -> None:
    with pytest.raises(BadInput, match=r"config\.json:8.*add_cross_attention=True"):
        read(GPT2, {"add_cross_attention": True})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["LlamaForRewardModel"]}, "'LlamaForRewardModel' is not supported"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "what follows its last layer is not described"),
        ({"architectures": ["T5EncoderModel"]}, "what follows its last layer is not described"),
        ({"architectures": [3]}, "architectures must list names"),
        ({**SCORE, "id2label": {"0": "A", "1": "B"}}, "num_labels=1, but id2label lists 2"),
    ],
)
def test_an_unknown_head_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        read(LLAMA, change)
    assert str(caught.value.where).startswith("config.json:")


def test_notes_name_the_head_that_replaces_the_vocabulary() -> None:
    (said,) = read(LLAMA, SCORE).notes
    assert "LlamaForSequenceClassification: a classifier of 1 label per token" in said
    assert "in place of the projection" in said
    assert "no head follows" in read(LLAMA, {"architectures": ["LlamaModel"]}).notes[0]
    assert read(LLAMA, {"architectures": ["LlamaForCausalLM"]}) == read(LLAMA)


def larger(model: Transformer) -> Transformer:
    return replace(model, vocab=100 * model.vocab)


@pytest.mark.parametrize("name", ["LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaModel"])
def test_without_a_projection_nothing_at_the_end_depends_on_the_vocabulary(name: str) -> None:
    piece = Piece(micro_batch=2, seq=128)
    whole, model = read(LLAMA), read(LLAMA, {"architectures": [name]})
    for end in (workload.head_activation_B, lambda each, _: workload.head_forward_flops(each, 128).total):
        assert end(model, piece) == end(larger(model), piece) < end(whole, piece)
    assert workload.head_weights(model) == workload.head_weights(larger(model))


def test_token_classifiers_project_every_token_and_sequence_classifiers_one() -> None:
    score, first = Classifier(labels=5, bias=True), Classifier(labels=5, bias=True, per_sequence=True)
    base = read(LLAMA, {"architectures": ["LlamaModel"]})
    for seq in (64, 128):
        counted = [
            workload.head_forward_flops(replace(base, headless=False, classifier=each), seq).total
            for each in (score, first)
        ]
        assert counted == [2 * 64 * 5, 2 * 64 * 5 / seq]
    kept = {one.name: one.size_B for one in workload.head_kept_tensors(
        replace(base, headless=False, classifier=score), Piece(micro_batch=2, seq=128))}  # fmt: skip
    assert kept["label logits"] == 2 * 128 * 5 * 4
    assert "logits" not in kept


def test_a_reward_model_takes_less_time_and_memory_than_its_language_model(tmp_path: Path) -> None:
    shape = {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 128_000, "num_attention_heads": 32}
    found = []
    for name in ("LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaModel"):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**shape, "architectures": [name], "num_labels": 1}))
        given = {"seq": 256, "batch": 64, "tp": 1, "pp": 1, "zero": 0, "micro_batch": 8}
        found.append(lockstep.estimate(str(path), "dgx-h100:1", **given))
    language, reward, bare = ((one.step_time_s, float(one.memory.total_B)) for one in found)
    for side in (0, 1):
        assert language[side] > reward[side] > bare[side]


@pytest.mark.parametrize(("name", "layers"), [("deepseek-v3", 1), ("deepseek-v3", 3), ("qwen3-235b-a22b", 2)])
def test_a_model_cut_down_to_its_dense_layers_has_no_experts(name: str, layers: int) -> None:
    given = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    whole = read(given, {"mlp_only_layers": [0, 1]} if "qwen" in name else {})
    few = read(given, {"num_hidden_layers": layers}, {"mlp_only_layers": [0, 1]} if "qwen" in name else {})
    assert few.experts is None
    assert workload.parameters(few).per_layer == workload.parameters(whole).per_layer[:layers]
    assert workload.forward_flops(few, 128).routed_experts == 0


@pytest.mark.parametrize("target", ["megatron", "torchtitan", "nanotron"])
def test_language_model_software_refuses_classifiers(target: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, **SCORE}))
    with pytest.raises(Infeasible, match="no projection onto the vocabulary"):
        lockstep.export(str(path), "dgx-h100:1", to=target, seq=128, batch=64, tp=1, pp=1, zero=0)
