"""The vocabulary names only what there is, and calls nothing unsupported that is supported."""

import pytest

import lockstep
from lockstep import hardware, workload
from lockstep.base.errors import OPTION
from lockstep.base.vocabulary import ARCHITECTURES, COMMANDS, LAYOUT, OPTIONS, SEARCHING, VALUES, architecture, bare
from lockstep.describe.workload import RECOMPUTE
from lockstep.describe.workload.huggingface import FAMILIES
from lockstep.price.layout import OPTIMIZERS
from lockstep.price.layout.layout import OFFLOAD
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.calling import keywords
from lockstep.show.verbs.words.shared import LAYOUT_WORDS
from lockstep.simulate.parallel.pipeline import SCHEDULES

WORDS = {word for verb in VERBS for word in keywords(getattr(lockstep, verb).__wrapped__)} | {"json"}
ALLOWED = {
    "key": ["layers", "hidden", "vocab", "max_positions", "heads", "kv_heads", "ffn", "experts", "top_k"],
    "optimizer": OPTIMIZERS,
    "pipeline schedule": [one.name for one in SCHEDULES],
    "recompute": RECOMPUTE,
    "offload": OFFLOAD,
    "cluster": [one.name for one in hardware.clusters()],
}


def test_translations_name_existing_options() -> None:
    named = {match[1] for texts in OPTIONS.values() for text in texts for match in OPTION.finditer(text)}
    assert named <= WORDS
    assert {"lora", "nodes", "tp_size", "mbs", "gbs", "precision", "fsdp", "deepspeed"} <= OPTIONS.keys()


def test_translated_commands_are_not_lockstep_commands() -> None:
    assert not COMMANDS.keys() & set(VERBS)


@pytest.mark.parametrize("what", VALUES)
def test_translations_name_existing_values(what: str) -> None:
    for word, meant in VALUES[what].items():
        assert word == bare(word)
        assert meant in ALLOWED[what]
        assert word not in ALLOWED[what]


def test_nothing_that_is_supported_is_called_unsupported() -> None:
    supported = [*FAMILIES, *(row["name"] for row in workload.models())]
    assert {name: architecture(name) for name in supported if architecture(name)} == {}
    assert all(word == bare(word) for word in ARCHITECTURES)


def test_a_family_is_recognised_with_what_follows_its_name() -> None:
    for name in (
        "rwkv",
        "Zamba2-7B",
        "gemma3n_text",
        "grok-1",
        "falcon-mamba-7b",
        "umt5-xxl",
    ):
        assert architecture(name), name
    for name in ("llama", "llama40", "vitamin-7b", "my-own", ""):
        assert architecture(name) is None, name


def test_layout_options_equal_the_flags() -> None:
    assert set(LAYOUT) | {"offload"} == set(LAYOUT_WORDS)
    assert set(SEARCHING) <= set(VERBS)
