"""`FromFile`: what an answer was read from, where a configuration or a log of other software asked the question.

It is one of the answer's assumptions, a sentence, and carries the table of what became of every word of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, plain
from lockstep.price.layout import Job

CLASSES = ("read", "harmless", "yours", "unknown", "contradictory")
"""What becomes of a word."""
LOUD = ("unknown", "contradictory")
"""Classes of words that are said before a verdict."""
COUNTED = {"read": "read", "harmless": "harmless", "yours": "for you to decide", "unknown": "left out",
           "contradictory": "contradictory"}  # fmt: skip
MOST_SAID = 12
"""Words that are said before a verdict with the reason, each on a line; of more, the names."""


@dataclass(frozen=True, slots=True)
class Row:
    """A word of a file, and what became of it."""

    word: str
    value: object
    kind: str
    """One of CLASSES."""
    meaning: str
    """What it was read as, or why it was not."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"word": self.word, "value": plain(self.value), "class": self.kind, "as": self.meaning}


@dataclass(frozen=True, slots=True)
class Source:
    """A file, the format for which it was taken, and the word by which it was."""

    file: str
    format: str
    recognised_by: str


class FromFile(str):
    """The sentence, with the file and the table behind it."""

    source: Source
    table: Sequence[Row]

    def __new__(cls, sentence: str, source: Source, table: Sequence[Row]) -> FromFile:
        """The sentence with what stands behind it."""
        made = super().__new__(cls, sentence)
        made.source, made.table = source, table
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return FromFile, (str(self), self.source, self.table)

    def counts(self) -> str:
        """For what the file was taken and why, and how many of its words became what."""
        found = Counter(row.kind for row in self.table)
        each = ", ".join(f"{found[kind]} {said}" for kind, said in COUNTED.items() if found[kind])
        known = f"{self.source.file} was read as {self.source.format}, recognised by {self.source.recognised_by}"
        return f"{known}: {len(self.table)} words, {each}."

    def before_the_verdict(self) -> Iterator[str]:
        """What a person must know first: the counts, then every word that was not understood or is contradicted."""
        yield self.counts()
        loud = [row for row in self.table if row.kind in LOUD]
        for row in loud[:MOST_SAID]:
            yield f"  {row.word} {str(row.value)[:40]}: {row.kind}, {row.meaning}"
        if len(loud) > MOST_SAID:
            yield f"  and also {', '.join(row.word for row in loud[MOST_SAID:])}"


def from_file(job: Job) -> FromFile | None:
    """What a job was read from; None where it came from no file of other software."""
    return next((note for note in job.recipe.notes if isinstance(note, FromFile)), None)


def imported(job: Job) -> Json:
    """The file and the table as keys of an answer; nothing where no file was read."""
    found = from_file(job)
    if found is None:
        return {}
    return {"imported_from": plain(found.source), "imported": [row.to_dict() for row in found.table]}
