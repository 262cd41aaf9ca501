"""Reads what was kept of a run: a folder of states, a file of one, a table of numbers, or a training log.

folder                          files of states, whose names or folders have the number of the step
.npz .safetensors .pt .pth .bin  one state, or a file of such a folder
.csv .jsonl                     a row for each step; other columns are numbers that are compared
any other text                  lines that say `step`, `iter` or `iteration`, and `name: number` or `name=number`
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

import numpy as np

from lockstep.base.documents.files import open_file, read_bytes, read_text
from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.run.partings.record import DATA, Record, is_of_the_clock, kind_of

LIMIT_B, TEXT_LIMIT_B = 1 << 34, 1 << 30
"""Of one file of states, and of one of text."""
STATES = (".npz", ".safetensors", ".pt", ".pth", ".bin")
_STEP = re.compile(r"(?:global_?step|step|iter(?:ation)?|checkpoint|ckpt|epoch)[-_ ]?(\d+)", re.IGNORECASE)
_RANK = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LOG_STEP = re.compile(rf"\b(?:global[_ ]?step|step|iter|iteration)s?\b['\"]?\s*[:=\[]?\s*({_NUMBER})", re.IGNORECASE)
_PAIR = re.compile(
    rf"([A-Za-z_][\w ./-]*?)['\"]?\s*(?:[:=]|(?<=loss)|(?<=norm))\s*['\"]?({_NUMBER}|nan|[-+]?inf)(?!\.?\w|[/:%])",
    re.IGNORECASE,
)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_STEP_NAMES = {"step", "steps", "iter", "iteration", "iterations", "global_step", "_step"}
_LETTERS = {"F": "f", "I": "i", "U": "u", "BF": "u"}
"""Of the types in a safetensors file, whose number is of bits -> those of NumPy."""


def read_record(path: str | Path) -> Record:
    """The record that a file or a folder has. Raises BadInput."""
    if os.path.isdir(path):
        return _folder(Path(path))
    ending = Path(path).suffix.lower()
    if ending in STATES:
        return Record(str(path), {_step_of(Path(path)): _state(Path(path))})
    text = read_text(path, TEXT_LIMIT_B)
    lines = _lines if ending in (".jsonl", ".ndjson") else _table if ending == ".csv" else _log
    steps: dict[int, dict[str, Array]] = {}
    digits: dict[str, int] = {}
    for written, said in lines(text, path):
        if (step := _whole(written)) is None:
            continue
        for name, number in said.items():
            digits[name] = max(digits.get(name, 1), len(re.sub(r"[eE].*|\D", "", number).lstrip("0")))
            steps.setdefault(step, {})[name] = np.asarray(_value(number))
    if not steps:
        raise BadInput("has no numbers of steps: no rows with a step, no lines like `step 10 loss: 2.5`", str(path))
    return Record(str(path), steps, digits)


def _folder(folder: Path) -> Record:
    found: dict[int, dict[str, Array]] = {}
    for file in sorted(one for one in folder.rglob("*") if one.suffix.lower() in STATES):
        named = file.relative_to(folder)
        rank = _RANK.search(str(named))
        for name, array in _state(file).items():
            found.setdefault(_step_of(named), {})[f"rank {rank[1]}: {name}" if rank else name] = array
    if not found:
        raise BadInput(f"has no files that end in {', '.join(STATES)}", str(folder))
    return Record(str(folder), found)


def _step_of(file: Path) -> int:
    """The number beside a word such as step, else the last of the name, else 0."""
    text = _RANK.sub("", str(file.with_suffix("")))
    said = _STEP.findall(text) or re.findall(r"\d+", Path(text).name)
    return int(said[-1]) if said else 0


def _state(file: Path) -> dict[str, Array]:
    """The arrays of numbers in a file of states."""
    try:
        found = _READERS.get(file.suffix.lower(), _torch)(file)
    except BadInput:
        raise
    except Exception as error:  # readers of damaged files raise what they come upon, and of torch any class
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"is not a file of tensors: {why}", str(file)) from None
    return {name: one for name, one in found.items() if one.dtype.kind in "biuf"}


def _npz(file: Path) -> dict[str, Array]:
    with open_file(file) as opened, np.load(opened, allow_pickle=False) as arrays:
        return dict(arrays)


def _safetensors(file: Path) -> dict[str, Array]:
    """Arrays of a file whose first 8 bytes are the length of a JSON head; bf16 by its bits."""
    data = read_bytes(file, LIMIT_B)
    start = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:start])
    head.pop("__metadata__", None)
    found = {}
    for name, one in head.items():
        begin, end = one["data_offsets"]
        letters, size = re.findall(r"^([A-Z]+)(\d*)", one["dtype"])[0]
        kind = f"<{_LETTERS[letters]}{int(size) // 8}" if size and size != "8" else "u1"
        bits = np.frombuffer(data[start + begin : start + end], kind).reshape(one["shape"])
        found[name] = _widened(bits) if one["dtype"] == "BF16" else bits
    return found


def _widened(bits: Array) -> Array:
    """bf16 as fp32: the same sign, exponent and digits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _torch(file: Path) -> dict[str, Array]:
    """Tensors of a file of torch.save, in dictionaries and lists of any depth; nothing else of it is loaded."""
    import torch

    with open_file(file) as opened:
        loaded = torch.load(opened, map_location="cpu", weights_only=True)
    return {
        name: (one.float() if one.dtype is torch.bfloat16 else one).detach().numpy()
        for name, one in _leaves(loaded)
        if isinstance(one, torch.Tensor)
    }


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping | list | tuple):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in parts:
            yield from _leaves(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


_READERS = {".npz": _npz, ".safetensors": _safetensors}
Row = tuple[object, dict[str, str]]
"""The step as it is written, and texts by name."""


def _whole(step: object) -> int | None:
    """The number of a step; None where it is none."""
    try:
        return int(float(str(step).replace(",", "")))
    except (ValueError, OverflowError):
        return None


def _named(step: object, said: Mapping[str, str]) -> Row:
    return step, {name: text for name, text in said.items() if _counts(name, text)}


def _counts(name: str, text: str) -> bool:
    """Whether a number of a log is compared, or the digest of a batch."""
    numeric = re.fullmatch(rf"{_NUMBER}|nan|[-+]?inf", text, re.IGNORECASE) is not None
    digest = kind_of(name) == DATA and text != ""
    return (numeric or digest) and not is_of_the_clock(name) and name.lower() not in _STEP_NAMES


def _value(text: str) -> float:
    """The number; of a digest one that differs as it does."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float(crc32(text.encode()))


def _table(text: str, path: str | Path) -> Iterator[Row]:
    try:
        for place, row in enumerate(csv.DictReader(io.StringIO(text))):
            yield _row(place, {str(name): str(one) for name, one in row.items()})
    except csv.Error as error:
        raise BadInput(f"is not a table: {error}", str(path)) from None


def _lines(text: str, path: str | Path) -> Iterator[Row]:
    for place, line in enumerate(filter(str.strip, text.splitlines())):
        try:
            said = {name: str(one) for name, one in _leaves(json.loads(line))}
        except (ValueError, RecursionError):
            raise BadInput("is not JSON", f"{path}:{place + 1}") from None
        yield _row(place, said)


def _row(place: int, said: Mapping[str, str]) -> Row:
    """A row of a table, by its step or else by its place."""
    return _named(next((said[name] for name in said if name.lower() in _STEP_NAMES), place), said)


def _log(text: str, path: str | Path) -> Iterator[Row]:
    """Lines that say a step, and indented ones below; where none says one, those with a loss, numbered."""
    lines = _COLOURS.sub("", text).splitlines()
    stepped: list[tuple[str, str]] = []
    for line in lines:
        if step := _LOG_STEP.search(line):
            stepped.append((step[1], line[step.end() :]))
        elif stepped and line[:1].isspace():
            stepped.append((stepped[-1][0], line))
    losses = (line for line in lines if re.search("loss", line, re.IGNORECASE))
    for number_of, rest in stepped or [(str(place), line) for place, line in enumerate(losses)]:
        yield _named(number_of, {name.strip(): number.rstrip(",.") for name, number in _PAIR.findall(rest)})
