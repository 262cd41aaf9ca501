"""`read_run`: a configuration or a log of other training software as a question and a layout.

    a script, a command line or the log's arguments      Megatron-LM
    YAML over a recipe                                   Megatron-Bridge
    TOML, or a command line                              torchtitan
    JSON                                                 DeepSpeed
    YAML of `accelerate config`                          Accelerate
    YAML                                                 nanotron
    :::MLLOG lines                                       MLPerf training

A file is recognised by its content. What it says is the inverse of `export`, so that a layout goes there and back.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

from lockstep.documents.files import File, open_file
from lockstep.errors import BadInput
from lockstep.planner.imports.accelerate import accelerate
from lockstep.planner.imports.bridge import bridge
from lockstep.planner.imports.deepspeed import deepspeed
from lockstep.planner.imports.imported import Imported as Imported
from lockstep.planner.imports.megatron import megatron
from lockstep.planner.imports.mlperf import mlperf
from lockstep.planner.imports.nanotron import nanotron
from lockstep.planner.imports.torchtitan import torchtitan
from lockstep.types.plain import Json
from lockstep.workload import Model

MOST_B = 256 * 1024 * 1024
"""Of a log; longer ones are not read."""
MOST_MAPPING = 1024 * 1024
"""Characters of a configuration in JSON or YAML."""
UNREADABLE = (ValueError, TypeError, AttributeError, SyntaxError, RecursionError)
"""What values of another kind than expected raise."""


def read_run(path: File, model: Model | None = None) -> Imported | None:
    """What a file says of a run, with `model` where it has none of its own; None where it is of none of these kinds.

    Raises BadInput for a setting that cannot be read.
    """
    text = _text(path)
    if text is None:
        return None
    try:
        return recognised(text, Path(str(path)).stem, model)
    except BadInput:
        raise
    except UNREADABLE as error:
        raise BadInput(f"{path}: a setting cannot be read: {str(error)[:120]}", "MODEL") from None


def _text(path: File) -> str | None:
    """The text of a file, which may be compressed with gzip; None where it is none, or longer than MOST_B."""
    try:
        with open_file(path) as raw:
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            found = gzip.GzipFile(fileobj=raw).read(MOST_B + 1) if packed else raw.read(MOST_B + 1)
        return found.decode("utf-8") if len(found) <= MOST_B else None
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile):
        return None


def recognised(text: str, name: str, model: Model | None = None) -> Imported | None:
    """`read_run` of a text."""
    for reader in (mlperf, torchtitan):
        if (found := reader(text, name, model)) is not None:
            return found
    data = _mapping(text) if len(text) <= MOST_MAPPING else None
    found = None
    if data is not None:
        found = (
            deepspeed(data, name, model)
            or accelerate(data, text, model)
            or nanotron(data, model)
            or bridge(data, name, model)
        )
    return found or megatron(text, name, model)


def _mapping(text: str) -> Json | None:
    """The mapping in JSON or YAML; None where a text is neither."""
    import yaml

    try:
        data = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (json.JSONDecodeError, yaml.YAMLError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


__all__ = ["Imported", "read_run", "recognised"]
