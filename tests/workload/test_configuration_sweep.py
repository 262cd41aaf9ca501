"""One key of a config.json at a time: parameters are those of the transformers class, or the key is refused or named.

The table is made by tools/sweep_configurations.py, which changes every key of every family that has a class.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lockstep import workload
from lockstep.base.errors import BadInput
from lockstep.describe.workload.huggingface import FAMILIES, config_of

REMOVED = "<removed>"
NO_SIZE = (REMOVED, None, True, 0, 1, 3)
"""Values that a size refuses where it is missing, mistyped, empty, or divides nothing."""
REFUSED = {
    "dbrx": "d_model ffn_config.hidden_size",
    "bert": "is_decoder",
    "deepseek_v2": "n_group",
    "ernie4_5": "use_bias",
    "ernie4_5_moe": "use_bias",
    "exaone4": "layer_types",
    "falcon": "num_ln_in_parallel_attn",
    "gpt2": "add_cross_attention",
    "helium": "head_dim hidden_size num_attention_heads",
    "mpt": "attn_config.qk_ln",
    "mt5": "architectures head_dim",
    "nemotron_h": "layers_block_type moe_latent_size",
    "olmoe": "head_dim",
    "opt": "do_layer_norm_before hidden_size word_embed_proj_dim",
    "phi": "partial_rotary_factor",
    "resnet": "architectures depths downsample_in_bottleneck downsample_in_first_stage embedding_size hidden_sizes "
              "layer_type",
    "roberta": "is_decoder",
    "smollm3": "use_sliding_window",
    "stablelm": "partial_rotary_factor",
    "t5": "architectures head_dim",
    "vit": "architectures",
}  # fmt: skip
"""Keys of parts that are not described, and of sizes that others must agree with."""
DIFFER = "are names of one size, and differ"
FOUND: dict[str, Any] = json.loads(gzip.decompress(Path(__file__).parent.joinpath("oracle/sweep.json.gz").read_bytes()))
TABLES: dict[str, Any] = FOUND["families"]


def changes_of(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from group["several"]
    yield from ({key: value} for key, values in group["one"].items() for value in values)


def changed(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The file of a change; keys of nested tables have dots."""
    made: dict[str, Any] = json.loads(json.dumps(base))
    for key, value in change.items():
        *outer, name = key.split(".")
        table = made.setdefault(outer[0], {}) if outer else made
        table[name] = value
        if value == REMOVED:
            del table[name]
    return made


def names(change: dict[str, Any]) -> list[str]:
    return [key.rpartition(".")[2] for key in change]


def refusal_is_due(error: BadInput, change: dict[str, Any], kind: str) -> bool:
    """Whether it says at a line of the file what cannot be: a part that is not described, or a size that is none."""
    place, _, line = str(error.where).partition(":")
    if place != "config.json" or not line.isdigit():
        return False
    if any(value in NO_SIZE for value in change.values() if not isinstance(value, list)):
        return True
    return DIFFER in error.message or bool(set(REFUSED.get(kind, "").split()) & {*change})


def outcome(kind: str, file: dict[str, Any], change: dict[str, Any], group: dict[str, Any]) -> str:
    """equal, refused, or named in the notes as what the class does otherwise; anything else is a fault."""
    text = json.dumps(file, indent=1)
    try:
        model = config_of(text, "config.json")
    except BadInput as error:
        return "refused" if refusal_is_due(error, change, kind) else f"fault: {error}"
    counted = workload.parameters(model)
    tied = getattr(model, "tied_embeddings", None)
    if (counted.total, counted.untrained) == (group["count"], group["untrained"]) and group["tied"] in (None, tied):
        return "equal"
    said = " ".join(getattr(model, "notes", ()))
    named = bool(change) and any(name in said for name in names(change))
    return "named" if named else f"fault: {counted.total}, not {group['count']}"


@cache
def outcomes(kind: str) -> list[tuple[dict[str, Any], str]]:
    base, groups = TABLES[kind]["base"], TABLES[kind]["groups"]
    rows = [(change, group) for group in groups for change in changes_of(group)]
    return [(change, outcome(kind, changed(base, change), change, group)) for change, group in rows]


@pytest.mark.parametrize("kind", TABLES)
def test_every_config_key_matches_the_class_or_is_refused_or_noted(kind: str) -> None:
    faults = [(change, found) for change, found in outcomes(kind) if found.startswith("fault")]
    assert faults == []


NAMED = {
    "mpt": {"expansion_ratio", "no_bias", "attn_config.alibi", "attn_config.attn_type"},
    "mt5": {"tie_word_embeddings"},
    "t5": {"tie_word_embeddings"},
    "qwen2_vl": {"text_config.tie_word_embeddings"},
    "qwen2_5_vl": {"text_config.tie_word_embeddings"},
    "qwen3_vl": {"text_config.tie_word_embeddings"},
}
"""Keys that are read otherwise than by the class of transformers 5.24, which the model's notes say."""


def test_only_known_keys_differ_from_the_class() -> None:
    found = {kind: {[*change][-1] for change, how in outcomes(kind) if how == "named"} for kind in TABLES}
    assert {kind: keys for kind, keys in found.items() if keys} == NAMED


def test_the_table_covers_every_family_and_most_changes_are_read() -> None:
    covered = {*TABLES, *(table["base"].get("text_config", {}).get("model_type") for table in TABLES.values())}
    assert {*FAMILIES, "resnet"} - covered == {"dit", "kimi_k2"}, "classes of diffusers, and of the model's own files"
    counts = Counter(how for kind in TABLES for _, how in outcomes(kind))
    assert sum(counts.values()) > 7_000
    assert counts["refused"] < 0.16 * sum(counts.values())


@pytest.mark.parametrize(("kind", "key", "value"), [("gpt2", "num_key_value_heads", 1), ("mistral", "mlp_bias", True)])
def test_an_unknown_config_key_is_noted_and_changes_nothing(kind: str, key: str, value: object) -> None:
    base = TABLES[kind]["base"]
    plain, given = (config_of(json.dumps(file), "config.json") for file in (base, {**base, key: value}))
    assert given == plain
    assert [key in note for note in given.notes] == [True]
    assert config_of(json.dumps({**base, key: None}), "config.json").notes == plain.notes == ()
