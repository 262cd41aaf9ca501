"""`Format`: what a configuration format of other software has, as data: one TOML file per format.

    name, software, source     what to call it, the release that was read, and where its words stand
    shapes                     how it is written: json, yaml, toml, command (options of a script), log, python
    only                       words that no other format of such a shape has: by these it is recognised
    read                       word = [kind, what it is read as], or with the default of the software behind it
    left-out                   word = [kind, what it changes, values with which it changes nothing ...]
    harmless, yours            pattern = kind: changes neither time nor memory; what no plan can decide

A kind is `whole 1..8`, `number 0..`, `switch`, `text`, `list`, `map`, `any` or words joined by `|`; `several KIND` is
one or more of them, as options take; alternatives are joined by ` or `. Formats of commands have the words of
`shared/launcher.toml` too. Words of a section are joined by dots; `*` in a pattern stands for anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

NUMERIC = re.compile(r"(whole|number)(?: (-?[\d.e+]+)?\.\.(-?[\d.e+]+)?)?")
SWITCHED = {
    **dict.fromkeys(("true", "yes", "on", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "0"), False),
}
"""How YAML 1.1 and command lines write switches."""
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
        return tuple(_converted(kind[8:], one) for one in (value if isinstance(value, list) else [value]))
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
    """A number in the range; of a command line it is text, and DeepSpeed's are whole as 5e8 too."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Unfit
    try:
        number = float(value)
    except ValueError:
        raise Unfit from None
    whole = number == number // 1 if abs(number) < MOST else False
    if not abs(number) < MOST or (kind == "whole" and not whole) or (isinstance(value, str) and "_" in value):
        raise Unfit
    if (low and number < float(low)) or (high and number > float(high)):
        raise Unfit
    return int(number) if kind == "whole" else number


def described(kind: str) -> str:
    """A kind in words."""
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

    @cached_property
    def sections(self) -> frozenset[str]:
        """Names that hold words, and hold no value themselves."""
        words = [*self.read, *self.left_out]
        found = {word[:at] for word in words for at in range(len(word)) if word[at] == "."}
        return frozenset(found - set(words))

    def kind_of(self, word: str) -> tuple[str, str]:
        """The class of a word before anything is read of it, and its kind; ("unknown", "any") for others."""
        if word in self.read:
            return "read", self.read[word][0]
        if word in self.left_out:
            return "left out", self.left_out[word][0]
        left = {pattern: kind for pattern, (kind, *_) in self.left_out.items() if "*" in pattern}
        named = (("left out", left), ("harmless", self.harmless), ("yours", self.yours))
        for name, patterns in named:
            if word in patterns:
                return name, patterns[word]
        if not self._any_pattern.fullmatch(word):
            return "unknown", "any"
        return next((name, kind) for name, patterns in named for pattern, kind in patterns.items()
                    if fnmatchcase(word, pattern))  # fmt: skip

    def what_is_left_out(self, word: str) -> tuple[str, tuple[Any, ...]]:
        """What a word under `left-out` changes, and the values with which it changes nothing."""
        pattern = word if word in self.left_out else next(one for one in self.left_out if fnmatchcase(word, one))
        return self.left_out[pattern][1:]

    @cached_property
    def _any_pattern(self) -> re.Pattern[str]:
        """All patterns at once: a file may hold thousands of words that none of them has."""
        patterns = [one for one in (*self.left_out, *self.harmless, *self.yours) if "*" in one]
        return re.compile("|".join(map(translate, patterns)) or r"(?!)")


@cache
def format_of(key: str) -> Format:
    """The format of that name."""
    import tomllib

    data = tomllib.loads(files(__name__).joinpath(f"{key}.toml").read_text(encoding="utf-8"))
    if "command" in data["shapes"]:
        shared = tomllib.loads(files(__name__).joinpath("shared", "launcher.toml").read_text(encoding="utf-8"))
        for part in ("read", "harmless"):
            data[part] = {**shared[part], **data.get(part, {})}
    read = {word: (kind, said, more[0] if more else None) for word, (kind, said, *more) in data["read"].items()}
    left = {word: (kind, why, tuple(off)) for word, (kind, why, *off) in data.get("left-out", {}).items()}
    return Format(
        key, data["name"], data["software"], data["source"], tuple(data["shapes"]), tuple(data["only"]),
        read, left, data.get("harmless", {}), data.get("yours", {}),
    )  # fmt: skip


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
    "id", "in", "init", "is", "kwargs", "max", "min", "mode", "model", "name", "no", "not", "num", "number", "of", "on",
    "or", "path", "per", "policy", "size", "the", "to", "train", "trainer", "training", "type", "use", "value", "with",
})  # fmt: skip
"""Parts of names that say nothing of time or memory."""

__all__ = ["Format", "Unfit", "converted", "described", "format_of", "keys", "meaningful", "parts"]
