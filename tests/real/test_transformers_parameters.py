"""transformers makes the model of a config.json on the meta device; Lockstep counts its parameters from the file alone.

Asked of every family that Lockstep reads, one key of a small file changed at a time (`configurations`); and of every
class for text, masked text and images as its own configuration describes it, also of families that Lockstep refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from agreement import Answers, Asker
from configurations import COUNTED, base_of, counted, kinds, swept, tables

from configuration_outcomes import changed, outcome
from lockstep.base.errors import BadInput
from lockstep.describe.workload.huggingface import FAMILIES, config_of

WHY = {
    "refused": "no size of a model, or a part that Lockstep does not describe: refused at its line",
    "named": "read otherwise than by this release, which a note of the model says",
}
UNREAD = "a model type that Lockstep does not read, refused by its name"
OPEN = "a size that the class's own configuration leaves open, refused at its line"
READ = frozenset(kinds())
TABLES = ("CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION")


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("kind", kinds())
def test_every_key_changes_parameters_as_it_does_in_the_class(kind: str, asked: Asker) -> None:
    base = base_of(kind)
    with asked("transformers", "parameters of models, one key of config.json changed at a time") as answers:
        for change, found in swept(kind):
            group = dict(zip(COUNTED, found, strict=True))
            how = outcome(kind, changed(base, change), change, group)
            answers.compare(f"{kind} {change}", how, "equal", why=WHY.get(how, ""))


def test_every_family_that_has_a_class_is_asked() -> None:
    assert len(kinds()) > 90
    assert {*FAMILIES} - {*kinds()} == {"dit", "kimi_k2"}, "classes of diffusers, and of the model's own files"


def classes(table: str) -> Iterator[tuple[str, str]]:
    """Model types and classes of one of transformers' tables of models."""
    for kind, names in getattr(tables()[1], f"MODEL_FOR_{table}_MAPPING_NAMES").items():
        yield from ((kind, name) for name in ([names] if isinstance(names, str) else names))


def parameters_of(kind: str, file: dict[str, Any]) -> tuple[int, int, None]:
    """All parameters of the class of a file, as of families that Lockstep should refuse."""
    with torch.device("meta"):
        model = getattr(transformers, file["architectures"][0])(tables()[0].CONFIG_MAPPING[kind].from_dict(file))
    return sum(one.numel() for one in model.parameters()), 0, None


def made(kind: str, name: str) -> tuple[dict[str, Any], tuple[Any, ...]] | None:
    """The file that a class of a family writes of itself, else a small one, and what it counts; None if it needs more.

    Some classes need libraries, or sizes that their configurations leave open.
    """
    for of in (lambda: tables()[0].CONFIG_MAPPING[kind]().to_dict(), lambda: base_of(kind)):
        try:
            file = {**json.loads(json.dumps(of(), default=str)), "architectures": [name]}
            return file, counted(kind, file) if kind in READ else parameters_of(kind, file)
        except Exception:  # Whatever a class raises, it makes no model of this file.
            continue
    return None


def ask(answers: Answers, case: str, kind: str, file: dict[str, Any], found: tuple[Any, ...]) -> None:
    try:
        config_of(json.dumps(file), "config.json")
    except BadInput as error:
        words, why = ("is missing", OPEN) if kind in FAMILIES else ("is not supported", UNREAD)
        answers.refused(case, error, words, why)
        return
    answers.compare(case, outcome(kind, file, {}, dict(zip(COUNTED, found, strict=True))), "equal")


@pytest.mark.parametrize("table", TABLES)
def test_a_class_is_read_as_it_is_or_refused_by_name(table: str, asked: Asker) -> None:
    words = table.lower().replace("_lm", " language model").replace("_", " ")
    with asked("transformers", f"parameters of each {words}, of its own configuration") as answers:
        for kind, name in classes(table):
            found = made(kind, name)
            if found is not None:
                ask(answers, f"{kind} {name}", kind, *found)
