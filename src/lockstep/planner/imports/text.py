"""`Text`: the words of a file, each with its value and line, whatever the file is written in.

JSON, YAML and TOML are read strictly: no word twice, no number that is not finite, bounded size and depth. Words of a
section are joined by dots. A list is a value, whatever it holds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.documents import MAX_DEPTH, MAX_ITEMS, Locate, parse_json, parse_yaml
from lockstep.errors import BadInput
from lockstep.types.plain import Json

MOST_MAPPING_B = 1024 * 1024
"""Of a configuration."""
TABLE = re.compile(r"^\s*\[+\s*([\w.\"-]+(?:\s*\.\s*[\w\"-]+)*)\s*\]+\s*(?:#.*)?$")
SETTING = re.compile(r"^\s*[\"']?([\w.-]+)[\"']?\s*=(?!=)")
KEY = re.compile(r"^(?:---|[\"']?[\w./-]+[\"']?\s*:(?:\s|$))")
SHELL = re.compile(r"^\s*(?:export\s+)?[A-Za-z_]\w*\+?=(?! )")
OPTION = re.compile(r"(?:^|[\s\"'(=])--[A-Za-z]", re.MULTILINE)
STARTS = re.compile(r"\b(?:llamafactory-cli|axolotl)[ \t]+train[ \t]")
"""A command that takes a configuration, and need have no options."""
OVERRIDE = re.compile(r"[ \t][+~]{0,2}[A-Za-z_]\w*(?:\.\w+)+=\S")
LOGS = (":::MLLOG", "_size ....")
"""What only logs hold: events of MLPerf, and the list of arguments that Megatron-LM prints."""
TOML_NESTED = re.compile(rf"\[{{{MAX_DEPTH}}}")


class Unset(str):
    """A value that depends on a variable which a script does not set; its text names the variable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Text:
    """What a file says: values by word, the line of each, and words that were given twice with another value."""

    file: str
    shape: str
    words: Mapping[str, object]
    lines: Mapping[str, int] = field(default_factory=dict)
    repeated: Mapping[str, str] = field(default_factory=dict)
    """Word to what was said first, where the last counts."""
    raw: str = field(default="", repr=False)
    branched: Mapping[str, str] = field(default_factory=dict)
    """Word of a script to what it is if a branch goes the other way, where that cannot be decided."""
    folder: Path | None = None
    """Where the file lies; None for one that is in memory."""

    def where(self, word: str) -> str:
        """The file and line of a word or of its section."""
        while word and word not in self.lines:
            word = word.rpartition(".")[0]
        return f"{self.file}:{self.lines[word]}" if word else self.file


def shape_of(text: str) -> str | None:
    """How a text is written, mostly told by its first line: json, yaml, toml, log or command; None for others."""
    if text.lstrip()[:1] == "{":
        return "json"
    if any(sign in text for sign in LOGS):
        return "log"
    text = text[:MOST_MAPPING_B]
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", "%")):
            continue
        if TABLE.match(line) or (
            SETTING.match(line) and not (SHELL.match(line) and (OPTION.search(text) or STARTS.search(text)))
        ):
            return "toml"
        if KEY.match(line):
            return "yaml"
        break
    return "command" if any(one.search(text) for one in (OPTION, OVERRIDE, STARTS)) else None


def mapping(text: str, file: str, shape: str) -> Text:
    """The words of a text in JSON, YAML or TOML. Raises BadInput located at its line."""
    if len(text) > MOST_MAPPING_B:
        raise BadInput(f"is larger than the {MOST_MAPPING_B // 1024} KiB allowed for a configuration", file)
    if shape == "toml":
        return _toml(text, file)
    data, locate = parse_json(text, file) if shape == "json" else parse_yaml(text, file, repeats=True)
    words = dict(_flat(data))
    return Text(file, shape, words, _lines(locate), raw=text)


def _flat(data: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Words joined by dots; an empty section is a word with an empty mapping."""
    for name, value in data.items():
        path = f"{above}.{name}" if above else str(name)
        if isinstance(value, dict) and value:
            yield from _flat(value, path)
        else:
            yield path, value


def _lines(locate: Locate) -> dict[str, int]:
    return {".".join(map(str, path)): line for path, line in locate.lines.items() if path}


def _toml(text: str, file: str) -> Text:
    if TOML_NESTED.search(text):
        raise BadInput(f"is nested deeper than the {MAX_DEPTH} levels allowed", file)
    try:
        data: Json = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        line = re.search(r"at line (\d+)", str(error))
        raise BadInput(f"not valid TOML: {str(error)[:120]}", f"{file}:{line[1]}" if line else file) from None
    words = dict(_flat(data))
    if len(words) > MAX_ITEMS:
        raise BadInput(f"holds more than the {MAX_ITEMS} values allowed", file)
    for word, value in words.items():
        if isinstance(value, float) and not abs(value) < float("inf"):
            raise BadInput(f"{word} is not a finite number", file)
    return Text(file, "toml", words, dict(_toml_lines(text)), raw=text)


def _toml_lines(text: str) -> Iterator[tuple[str, int]]:
    """The line of every setting that stands on a line of its own."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (table := TABLE.match(line)) is not None:
            section = re.sub(r"[\s\"]", "", table[1])
            yield section, number
        elif (setting := SETTING.match(line)) is not None:
            yield f"{section}.{setting[1]}" if section else setting[1], number
