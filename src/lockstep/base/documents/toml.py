"""Strict reading of TOML files: the values, and the line of every key that stands on a line of its own.

    data, locate = read_toml(path)            # or parse_toml(text, file)
    locate("gate", "mine", "forward")         # "mine.toml:7"

Refused, as one `BadInput` "file:line: message": what is not TOML, numbers that are not finite, files too large or
nested too deep.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping

from lockstep.base.documents import MAX_DEPTH, MAX_ITEMS, MAX_YAML_B, Document, Key, Locate
from lockstep.base.documents.files import File, read_text
from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json

TABLE = re.compile(r"^\s*\[+\s*([\w.\"-]+(?:\s*\.\s*[\w\"-]+)*)\s*\]+\s*(?:#.*)?$")
SETTING = re.compile(r"^\s*[\"']?([\w.-]+)[\"']?\s*=(?!=)")
NESTED = re.compile(rf"\[{{{MAX_DEPTH}}}")


def read_toml(path: File) -> tuple[Document, Locate]:
    """The tables in a TOML file of at most MAX_YAML_B bytes, and where each key stands. Raises BadInput."""
    return parse_toml(read_text(path, MAX_YAML_B), str(path))


def parse_toml(text: str, file: str) -> tuple[Document, Locate]:
    """The tables in TOML text that is called `file`, and where each key stands. Raises BadInput."""
    if NESTED.search(text):
        raise BadInput(f"is nested deeper than the {MAX_DEPTH} levels allowed", file)
    try:
        data: Json = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        line = re.search(r"at line (\d+)", str(error))
        raise BadInput(f"not valid TOML: {str(error)[:120]}", f"{file}:{line[1]}" if line else file) from None
    try:
        words = dict(flat(data))
    except RecursionError:
        raise BadInput(f"is nested deeper than the {MAX_DEPTH} levels allowed", file) from None
    if len(words) > MAX_ITEMS:
        raise BadInput(f"holds more than the {MAX_ITEMS} values allowed", file)
    for word, value in words.items():
        if isinstance(value, float) and not abs(value) < float("inf"):
            raise BadInput(f"{word} is not a finite number", file)
    lines: dict[tuple[Key, ...], int] = {}
    for word, number in _lines(text):
        path = tuple(word.split("."))
        for length in range(1, len(path)):
            # [a.b] is where a stands too, unless that had a line before.
            lines.setdefault(path[:length], number)
        lines[path] = number
    return data, Locate(file, lines)


def flat(data: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Values by their keys joined by dots; an empty table is a value, and so is a list, whatever it holds."""
    for name, value in data.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, dict) and value:
            yield from flat(value, path)
        else:
            yield path, value


def _lines(text: str) -> Iterator[tuple[str, int]]:
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (table := TABLE.match(line)) is not None:
            section = re.sub(r"[\s\"]", "", table[1])
            yield section, number
        elif (setting := SETTING.match(line)) is not None:
            yield f"{section}.{setting[1]}" if section else setting[1], number
