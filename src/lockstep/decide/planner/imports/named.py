"""The model that a file names by a hub id or a path: the one of the catalog that has its shape."""

from __future__ import annotations

import re

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model, model, names
from lockstep.describe.workload.catalog import of_hub_id

SAME_SHAPE = {"hf", "instruct", "it", "chat", "base", "thinking", "meta", "2407", "2507", "fp16", "bf16", "fp8",
              "bnb", "4bit", "gptq", "awq", "int4", "mcore"}  # fmt: skip
"""Parts of a name that change no shape."""
LONGEST = 100
"""Of a name in a message."""


def catalogued(name: str) -> str | None:
    """The catalog's name of the model with that hub id, or at the end of that path; None where it has none."""
    path = name.removesuffix("/tokenizer.model").rstrip("/")
    if (found := of_hub_id(path)) is not None:
        return found
    parts = re.split(r"[-_]", path.rpartition("/")[2].lower())
    plain = "".join(part for part in parts if part not in SAME_SHAPE)
    return next((one for one in names() if re.sub(r"[-_]", "", one) == plain), None)


def name_model(found: Imported, said: Said, word: str, given: Model | None) -> None:
    """Sets the model of a run: the one that is given, else the one that `word` names."""
    called = said[word]
    name = catalogued(called) if called else None
    found.model = given if given is not None else name
    if called and given is None and name is None:
        found.called = called[:LONGEST]
        said.leave(word, "a model that the catalog does not have: give MODEL@FILE")
    elif given is not None and name is not None and model(name) != given:
        said.contradiction(word, f"{given.name} counts, which is given beside the file")
