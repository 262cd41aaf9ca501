"""`Branches`: which commands of a script run, as far as its conditions follow from the script.

Conditions are tests of texts and numbers (`[ $SIZE = 7B ]`, `[[ $N -gt 1 ]]`) and the patterns of `case`. One that
cannot be decided leaves both ways in doubt.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from lockstep.base.documents import MAX_DEPTH
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field

if TYPE_CHECKING:
    from lockstep.decide.planner.imports.shell import Word

Known = bool | None
"""None where it cannot be decided."""
NUMBERS = {"-eq": operator.eq, "-ne": operator.ne, "-gt": operator.gt, "-ge": operator.ge, "-lt": operator.lt,
           "-le": operator.le}  # fmt: skip
NUMBER = re.compile(r"-?[0-9]{1,18}")
MOST_PATTERN = 200
PASSED = frozenset({"do", "{", "}", "time", "then", "else"})
OPENS = {"if": "if", "while": "loop", "until": "loop", "for": "loop", "case": "case"}
CLOSES = {"fi": "if", "done": "loop", "esac": "case"}


@dataclass(slots=True)
class Frame:
    """An `if`, a `case` or a loop that is open."""

    kind: str
    taken: Known = False
    """Whether one of its branches was taken."""
    now: Known = True
    """Whether the branch that is read now runs."""
    condition: Known | str = ""
    """What its condition is, while it is read; empty before and behind it."""
    conditional: bool = False
    join: str = ""
    subject: Word | None = None

    def enters(self, condition: Known) -> None:
        """Begins the branch of a condition."""
        if self.taken or condition is False:
            self.now = False
        else:
            self.now = condition if self.taken is False else None
            self.taken = self.now
        self.conditional = False


@dataclass(slots=True)
class Branches:
    """What is open at a place of a script."""

    file: str
    frames: list[Frame] = field(default_factory=list)
    following: Known = True
    """Whether the next command runs, by what stands before && or ||."""

    @property
    def skips(self) -> bool:
        """Whether commands at this place do not run."""
        return self.following is False or any(one.now is False for one in self.frames)

    @property
    def doubtful(self) -> bool:
        """Whether it cannot be decided whether they run."""
        return self.following is None or any(one.now is None for one in self.frames)

    def begun(self, words: Sequence[Word]) -> int:
        """The number of words at the head of a command that belong to branches and not to it."""
        for place, word in enumerate(words):
            text = word.text
            if text in OPENS:
                self._open(OPENS[text], words[place:])
                if text == "for":
                    return place
                if text == "case":
                    return min(len(words), place + 3)
            elif text in CLOSES and self._top(CLOSES[text]):
                self.frames.pop()
            elif text in ("elif", "else", "then") and self._top("if"):
                self._turned(text)
            elif text not in PASSED:
                return place
        return len(words)

    def ended(self, words: Sequence[Word], end: str) -> None:
        """Takes in how a command ended."""
        frame = self.frames[-1] if self.frames else None
        if frame is not None and frame.kind == "case" and frame.conditional:
            self._matched(frame, words, end)
        elif frame is not None and frame.kind == "case" and end.startswith(";;"):
            frame.conditional, frame.condition, frame.now = True, "", False
        elif frame is not None and frame.kind == "if" and frame.conditional:
            if words:
                frame.condition = _both(frame.condition, frame.join, decided(words))
                frame.join = end
            return
        if words or end == "\n":
            self._follow(words, end)

    def _follow(self, words: Sequence[Word], end: str) -> None:
        if end not in ("&&", "||"):
            self.following = True
            return
        known = decided(words) if words and words[0].text in ("[", "[[", "test", "true", "false") else True
        if self.following is not True:
            known = None if self.following is None else False
        self.following = known if end == "&&" else None if known is None else not known

    def _open(self, kind: str, words: Sequence[Word]) -> None:
        if len(self.frames) >= MAX_DEPTH:
            raise BadInput(f"is nested deeper than the {MAX_DEPTH} levels allowed", f"{self.file}:{words[0].line}")
        frame = Frame(kind, conditional=kind != "loop")
        if kind == "case":
            frame.now, frame.subject = False, words[1] if len(words) > 1 else None
        self.frames.append(frame)

    def _top(self, kind: str) -> bool:
        return bool(self.frames) and self.frames[-1].kind == kind

    def _turned(self, text: str) -> None:
        frame = self.frames[-1]
        if text == "elif":
            frame.conditional, frame.condition, frame.now, frame.join = True, "", not frame.taken, ""
        elif text == "then":
            frame.enters(frame.condition if isinstance(frame.condition, bool) else None)
        else:
            frame.enters(True)

    def _matched(self, frame: Frame, words: Sequence[Word], end: str) -> None:
        """Compares a pattern of `case` with its subject."""
        for word in words:
            known = True if word.text == "*" else None
            if known is None and frame.subject is not None and not frame.subject.unset and not word.unset:
                known = _matches(frame.subject.text, word.text)
            frame.condition = _both(frame.condition, "||", known)
        if end == ")" and frame.condition != "":
            frame.enters(frame.condition if isinstance(frame.condition, bool) else None)


def _both(one: Known | str, join: str, other: Known) -> Known:
    """Two conditions joined by && or ||."""
    if isinstance(one, str):
        return other
    if join == "&&":
        return False if one is False or other is False else True if one and other else None
    if join == "||":
        return True if one or other else False if one is False and other is False else None
    return None


def decided(words: Sequence[Word]) -> Known:
    """Whether a command succeeds, of tests of texts and numbers; None for others and for variables that are not set."""
    texts = [one.text for one in words if one.text not in ("[", "]", "[[", "]]", "test")]
    if texts[:1] == ["!"]:
        known = decided(words[1:] if words[0].text == "!" else [one for one in words if one.text != "!"])
        return None if known is None else not known
    if texts in (["true"], ["false"]):
        return texts == ["true"]
    if any(one.unset or one.doubt is not None for one in words) or words[0].text not in ("[", "[[", "test"):
        return None
    if len(texts) == 2 and texts[0] in ("-z", "-n"):
        return (texts[1] == "") == (texts[0] == "-z")
    if len(texts) != 3:
        return None
    left, sign, right = texts
    if sign in ("=", "=="):
        return _matches(left, right) if words[0].text == "[[" else left == right
    if sign == "!=":
        return not (_matches(left, right) if words[0].text == "[[" else left == right)
    if sign in NUMBERS and NUMBER.fullmatch(left) and NUMBER.fullmatch(right):
        return bool(NUMBERS[sign](int(left), int(right)))
    return None


def _matches(text: str, pattern: str) -> bool:
    """Whether a text fits a pattern of a shell; very long ones are compared as they stand."""
    return fnmatchcase(text, pattern) if len(pattern) <= MOST_PATTERN >= len(text) else text == pattern
