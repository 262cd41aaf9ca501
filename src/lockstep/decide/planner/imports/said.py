"""`Said`: the words of a file under its format, each checked before anything is read and classified afterwards.

    said["zero_optimization.stage"]        the value as its kind has it, or the default of the software
    said.rows()                            what became of every word: the table that an answer carries

A word is *read* if a reader asked for it, so that the table cannot promise more than was looked at. One that the format
knows, and that nothing asked for, changes nothing beside the others. Misspelled words, and those whose names are like
names that change time or memory, are refused until they are accepted by name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any

from lockstep.base.errors import BadInput, closest
from lockstep.base.records import dataclass, field
from lockstep.decide.planner.from_file import Row
from lockstep.decide.planner.imports.formats import Format, Unfit, converted, meaningful, parts
from lockstep.decide.planner.imports.text import Text, Unset

UNDECIDED = "depends on what this file does not say; the software's default is taken"
NOTHING_BESIDE = "has no effect beside the others"
MOST_NAMED = 5
"""Settings that one refusal names."""
MOST_UNKNOWN = 200
"""Settings that a format does not have; more are a file of another kind."""
NAMED = re.compile(r"/[\w.+-]+$")
"""The end of a path that names a file or a model in a folder that a script leaves open."""
MISSPELLED = 0.85
"""Likeness from which a setting is taken for a misspelled one."""


@dataclass(slots=True)
class Said:
    """The settings of a text under a format. Raises BadInput for a value of another kind and for refused settings."""

    format: Format
    text: Text
    accepted: Collection[str] = ()
    given: bool = False
    """Whether a model stands beside the file, whose shape counts."""
    asked: set[str] = field(default_factory=set)
    noted: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Class and meaning of settings that a reader decided on."""
    values: dict[str, Any] = field(default_factory=dict)
    inner: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    """What became of the settings of a section that another format reads, by its name."""

    def __post_init__(self) -> None:
        for word, value in self.text.words.items():
            if value is not None and value != {} and (checked := self._checked(word, value)) is not None:
                self.values[word] = checked
        self._refuse_unknown()

    def __getitem__(self, word: str) -> Any:
        """The value of a setting of the format, or the default of the software; it counts as read."""
        kind, _, default = self.format.read[word]
        self.asked.add(word)
        value = self.values.get(word, default)
        return None if value == "auto" and kind.endswith("or auto") else value

    def __contains__(self, word: str) -> bool:
        """Whether the file has a value for it."""
        return word in self.values

    def automatic(self, word: str) -> bool:
        """Whether the file leaves it to the software."""
        return self.values.get(word) == "auto"

    def undecided(self, *words: str) -> bool:
        """Whether the file leaves one of some settings to something else."""
        return any(isinstance(self.text.words.get(word), Unset) for word in words)

    def leave(self, word: str, why: str) -> None:
        """Notes that the value of a setting cannot be said here: `why` names what it changes."""
        self.noted[word] = ("unknown", f"not modelled: {why}")

    def open(self, word: str, why: str) -> None:
        """Notes that a setting leaves to other software what an answer had to assume."""
        self.noted[word] = ("yours", why)

    def idle(self, section: str) -> None:
        """Notes that the settings of a section have no effect, apart from those that were asked for."""
        for word in self.text.words:
            if word.startswith(section) and word not in self.asked:
                self.noted[word] = ("harmless", NOTHING_BESIDE)

    def contradiction(self, word: str, why: str) -> None:
        """Notes that a setting contradicts another; `why` says which one counts."""
        self.noted[word] = ("contradictory", why)

    def refuse(self, word: str, why: str) -> BadInput:
        """The error of a setting whose value cannot stand, located at its line."""
        return BadInput(f"{word} {why}", self.text.where(word))

    def rows(self) -> tuple[Row, ...]:
        """What became of every setting, in the order of the file; settings that other formats read stand last."""
        sections = tuple(f"{section}." for section in self.inner)
        own = {word: value for word, value in self.text.words.items() if not word.startswith(sections)}
        found = (Row(word, value, *self._became(word, value)) for word, value in own.items())
        return (*found, *(row for rows in self.inner.values() for row in rows))

    def _became(self, word: str, value: object) -> tuple[str, str]:
        known, _ = self.format.kind_of(word)
        if word in self.text.repeated:
            return "contradictory", f"given twice, first as {self.text.repeated[word]}; the last counts"
        if word in self.text.branched and known not in ("harmless", "yours"):
            otherwise = self.text.branched[word] or "absent"
            return (
                "contradictory",
                f"depends on a condition that the script does not decide; it is {otherwise} otherwise",
            )
        if word in self.noted:
            return self.noted[word]
        if word.startswith("$"):
            return "unknown", "options that the script does not say"
        if value is None or value == {}:
            return "harmless", "no value"
        if known == "read":
            return ("read", self.format.read[word][1]) if word in self.asked else ("harmless", NOTHING_BESIDE)
        if known == "left out":
            why, off = self.format.what_is_left_out(word)
            off_here = self._off(word, off)
            return ("harmless", "at a value that changes nothing") if off_here else ("unknown", f"not modelled: {why}")
        if known == "yours":
            return "yours", "no plan can decide it"
        if known == "harmless":
            return "harmless", "changes neither time nor memory"
        near = closest(word, list(self.format.read))[:1]
        return "unknown", f"no word of {self.format.software}" + (f"; the nearest is {near[0]}" if near else "")

    def _off(self, word: str, off: tuple[Any, ...]) -> bool:
        value = self.values[word]
        usual = () if any(one is True for one in off) else (False, 0, "", "none")
        return value in (*usual, *off) or self.automatic(word)

    def _checked(self, word: str, value: Any) -> Any:
        known, kind = self.format.kind_of(word)
        if isinstance(value, Unset):
            return self._unset(word, known, value, kind)
        if word in self.format.sections:
            raise self.refuse(word, f"is a section of {self.format.software} and holds settings, not {_short(value)}")
        named = kind == "text" and known in ("harmless", "yours")
        if named and isinstance(value, list | int | float) and not isinstance(value, bool):
            # A path with spaces that a script does not quote, or a run that is called 7; what it is does not matter.
            return value
        try:
            return value if known == "unknown" else converted(kind, value)
        except Unfit as error:
            raise self.refuse(word, f"{error}, got {_short(value)}") from None

    def _unset(self, word: str, known: str, value: Unset, kind: str) -> str | None:
        """A value that a script does not say. Raises BadInput where it would change time or memory."""
        if self.given and known == "read" and self.format.read[word][1] == "model":
            self.noted[word] = ("yours", "the script does not say it; the model beside it counts")
            return None
        if kind == "text" and (known == "left out" or NAMED.search(value)):
            return str(value)
        if word.startswith("launcher."):
            self.noted[word] = ("yours", "the script does not say it")
            return None
        if known in ("read", "left out") and self.text.shape == "yaml":
            self.noted[word] = ("unknown", UNDECIDED)
            return None
        if known in ("read", "left out"):
            instead = ", or give MODEL@FILE" if known == "read" and self.format.read[word][1] == "model" else ""
            raise self.refuse(word, f"is {_short(str(value))}, which the script does not set: write its value{instead}")
        return value

    def _refuse_unknown(self) -> None:
        """Raises BadInput for settings that may be meant to change time or memory, all at once."""
        classes = {word: self.format.kind_of(word)[0] for word in self.values}
        unknown = [word for word, kind in classes.items() if kind == "unknown" and not self._is_accepted(word)]
        if len(unknown) > MOST_UNKNOWN:
            raise self.refuse(
                unknown[0], f"and {len(unknown) - 1:,} other settings are not settings of {self.format.software}"
            )
        found = [word for word in unknown if word[:1] != "$" and (parts(word) & meaningful() or self._near(word))]
        if not found:
            return
        word, near = found[0], self._near(found[0])
        meant = f"; did you mean {near}?" if near else ""
        others = ", ".join(found[1:MOST_NAMED]) + (", ..." if len(found) > MOST_NAMED else "")
        more = f" So are {others}." if others else ""
        raise self.refuse(
            word,
            f"is not a setting of {self.format.software}, and its name resembles those that change time or "
            f"memory{meant}{more} To ignore a setting: --accept-unknown {word}",
        )

    def _near(self, word: str) -> str:
        """The setting of the format that is probably meant, or nothing."""
        known = {**self.format.read, **self.format.left_out}
        near = difflib.get_close_matches(word, known, 1, MISSPELLED)
        last = word.rpartition(".")[2]
        return near[0] if near else next((one for one in known if one.rpartition(".")[2] == last), "")

    def _is_accepted(self, word: str) -> bool:
        return any(fnmatchcase(word, pattern.lstrip("-")) for pattern in self.accepted)


def _short(value: object) -> str:
    return repr(value)[:40]
