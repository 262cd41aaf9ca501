"""`Text`: the words of a file, each with its value and line, whatever the file is written in.

JSON, YAML and TOML are read strictly: no word twice, no number that is not finite, bounded size and depth. Words of a
section are joined by dots. A list is a value, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lockstep.base.documents import Locate, parse_json, parse_yaml
from lockstep.base.documents.toml import SETTING, TABLE, flat, parse_toml
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field

MOST_MAPPING_B = 1024 * 1024
"""Of a configuration."""
KEY = re.compile(r"^(?:---|[\"']?[\w./-]+[\"']?\s*:(?:\s|$))")
SHELL = re.compile(r"^\s*(?:export\s+)?[A-Za-z_]\w*\+?=(?! )")
OPTION = re.compile(r"(?:^|[\s\"'(=])--[A-Za-z]", re.MULTILINE)
STARTS = re.compile(r"\b(?:llamafactory-cli|axolotl)[ \t]+train[ \t]")
"""A command that takes a configuration, and need have no options."""
OVERRIDE = re.compile(r"[ \t][+~]{0,2}[A-Za-z_]\w*(?:\.\w+)+=\S")
LOGS = (":::MLLOG", "_size ....")
"""What only logs hold: events of MLPerf, and the list of arguments that Megatron-LM prints."""


class Unset(str):
    """A value that depends on a variable which a script does not set; its text names the variable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Text:
    """What a file says: values by setting, the line of each, and settings that were given twice with another value."""

    file: str
    shape: str
    words: Mapping[str, object]
    lines: Mapping[str, int] = field(default_factory=dict)
    repeated: Mapping[str, str] = field(default_factory=dict)
    """Setting to what was said first, where the last counts."""
    raw: str = field(default="", repr=False)
    branched: Mapping[str, str] = field(default_factory=dict)
    """Setting of a script to what it is if a branch goes the other way, where that cannot be decided."""
    folder: Path | None = None
    """Where the file lies; None for one that is in memory."""

    def where(self, word: str) -> str:
        """The file and line of a setting or of its section."""
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
    """The settings of a text in JSON, YAML or TOML. Raises BadInput located at its line."""
    if len(text) > MOST_MAPPING_B:
        raise BadInput(f"is larger than the {MOST_MAPPING_B // 1024} KiB allowed for a configuration", file)
    if shape == "toml":
        data, locate = parse_toml(text, file)
    else:
        data, locate = parse_json(text, file) if shape == "json" else parse_yaml(text, file, repeats=True)
    return Text(file, shape, dict(flat(data)), _lines(locate), raw=text)


def _lines(locate: Locate) -> dict[str, int]:
    return {".".join(map(str, path)): line for path, line in locate.lines.items() if path}
