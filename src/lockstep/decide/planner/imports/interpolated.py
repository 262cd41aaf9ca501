"""`interpolated`: the settings of an OmegaConf file with `${...}` resolved within the file.

    ${policy.precision}, ${.sibling}      another setting, of the whole file or of the same section
    ${oc.select:a.b,default}              a setting, or the default where the file has none
    ${mul:${a.b},4}                       a product; add, sub, div and max too, as NeMo-RL registers them

What needs something else, such as the environment, is an `Unset` value.
Source: OmegaConf 2.3, grammar and `oc.*` resolvers; nemo_rl/utils/config.py of NeMo-RL.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.decide.planner.imports.text import Text, Unset

MOST_NESTED = 16
"""References that lead to one another."""
MOST_STEPS = 50_000
"""References of a file, each counted as often as it is followed."""
LONGEST = 2_000
"""Characters of a value with references."""
RESOLVER = re.compile(r"([a-z][\w.]*):(.*)", re.DOTALL)
SUMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "max": max
}  # fmt: skip
NUMBER = re.compile(r"-?\d{1,15}")


def interpolated(text: Text) -> Text:
    """The same text with its references resolved. Raises BadInput for those that lead in a circle."""
    if "${" not in text.raw and not any("${" in str(value) for value in text.words.values()):
        return text
    sections = {word[:at] for word in text.words for at in range(len(word)) if word[at] == "."}
    resolver = _Resolver(text, sections)
    return replace(text, words={word: resolver.value(word) for word in text.words})


@dataclass(slots=True)
class _Resolver:
    """What the settings of a text stand for."""

    text: Text
    sections: set[str]
    known: dict[str, object] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    steps: int = 0

    def value(self, word: str) -> object:
        """The value of a setting."""
        if word not in self.known:
            if word in self.open or len(self.open) >= MOST_NESTED:
                raise BadInput(
                    f"{word} refers to itself, or through more than {MOST_NESTED} words", self.text.where(word)
                )
            said = self.text.words[word]
            self.open.append(word)
            self.known[word] = self._resolved(said, word) if isinstance(said, str) and "${" in said else said
            self.open.pop()
        return self.known[word]

    def _resolved(self, said: str, word: str) -> object:
        """A text with references: the value of one that is alone, else the text with each in its place."""
        if len(said) > LONGEST:
            return Unset(said[:LONGEST])
        done = ""
        rest = said
        while (start := rest.find("${")) >= 0:
            end = _closing(rest, start)
            if end is None:
                return Unset(said)
            found = self._reference(rest[start + 2 : end], word)
            if isinstance(found, Unset) or (not done and not start and end == len(rest) - 1):
                return Unset(said) if isinstance(found, Unset) else found
            done += rest[:start] + _written(found)
            rest = rest[end + 1 :]
        return (done + rest)[:LONGEST]

    def _reference(self, inner: str, word: str) -> object:
        """What stands between braces."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise BadInput(f"has more than the {MOST_STEPS:,} references allowed", self.text.where(word))
        resolver = RESOLVER.fullmatch(inner.strip())
        if resolver is None:
            return self._word(inner.strip(), word, Unset(inner))
        name, arguments = resolver[1], _split(resolver[2])
        if name == "oc.select" and arguments:
            default = self._argument(arguments[1], word) if len(arguments) > 1 else None
            return self._word(arguments[0], word, default)
        if name in SUMS and len(arguments) == 2:
            first, second = (self._argument(one, word) for one in arguments)
            if _is_number(first) and _is_number(second) and (second or name != "div"):
                return SUMS[name](first, second)
        return Unset(inner)

    def _word(self, path: str, word: str, default: object) -> object:
        """The value of another setting; of a path that begins with dots, from the section that those lead up to."""
        if path.startswith("."):
            up = len(path) - len(path.lstrip("."))
            section = word.split(".")[:-up]
            path = ".".join([*section, path.lstrip(".")])
        if path in self.text.words:
            return self.value(path)
        return Unset(path) if path in self.sections else default

    def _argument(self, said: str, word: str) -> object:
        """An argument of a resolver, which may have references of its own."""
        if "${" in said:
            return self._resolved(said.strip(), word)
        plain = said.strip().lower()
        if plain in ("null", "true", "false"):
            return json.loads(plain)
        if NUMBER.fullmatch(plain):
            return int(plain)
        return {} if plain in ("{}", "") else [] if plain == "[]" else said.strip().strip("'\"")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _closing(said: str, start: int) -> int | None:
    """Where the brace that is opened at `start` closes."""
    depth = 0
    for place in range(start, len(said)):
        depth += (said[place] == "{") - (said[place] == "}")
        if depth == 0 and place > start + 1:
            return place
    return None


def _split(arguments: str) -> list[str]:
    """Arguments of a resolver: commas within braces are theirs."""
    found, depth = [""], 0
    for letter in arguments:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
