"""`Shell`: the commands of a shell script, its variables replaced, each word with its line.

It reads what launch scripts hold: assignments, arrays, quotes, sums, defaults such as `${TP:-8}`, and branches whose
conditions follow from the script. A word that needs a variable which the script does not set is marked `unset`; one
that depends on a branch which cannot be decided has a `doubt`. All work is bounded: MOST_SCRIPT_B, MOST_EXPANDED, and
the depth of nested substitutions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.decide.planner.imports.shell_branches import Branches

MOST_SCRIPT_B = 256 * 1024
MOST_EXPANDED = 512 * 1024
"""Letters that variables may add to a script."""
NAME = r"[A-Za-z_]\w*"
ASSIGNED = re.compile(rf"({NAME})(\+?)=")
DECLARES = ("export", "declare", "local", "readonly", "typeset")
BATCH = re.compile(
    r"^#SBATCH\s+(?:--(nodes|ntasks-per-node|ntasks|gpus-per-node)[= ]\s*|-([Nn])\s*|--(gres)[= ]gpu:(?:\w+:)?)(\d+)\b",
    re.M,
)
SLURM = {"nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
         "ntasks": ("SLURM_NTASKS",), "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
         "gres": ("SLURM_GPUS_ON_NODE",)}  # fmt: skip
"""Variables that Slurm sets from the options of a batch script."""


@dataclass(frozen=True, slots=True)
class Word:
    """Text of a script, from one line of it."""

    text: str
    line: int
    unset: bool = False
    """Whether it depends on a variable that the script does not set; its text names the variable."""
    doubt: str | None = None
    """What it is if a branch goes the other way; None where it is certain."""

    def joined(self, other: Word) -> Word:
        """This word with another behind it."""
        doubt = self.doubt if self.doubt is not None else other.doubt
        return Word(self.text + other.text, self.line, self.unset or other.unset, doubt)


Pieces = tuple[Word, ...]
"""A text, as the parts of it that come from one line each."""
Value = tuple[Pieces, ...]
"""Of a variable: one text, or the elements of an array."""


@dataclass(slots=True)
class Shell:
    """Variables and branches while a script is read."""

    file: str
    variables: dict[str, Value] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    unused: dict[str, None] = field(default_factory=dict)
    """Variables that no word has used yet."""
    branches: Branches = field(init=False)
    spent: int = 0

    def __post_init__(self) -> None:
        self.branches = Branches(self.file)

    def commands(self, pieces: Iterable[Word], depth: int = 0) -> Iterator[list[Pieces]]:
        """The commands in a text. Raises BadInput located at its line for one that cannot be read."""
        from lockstep.decide.planner.imports.shell_words import Reading

        for words in Reading(self, tuple(pieces), depth).commands():
            if not self.branches.skips and words and not self._sets(words):
                yield words

    def refuse(self, why: str, line: int) -> BadInput:
        """The error of something that cannot be read."""
        return BadInput(why, f"{self.file}:{line}")

    def value(self, name: str) -> Value | None:
        """The value of a variable; None where the script sets none."""
        self.unused.pop(name, None)
        return self.variables.get(name)

    def spend(self, value: Value, line: int) -> None:
        """Counts the letters of expanded variables."""
        self.spent += 1 + sum(1 + len(piece.text) for part in value for piece in part)
        if self.spent > MOST_EXPANDED:
            raise self.refuse(f"variables grow to more than the {MOST_EXPANDED // 1024} KiB allowed", line)

    def assign(self, name: str, value: Value, more: bool = False, array: bool = False) -> None:
        """Sets a variable, or adds to it."""
        if self.branches.skips:
            return
        before = self.variables.get(name)
        if self.branches.doubtful and (before is not None or more):
            if not more and any(piece.unset for part in value for piece in part):
                return
            value = _doubted(value, "" if more or before is None else text_of(before))
        if more and before is not None:
            array = array or name in self.arrays
            value = (*before, *value) if array else ((*(before[0] if before else ()), *value[0]),)
            self.spend(value, value[-1][-1].line if value and value[-1] else 1)
        if array:
            self.arrays.add(name)
        self.variables[name] = value
        self.unused[name] = None

    def _sets(self, words: list[Pieces]) -> bool:
        """Applies a command that only sets variables; False where it is another one."""
        texts = [whole(one).text for one in words]
        if texts[0] == "for" and len(words) > 1:
            self.assign(
                texts[1], (words[3],) if len(words) == 4 else ((Word(f"${texts[1]}", words[0][0].line, True),),)
            )
            return True
        declares = texts[0] in DECLARES
        found = [(one, match) for one, text in zip(words, texts, strict=True) if (match := ASSIGNED.match(text))]
        if not declares and len(found) < len(words):
            return False
        for one, match in found:
            self.assign(match[1], (_behind(one, match.end()),), match[2] == "+")
        return True


def script_shell(text: str, file: str) -> Shell:
    """A shell that knows what Slurm sets from the head of a batch script."""
    shell = Shell(file)
    for match in BATCH.finditer(text):
        name = match[1] or match[3] or {"N": "nodes", "n": "ntasks"}[match[2]]
        for variable in SLURM[name]:
            shell.variables[variable] = ((Word(match[4], text.count("\n", 0, match.start()) + 1),),)
    return shell


def lines_of(text: str) -> Pieces:
    """A text as pieces, one for each line."""
    return tuple(Word(line, number) for number, line in enumerate(text.splitlines(keepends=True), 1))


def whole(pieces: Pieces) -> Word:
    """The pieces of a word as one."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return Word("", 1)
    doubt = next((one.doubt for one in pieces if one.doubt is not None), None)
    return Word("".join(one.text for one in pieces), pieces[0].line, any(one.unset for one in pieces), doubt)


def text_of(value: Value) -> str:
    """A value as one text."""
    return " ".join("".join(piece.text for piece in part) for part in value)


def split(pieces: Pieces) -> Iterator[Pieces]:
    """The words of a text that is not quoted."""
    found: list[Word] = []
    for piece in pieces:
        for part in [piece.text] if piece.unset else re.findall(r"\s+|\S+", piece.text):
            if not part.isspace():
                found.append(replace(piece, text=part))
            elif found:
                yield tuple(found)
                found = []
    if found:
        yield tuple(found)


def _behind(pieces: Pieces, letters: int) -> Pieces:
    """A text without its first letters."""
    kept = []
    for piece in pieces:
        if len(piece.text) > letters:
            kept.append(replace(piece, text=piece.text[letters:]))
        letters = max(0, letters - len(piece.text))
    return tuple(kept)


def _doubted(value: Value, otherwise: str) -> Value:
    """A value that a branch sets, whose other way leaves `otherwise`."""
    if text_of(value) == otherwise:
        return value
    return tuple(tuple(replace(piece, doubt=otherwise) for piece in part) for part in value)
