"""Strict reading of YAML and JSON files: plain data with a line number for every key, or one `BadInput`.

    data, locate = read_yaml(path)            # or read_json(path); the top level is a mapping
    locate("levels", 0, "link")               # "cluster.yaml:12"
    model = validated(ClusterFile, data, locate)

Every failure is a `BadInput` "file:line: message". Refused: duplicate keys, tags, anchors, several documents,
non-finite numbers, files too large or nested too deep. Scalars follow YAML 1.2: `50e9` is a number, while `NO`,
`12:30` and `.inf` stay text, so that a name is never a boolean and a ratio never a number of seconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from lockstep.base.documents.files import File, read_text
from lockstep.base.errors import BadInput, brief, instead, suggestion
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    Model = TypeVar("Model", bound=BaseModel)

SCHEMA = 1
"""Of files that users write and of answers in JSON; it rises when a key changes its meaning."""
MAX_YAML_B = 256 * 1024
MAX_JSON_B = 4 * 1024 * 1024
MAX_DEPTH = 32
MAX_ITEMS = 200_000

Key = str | int
Scalar = str | int | float | bool | None
Document = Json

# What a parser hands to the builder: ("{" | "[" | "end" | "scalar", value, line counted from 1).
Event = tuple[str, Scalar, int]

_YAML_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_YAML_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_YAML_WORDS: dict[str, Scalar] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
UNBOUNDED = ("Infinity", "-Infinity")
"""What files of Hugging Face write for no limit (`time_step_limit`); read as null."""
_JSON_TOKEN = re.compile(r'\n|[{}\[\]]|"(?:[^"\\]|\\.)*"|[^\s{}\[\]",:]+')


@dataclass(frozen=True, slots=True)
class Locate:
    """Where a key stands: `locate("levels", 0)` is "file:line" of the longest part of that path that exists."""

    file: str
    lines: Mapping[tuple[Key, ...], int]

    def __call__(self, *path: Key) -> str:
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.file}:{line}"
        return self.file


def read_yaml(path: File, repeats: bool = False) -> tuple[Document, Locate]:
    """The mapping in a YAML file without its `schema`, and where each key stands. Raises BadInput for a newer one."""
    data, locate = parse_yaml(read_text(path, MAX_YAML_B), str(path), repeats)
    said = data.pop("schema", SCHEMA)
    if type(said) is not int or said != SCHEMA:
        raise BadInput(f"this Lockstep reads schema {SCHEMA}, not {brief(json.dumps(said))}", locate("schema"))
    return data, locate


def parse_yaml(text: str, file: str, repeats: bool = False) -> tuple[Document, Locate]:
    """The mapping in YAML text that is called `file`, and where each key stands.

    With `repeats` a key may be given again with the same plain value, as files of other software do.
    """
    return _mapping(file, _yaml_events(text, file), repeats)


def read_json(path: str | Path) -> tuple[Document, Locate]:
    """The mapping in a JSON file, and where each key stands."""
    return parse_json(read_text(path, MAX_JSON_B), str(path))


def parse_json(text: str, file: str) -> tuple[Document, Locate]:
    """The mapping in JSON text that is called `file`, and where each key stands."""
    _check_json(text, file)
    return _mapping(file, _json_events(text))


def validated(model: type[Model], data: Mapping[str, object], locate: Locate) -> Model:
    """`data` as a pydantic `model`; its first problem becomes one located `BadInput` with a suggestion."""
    from pydantic import ValidationError

    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    raise _explained(problems, model, data, locate)


# --- reading -------------------------------------------------------------------------------------------------


def _yaml_events(text: str, file: str) -> Iterator[Event]:
    """The events of one YAML document; syntax errors, tags, anchors and second documents are refused."""
    import yaml

    documents = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            line = event.start_mark.line + 1 if event.start_mark else 1
            tag = getattr(event, "tag", None)
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise BadInput("anchors and aliases are not supported; write the value out", f"{file}:{line}")
            if tag:
                raise BadInput(f"tag {tag!r} is not supported; quote the text instead", f"{file}:{line}")
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise BadInput("holds a second document; one per file is allowed", f"{file}:{line}")
            elif isinstance(event, yaml.MappingStartEvent):
                yield "{", None, line
            elif isinstance(event, yaml.SequenceStartEvent):
                yield "[", None, line
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                yield "end", None, line
            elif isinstance(event, yaml.ScalarEvent):
                yield "scalar", _yaml_scalar(event.value) if event.implicit[0] else event.value, line
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be understood"
        if "nesting depth" in problem:
            problem = f"nested deeper than the {MAX_DEPTH} levels allowed"
        raise BadInput(f"not valid YAML: {problem}", f"{file}:{mark.line + 1}" if mark else file) from None


def _yaml_scalar(text: str) -> Scalar:
    """A plain scalar by the rules of YAML 1.2, except that what is not finite stays text."""
    if text in _YAML_WORDS:
        return _YAML_WORDS[text]
    if _YAML_INTEGER.fullmatch(text):
        return int(text)
    if _YAML_FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def _check_json(text: str, file: str) -> None:
    """Refuses text that is not JSON, but for UNBOUNDED."""

    def refuse(constant: str) -> None:
        if constant not in UNBOUNDED:
            raise ValueError(f"{constant} is not a JSON number")

    try:
        json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise BadInput(f"not valid JSON: {error.msg}", f"{file}:{error.lineno}") from None
    except ValueError as error:
        raise BadInput(f"not valid JSON: {str(error).partition(';')[0]}", file) from None
    except RecursionError:
        raise BadInput(f"is nested deeper than the {MAX_DEPTH} levels allowed", file) from None


def _json_events(text: str) -> Iterator[Event]:
    """The events of JSON text that is known to be valid."""
    line = 1
    for match in _JSON_TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            yield token, None, line
        elif token in "}]":
            yield "end", None, line
        else:
            yield "scalar", None if token in UNBOUNDED else json.loads(token), line


# --- building ------------------------------------------------------------------------------------------------


def _mapping(file: str, events: Iterable[Event], repeats: bool = False) -> tuple[Document, Locate]:
    """The document that the events describe, which must be a mapping."""
    builder = _Builder(file, repeats)
    for event in events:
        builder.add(*event)
    if not isinstance(builder.root, dict):
        what = "is empty" if builder.root is None else "does not hold a mapping"
        raise BadInput(f"{what}; write `key: value` pairs", f"{file}:1")
    return builder.root, Locate(file, builder.lines)


class _Builder:
    """Turns events into dictionaries and lists without recursion, and remembers the line of every path."""

    def __init__(self, file: str, repeats: bool = False) -> None:
        self.file, self.repeats = file, repeats
        self.root: Any = None
        self.lines: dict[tuple[Key, ...], int] = {}
        self.open: list[Json | list[Any]] = []
        self.path: list[Key] = []
        self.key: str | None = None
        self.key_line = 0

    def add(self, kind: str, value: Scalar, line: int) -> None:
        """Takes the next event."""
        if kind == "end":
            self.open.pop()
            if self.path:
                self.path.pop()
        elif self._expects_key():
            self._take_key(kind, value, line)
        else:
            self._take_value(kind, value, line)

    def _expects_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1], dict) and self.key is None

    def _take_key(self, kind: str, value: Scalar, line: int) -> None:
        """Keys are text, whatever they look like."""
        if kind != "scalar":
            raise BadInput("a key must be a plain word", f"{self.file}:{line}")
        name = _key_text(value)
        if not self.repeats:
            self._refuse_twice(name, line)
        self.key, self.key_line = name, line

    def _refuse_twice(self, name: str, line: int) -> None:
        known = self.lines.get((*self.path, name))
        if known is not None:
            raise BadInput(f"key {_short(name)} is given twice (first on line {known})", f"{self.file}:{line}")

    def _take_value(self, kind: str, value: Scalar, line: int) -> None:
        where = f"{self.file}:{line}"
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput("the number is too large", where)
        made: Any = {} if kind == "{" else [] if kind == "[" else value
        step: list[Key] = []
        if not self.open:
            self.root = made
        elif isinstance(parent := self.open[-1], list):
            step = [len(parent)]
            parent.append(made)
        else:
            name, self.key = str(self.key), None
            step = [name]
            if name in parent and (kind != "scalar" or parent[name] != made or type(parent[name]) is not type(made)):
                self._refuse_twice(name, self.key_line)
            parent[name] = made
        # A block under a key starts on the next line; people look for the key.
        self.lines[(*self.path, *step)] = self.key_line if step and isinstance(step[0], str) else line
        if len(self.lines) > MAX_ITEMS:
            raise BadInput(f"holds more than the {MAX_ITEMS} values allowed", where)
        if kind != "scalar":
            self._enter(made, step, where)

    def _enter(self, made: Json | list[object], step: list[Key], where: str) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise BadInput(f"is nested deeper than the {MAX_DEPTH} levels allowed", where)
        self.open.append(made)
        self.path.extend(step)


def _key_text(value: Scalar) -> str:
    """A key as text: `true`, `null` and numbers are ordinary names on the left of a colon."""
    return value if isinstance(value, str) else json.dumps(value)


# --- explaining ----------------------------------------------------------------------------------------------


def _explained(
    problems: list[ErrorDetails], model: type[BaseModel], data: Mapping[str, object], locate: Locate
) -> BadInput:
    """One sentence on the problem to mend first: an unknown key (often the cause of a missing one), else the first.

    Where a name or a mapping is allowed, ignore the complaint that a mapping is not a string.
    """
    problems = [one for one in problems if not _is_mapping_for_name(one)] or problems
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    path = _path_in(data, first["loc"])
    message = _sentence(first, model)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return BadInput(message + more, locate(*path))


def _is_mapping_for_name(problem: ErrorDetails) -> bool:
    return problem["type"] == "string_type" and isinstance(problem["input"], Mapping)


def _sentence(problem: ErrorDetails, model: type[BaseModel]) -> str:
    """What is wrong, what is allowed, what to try."""
    kind, loc = problem["type"], problem["loc"]
    name = _short(".".join(str(part) for part in loc))
    if kind == "extra_forbidden":
        key, allowed = str(loc[-1]), _allowed_keys(model, loc[:-1])
        return f"unknown key {name}; {instead('key', key, allowed) or suggestion(key, allowed)}"
    if kind == "missing":
        return f"key {name} is missing"
    original = problem.get("ctx", {}).get("error")
    reason = original.message if isinstance(original, BadInput) else problem["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(original, ValueError) else f", got {_short(problem['input'])}"
    return f"{name}: {reason}{shown}" if loc else f"{reason}"


def _path_in(data: object, loc: tuple[Key, ...]) -> tuple[Key, ...]:
    """The part of a pydantic location that exists in the data; labels of unions are not in it."""
    path: list[Key] = []
    for part in loc:
        if isinstance(data, Mapping) and part in data:
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path)


def _allowed_keys(model: type[BaseModel], loc: tuple[Key, ...]) -> list[str]:
    """The keys allowed at a location, in the order of the schema."""
    models = [model]
    for part in loc:
        fields = [each.model_fields[part] for each in models if isinstance(part, str) and part in each.model_fields]
        if fields:
            models = [found for field in fields for found in _models_in(field.annotation)]
        else:
            models = [each for each in models if each.__name__ == part] or models
    return list(dict.fromkeys(name for each in models for name in each.model_fields))


def _models_in(annotation: object) -> list[type[BaseModel]]:
    """The pydantic models inside an annotation such as `list[Level] | None`."""
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for inner in get_args(annotation) for found in _models_in(inner)]


def _short(value: object) -> str:
    """`value` for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
