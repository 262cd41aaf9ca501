"""`Format`: what a configuration format of other software has, as data: one TOML file per format.

    name, software, source     what to call it, the release that was read, and where its words stand
    shapes                     how it is written: json, yaml, toml, command (options of a script), log, python
    only                       words that no other format of such a shape has: by these it is recognised
    read                       word = [kind, what it is read as], or with the default of the software behind it
    left-out                   word = [kind, what it changes, values with which it changes nothing ...]
    harmless, yours            pattern = kind: changes neither time nor memory; what no plan can decide

A kind is `whole 1..8`, `number 0..`, `switch`, `text`, `list`, `map`, `any` or words joined by `|`; `several KIND` is
one or more of them, as options take; alternatives are joined by ` or `. Words of a section are joined by dots; `*` in a
pattern stands for anything. Formats of commands have the words of `shared/launcher.toml` too. Further keys:

    names                      a table of `export/arguments`: words of kind `parsed` have the kind that stands there; a
                               pattern of kind `parsed, else any` holds words of other releases too
    shared                     words by which it is recognised where no format has words of its own
    files                      names of DeepSpeed's configurations that the software brings, and what these say
    copies                     sections that have the words of others
    extends                    a format whose settings it inherits; its own take precedence
    like, fields, turned-off   its names are fields that stand for options of another format and have their class and
                               kind; fields that are called otherwise; options that are there where a field is false
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json
from lockstep.decide.planner.imports.formats.derived import PARTS, add_fields, copy_sections

NUMERIC = re.compile(r"(whole|number)(?: (-?[\d.e+]+)?\.\.(-?[\d.e+]+)?)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:_\d{3})+(?:\.\d*)?")
"""How YAML 1.1 and Python group the digits of a number."""
SWITCHED = {
    **dict.fromkeys(("true", "yes", "on", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "0"), False),
}
"""How YAML 1.1 and command lines write switches."""
OR_ANY = "parsed, else any"
PARSED = {"int": "whole", "float": "number", "flag": "switch", "bool": "switch", "str": "text", "dict": "map"}
"""Types of the tables of `export` as kinds."""
MOST = 10**15
"""Of a number in a configuration."""


class Unfit(ValueError):
    """A value is not of a kind."""


def converted(kind: str, value: Any) -> Any:
    """A value of a file as its kind has it: a number, a switch as a bool, a list as a tuple. Raises Unfit."""
    for one in kind.split(" or "):
        try:
            return _converted(one, value)
        except Unfit:
            continue
    raise Unfit(f"must be {described(kind)}")


def _converted(kind: str, value: Any) -> Any:
    if kind == "any":
        return value
    if kind.startswith("several "):
        return tuple(_converted(kind[8:], one) for one in (value if isinstance(value, list | tuple) else [value]))
    if (numeric := NUMERIC.fullmatch(kind)) is not None:
        return _number(value, *numeric.groups())
    if kind == "switch":
        found = value if isinstance(value, bool) else SWITCHED.get(str(value).lower())
        if found is None or isinstance(value, list | dict | float):
            raise Unfit
        return found
    if kind == "list":
        if not isinstance(value, list):
            raise Unfit
        return tuple(value)
    if isinstance(value, list | dict) or (kind == "map") or (kind == "text" and not isinstance(value, str)):
        raise Unfit
    if kind != "text" and str(value) not in kind.split("|"):
        raise Unfit
    return str(value)


def _number(value: Any, kind: str, low: str | None, high: str | None) -> int | float:
    """A number in the range; of a command line it is text and DeepSpeed's are whole as 5e8 too."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unfit
    try:
        number = float(value)
    except ValueError:
        raise Unfit from None
    whole = number == number // 1 if abs(number) < MOST else False
    ungrouped = isinstance(value, str) and "_" in value and THOUSANDS.fullmatch(value) is None
    if not abs(number) < MOST or (kind == "whole" and not whole) or ungrouped:
        raise Unfit
    if (low and number < float(low)) or (high and number > float(high)):
        raise Unfit
    return int(number) if kind == "whole" else number


def described(kind: str) -> str:
    """A kind as text."""
    return " or ".join(_described(one) for one in kind.split(" or "))


def _described(kind: str) -> str:
    if kind.startswith("several "):
        return f"one or more of: {_described(kind[8:])}"
    if (numeric := NUMERIC.fullmatch(kind)) is not None:
        what, low, high = numeric.groups()
        between = f" from {low} to {high}" if low and high else f" of at least {low}" if low else ""
        return ("a whole number" if what == "whole" else "a number") + between
    known = {"switch": "true or false", "text": "text", "list": "a list", "map": "a section", "any": "anything"}
    return known.get(kind) or " or ".join(kind.split("|"))


@dataclass(frozen=True)
class Format:
    """What one format has; patterns are looked up in the order of the file."""

    key: str
    name: str
    software: str
    source: str
    shapes: tuple[str, ...]
    only: tuple[str, ...]
    read: Mapping[str, tuple[str, str, Any]]
    """Kind, what it is read as, and the default of the software."""
    left_out: Mapping[str, tuple[str, str, tuple[Any, ...]]]
    """Kind, what it changes, and the values with which it changes nothing."""
    harmless: Mapping[str, str]
    yours: Mapping[str, str]
    extends: str = ""
    """The format whose settings it has too."""
    shared: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Name of a file that the software brings, and its ZeRO stage with what it offloads and whether it overlaps."""
    parsed: Mapping[str, str] = field(default_factory=dict)
    """Kinds of all names that the software's own parser has, for settings of kind "parsed"."""
    options: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """Field to the option that it stands for, and whether that is there where the field is false."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The settings by which it is recognised that have a value: programs that nothing else starts."""
        return tuple(one for one in self.only if "=" in one)

    @cached_property
    def sections(self) -> frozenset[str]:
        """Names that hold settings, and hold no value themselves."""
        words = [*self.read, *self.left_out]
        found = {word[:at] for word in words for at in range(len(word)) if word[at] == "."}
        return frozenset(found - set(words))

    def kind_of(self, word: str) -> tuple[str, str]:
        """The class of a setting before anything is read of it, and its kind; ("unknown", "any") for others."""
        known, kind = self._listed(word)
        if not kind.startswith("parsed"):
            return known, kind
        if word not in self.parsed:
            return (known, "any") if kind == OR_ANY else ("unknown", "any")
        return known, self.parsed[word]

    def _listed(self, word: str) -> tuple[str, str]:
        """The class of a setting and the kind that stands in the table."""
        if word in self.read:
            return "read", self.read[word][0]
        if word in self.left_out:
            return "left out", self.left_out[word][0]
        for name, patterns in (("harmless", self.harmless), ("yours", self.yours)):
            if word in patterns:
                return name, patterns[word]
        return self._by_pattern(word)[:2]

    def what_is_left_out(self, word: str) -> tuple[str, tuple[Any, ...]]:
        """What a setting under `left-out` changes, and the values with which it changes nothing."""
        found = word if word in self.left_out else self._by_pattern(word)[2]
        return self.left_out[found if found in self.left_out else found.removesuffix(".*")][1:]

    def _by_pattern(self, word: str) -> tuple[str, str, str]:
        """The class, the kind and the first pattern that a setting has."""
        regex, found = self._patterns
        match = regex.fullmatch(word)
        return ("unknown", "any", "") if match is None or match.lastindex is None else found[match.lastindex - 1]

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], list[tuple[str, str, str]]]:
        """All patterns at once, a group each: a file may hold thousands of settings that only patterns have."""
        kinds_of = {one: kind for one, (kind, *_) in self.left_out.items()}
        named = (("left out", kinds_of), ("harmless", self.harmless), ("yours", self.yours))
        found = [(name, kind, one) for name, kinds in named for one, kind in kinds.items() if "*" in one]
        # A setting that may be a section is left out with all that stands in it.
        found += [
            ("left out", "any", f"{one}.*")
            for one, kind in kinds_of.items()
            if "*" not in one and "any" in kind.split(" or ")
        ]
        return re.compile("|".join(f"({translate(one)})" for _, _, one in found) or r"(?!)"), found


@cache
def format_of(key: str) -> Format:
    """The format of that name."""
    data = _table(f"{key}.toml")
    copy_sections(data)
    if "like" in data:
        add_fields(data, format_of(data["like"]), _parsed(data["names"]))
    parsed = _parsed(data.get("names", ""))

    def known(kind: str, word: str) -> str:
        """The kind of a setting that is no pattern."""
        if word not in parsed or not kind.startswith("parsed"):
            return kind
        return parsed[word] if kind == OR_ANY else kind.replace("parsed", parsed[word])

    read = {
        word: (known(kind, word), said, more[0] if more else None) for word, (kind, said, *more) in data["read"].items()
    }
    left = {word: (known(kind, word), why, tuple(off)) for word, (kind, why, *off) in data["left-out"].items()}
    harmless, yours = ({word: known(kind, word) for word, kind in data[part].items()} for part in ("harmless", "yours"))
    return Format(
        key, data["name"], data["software"], data["source"], tuple(data["shapes"]), tuple(data["only"]),
        read, left, harmless, yours, data.get("extends", ""), tuple(data.get("shared", ())), data.get("files", {}),
        parsed, data.get("options", {}),
    )  # fmt: skip


def _table(name: str) -> Json:
    """A table of this folder, with the settings of the tables that it extends; its own take precedence."""
    data: Json = shipped_table(__name__, *name.split("/"))
    others = (
        [data["extends"]] if "extends" in data else ["shared/launcher"] if "command" in data.get("shapes", ()) else []
    )
    own = {word for part in PARTS for word in data.get(part, ())}
    for other in map(_table, (f"{one}.toml" for one in others)):
        data.setdefault("names", other.get("names", ""))
        for part in PARTS:
            kept = {word: kind for word, kind in other[part].items() if word not in own}
            data[part] = {**data.get(part, {}), **kept}
    return {**{part: {} for part in PARTS}, **data}


def _parsed(target: str) -> Mapping[str, str]:
    """The kinds of the names that the parser of a target of `export` takes."""
    if not target:
        return {}
    from lockstep.decide.planner.export.arguments import arguments

    return {name: _as_kind(kind) for name, kind in arguments(target).names.items()}


def _as_kind(kind: str | tuple[str, ...]) -> str:
    if isinstance(kind, tuple):
        return "|".join(kind)
    if kind.endswith("+"):
        return f"several {_as_kind(kind[:-1])}"
    return PARSED.get(kind, kind)


@cache
def meaningful() -> frozenset[str]:
    """Parts of names that stand for something that changes time or memory, in any format."""
    words = [word for key in keys() for kinds in (format_of(key).read, format_of(key).left_out) for word in kinds]
    return frozenset(part for word in words for part in parts(word)) - GENERIC


def parts(word: str) -> set[str]:
    """The parts of a name: `moe-intermediate-size` has three, as `moeIntermediateSize`."""
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", word).lower()))


def keys() -> tuple[str, ...]:
    """All formats, by the names of their files."""
    return tuple(sorted(one.name[:-5] for one in files(__name__).iterdir() if one.name.endswith(".toml")))


GENERIC = frozenset({
    "a", "and", "args", "by", "cfg", "config", "data", "default", "dir", "enable", "enabled", "file", "for", "from",
    "id", "in", "init", "is", "kwargs", "launcher", "max", "min", "mode", "model", "name", "no", "not", "num",
    "number", "of", "on", "or", "path", "per", "policy", "size", "the", "to", "train", "trainer", "training", "type",
    "use", "value", "with",
})  # fmt: skip
"""Parts of names that say nothing of time or memory."""

__all__ = ["Format", "Unfit", "converted", "described", "format_of", "keys", "meaningful", "parts"]
