"""One key of a config.json at a time: parameters are those of the transformers class, or the key is refused or named.

The table is what one release counted, for wherever it is not installed; tests/real asks another one live.
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

from configuration_outcomes import changed, outcome
from lockstep.describe.workload.huggingface import FAMILIES, WRAPPERS, config_of

FOUND: dict[str, Any] = json.loads(gzip.decompress(Path(__file__).parent.joinpath("oracle/sweep.json.gz").read_bytes()))
TABLES: dict[str, Any] = FOUND["families"]


def changes_of(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from group["several"]
    yield from ({key: value} for key, values in group["one"].items() for value in values)


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
}
"""Keys that are read otherwise than by the class of transformers 5.24, which the model's notes say."""
AROUND = {"tie_word_embeddings", "text_config.tie_word_embeddings"}
"""The same of classes around a text model: whether they share its tables, where the two tables of a file differ."""


def test_only_known_keys_differ_from_the_class() -> None:
    found = {kind: {[*change][-1] for change, how in outcomes(kind) if how == "named"} for kind in TABLES}
    assert {kind: keys for kind, keys in found.items() if keys and kind not in WRAPPERS} == NAMED
    assert set().union(*(found[kind] for kind in WRAPPERS)) == AROUND


def test_the_table_covers_every_family_and_most_changes_are_read() -> None:
    assert {*FAMILIES, *WRAPPERS, "resnet"} - {*TABLES} == {"dit", "kimi_k2"}, (
        "classes of diffusers, and of the model's own files"
    )
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
