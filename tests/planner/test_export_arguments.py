"""Every name that an export writes is one of the named version's own, with a value of its type or its choices."""

from __future__ import annotations

import json
import random
import shlex
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from advice_samples import CASES
from export_questions import questions

from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import TARGETS, version
from lockstep.decide.planner.export.arguments import arguments
from lockstep.decide.planner.export.refusals import Placed
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, broken_by

MODELS = ("llama3-8b", "llama3-70b", "deepseek-v3", "mixtral-8x7b", "gpt3-175b", "gpt2", "llama2-7b", "qwen2.5-72b")
SHAPES: tuple[dict[str, Any], ...] = (
    {"dp": 8, "zero": 1}, {"dp": 8, "zero": 3}, {"dp": 8, "zero": 2, "recompute": "full"}, {"pp": 2, "dp": 4},
    {"tp": 4, "dp": 2, "zero": 1, "sequence_parallel": True, "recompute": "selective"}, {"tp": 2, "dp": 4, "zero": 2},
    {"dp": 8, "zero": 1, "offload": "optimizer"}, {"dp": 8, "zero": 3, "offload": "parameters"}, {"dp": 8},
    {"tp": 2, "dp": 4, "zero": 3, "sequence_parallel": True}, {"dp": 8, "zero": 3, "shard": 4},
    {"dp": 8, "zero": 3, "recompute": "full"}, {"cp": 2, "dp": 4, "zero": 3}, {"dp": 8, "ep": 4, "zero": 1},
    {"dp": 8, "zero": 1, "recompute": "full"}, {"tp": 2, "dp": 4, "zero": 1, "sequence_parallel": True},
)  # fmt: skip
Said = Iterator[tuple[str, object]]


def of_flags(text: str) -> Said:
    for line in text.splitlines():
        if not line.startswith("#"):
            name, *values = shlex.split(line)
            yield name.removeprefix("--"), values if len(values) > 1 else values[0] if values else True


def of_sections(data: dict[str, Any], target: str, *above: str) -> Said:
    names = arguments(target).names
    for name, value in data.items():
        path = ".".join((*above, name))
        inside = any(one.startswith(f"{path}.") for one in names)
        if isinstance(value, dict) and inside:
            yield from of_sections(value, target, *above, name)
        elif path != "comment":
            yield path, value


def of_bridge(text: str) -> Said:
    data = yaml.safe_load(text)
    assert data.pop("mixed_precision").endswith("_mixed")
    yield from of_sections(data, "bridge")


def of_options(text: str) -> Said:
    """torchtitan's: a switch is on, or off after `no-`; the last line is a subcommand."""
    *lines, chosen = text.splitlines()
    assert chosen.removeprefix("activation-checkpoint:") in ("full", "none")
    kinds = arguments("torchtitan-cli").names
    for name, value in of_flags("\n".join(lines)):
        section, _, key = name.rpartition(".")
        if value is True:
            yield f"{section}.{key.removeprefix('no-')}", True
        else:
            yield name, str(value).split(",") if kinds.get(name) == "list" else value


READERS: dict[str, Callable[[str], Said]] = {
    "megatron": of_flags,
    "torchtitan": lambda text: of_sections(tomllib.loads(text), "torchtitan"),
    "torchtitan-cli": of_options,
    "deepspeed": lambda text: of_sections(json.loads(text), "deepspeed"),
    "bridge": lambda text: of_bridge(text),
    "accelerate": lambda text: of_sections(yaml.safe_load(text), "accelerate"),
    "nanotron": lambda text: of_sections(yaml.safe_load(text), "nanotron"),
}


def drawn() -> list[tuple[Job, Layout]]:
    """Layouts that keep the rules, of several models, and some of the samples of advice."""
    found = []
    for name in MODELS:
        described = model(name)
        job = Job(described, Recipe(seq=min(2048, described.max_positions), batch=64), 8)
        found += [(job, one) for one in (Layout(**words) for words in SHAPES) if not broken_by(one, job)]
    return found + random.Random(17).sample(CASES, 60)


@pytest.mark.parametrize("target", list(TARGETS))
def test_exported_names_exist_in_the_target_software(target: str) -> None:
    table, texts = arguments(target), [one.text for one in questions(target)]
    for job, layout in drawn():
        try:
            texts.append(TARGETS[target](Placed(job, layout)))
        except Infeasible:
            continue
    wrong = {why for text in texts for name, value in READERS[target](text) if (why := table.misfit(name, value))}
    assert not wrong
    assert len(texts) >= 60


@pytest.mark.parametrize("target", list(TARGETS))
def test_a_table_names_its_source(target: str) -> None:
    table = arguments(target)
    assert version(target) == table.version
    assert len(table.names) > 30
    assert table.source


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tensor-model-paralel-size", "8"),
        ("tensor-model-parallel-size", "eight"),
        ("recompute-granularity", "some"),
        ("swiglu", "1"),
    ],
)
def test_a_wrong_name_or_value_is_noticed(name: str, value: str) -> None:
    assert arguments("megatron").misfit(name, value)
