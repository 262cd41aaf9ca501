"""The file of a capture: one zip with what a step does, without weights, values or text of the program."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from lockstep.describe.captured import MODULES, OPERATIONS, PACKED, PROGRAM, SCHEMA, TENSORS, packed_modules
from lockstep.run.capture.groups import CapturedGroup
from lockstep.run.capture.record import Life, Operation, Record
from lockstep.run.capture.values import Values

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time in the archive, so that equal captures are equal files."""


def write(
    question: dict[str, Any], record: Record, start: int, values: Values, counts: dict[str, Any], notes: list[str]
) -> None:
    """Writes the operations from `start` on, and the tensors that live there."""
    operations = record.operations[start:]
    names = _names(record.entered)
    groups = sorted({one.group for one in operations} - {""})
    program = {
        "schema": SCHEMA,
        "script": Path(question["script"]).name,
        "arguments": question["arguments"],
        "torch": torch.__version__,
        "card": question["card"],
        "cluster": question["cluster"],
        "tf32": _tf32(),
        **counts,
        "values": [
            {"place": place, "kind": kind, "answer": answer, "times": times}
            for (place, kind, answer), times in sorted(values.asked.items())
        ],
        "notes": notes,
        "rank": question["rank"],
        "ranks": question["ranks"],
        "groups": [{"name": name, "ranks": CapturedGroup.ranks[name]} for name in groups],
    }
    lives = [one for one in record.lives if one.died is None or one.died > start]
    parts = {
        PROGRAM: json.dumps(program, indent=1),
        OPERATIONS: _table(OPERATION, map(_row, operations)),
        MODULES: packed_modules(names.get(one.module, "") for one in operations),
        TENSORS: _table(("size_B", "later", "lasts", "category"), _tensors(lives, start)),
    }
    path = Path(question["out"])
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(part, "w") as file:
            for name, text in parts.items():
                file.writestr(zipfile.ZipInfo(name, EPOCH), text, PACKED)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


OPERATION = ("name", "phase", "shapes", "reads", "flops", "causal", "stream", "event", "group")


def _row(one: Operation) -> tuple[str, str, str, int, int, int, int, int, str]:
    shapes = ";".join("x".join(map(str, shape)) + f":{dtype}" for shape, dtype in one.shapes)
    return one.name, one.phase, shapes, one.reads, one.flops, int(one.causal), one.stream, one.event, one.group


def _tf32() -> list[str]:
    """Which products of fp32 the program lets run in TF32: convolutions, unless it says otherwise."""
    backends: Any = torch.backends
    said = {"products": backends.cuda.matmul, "convolutions": backends.cudnn.conv}
    return [name for name, one in said.items() if one.fp32_precision == "tf32"]


def _tensors(lives: Iterable[Life], start: int) -> Iterable[tuple[int, int, int | str, str]]:
    """Calls since the birth before and calls that a tensor lives: the same in every layer, so that they pack well."""
    last = 0
    for one in lives:
        born = max(0, one.born - start)
        yield one.size_B, born - last, "" if one.died is None else one.died - start - born, one.category
        last = born


def _names(entered: Mapping[int, torch.nn.Module]) -> dict[int, str]:
    """What modules are called in the outermost one that has them, which is called by its class."""
    found: dict[int, str] = {}
    inner = {id(one) for module in entered.values() for one in module.modules() if one is not module}
    for number, module in entered.items():
        if number not in inner:
            found |= {id(one): name or type(one).__name__ for name, one in module.named_modules()}
    return found


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()
