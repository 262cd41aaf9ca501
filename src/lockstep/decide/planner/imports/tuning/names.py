"""The model that a file names: a name of the catalog, or a hub id whose config.json is in the local cache."""

from __future__ import annotations

import re

from lockstep.base.errors import LockstepError
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.named import LONGEST, catalogued
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model
from lockstep.describe.workload import model as described
from lockstep.describe.workload.hub import cached_config, is_hub_id


def model_of(found: Imported, said: Said, word: str) -> Model | None:
    """The model that is trained: the one given beside the file, or the one that the file names; sets `found.model`."""
    called = said[word]
    if not called:
        return found.model if not isinstance(found.model, str) else None
    name = catalogued(called)
    found.stored = stored(called)
    if isinstance(found.model, str) or found.model is None:
        if name is None and is_hub_id(called) and cached_config(called) is not None:
            name = called
        found.model, found.called = name, "" if name else called[:LONGEST]
        return None if name is None else _read(name)
    if name is None:
        said.open(word, f"{found.model.name} stands for it")
    elif name != found.model.name:
        said.contradiction(word, f"{found.model.name} counts, which was given beside the file")
    return found.model


def stored(called: str) -> str | None:
    """The format of a quantised checkpoint by its name: `Meta-Llama-3-8B-Instruct-GPTQ`, `Qwen3-8B-bnb-4bit`."""
    parts = set(re.split(r"[-_]", called.rpartition("/")[2].lower()))
    if parts & {"gptq", "awq", "int4"}:
        return "gptq"
    return "nf4" if {"bnb", "4bit"} <= parts else None


def _read(name: str) -> Model | None:
    try:
        return described(name)
    except LockstepError:
        return None
