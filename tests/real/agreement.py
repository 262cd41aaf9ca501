"""Cases in which Lockstep and a package of the field were asked the same, and the table that a run makes of them.

A difference is explained with a reason or fails the test. A reason that explains nothing any more fails it too.
"""

from __future__ import annotations

import datetime
import importlib.metadata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SHOWN = 5
"""Differences that an error lists."""
HEAD = """# Held to the real software

`bash check --real` installs the packages of `tests/real/requirements.txt`, asks each of them what Lockstep is asked,
without a GPU, and writes this page. A case agrees where both give the same answer (whole numbers and orders exactly,
bytes as each test says). A difference stands here with its reason; one without a reason fails the run. A part of the
cases that need PyTorch alone runs with every test of the project.

| Software | Release | What was asked | Cases | Agree | Differ or refused | Why |
|---|---|---|---:|---:|---:|---|
"""


@dataclass
class Answers:
    """What one test asked of `software`, and how the answers compare."""

    software: str
    """The distribution's name, as pip installs it."""
    question: str
    """What was asked, as a row of the page says it."""
    agree: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    def compare(self, case: str, ours: Any, theirs: Any, *, within: float = 0.0, why: str = "") -> None:
        """Counts a case: equal, or numbers within a fraction of theirs; `why` says why this one differs."""
        same = ours == theirs if not within else abs(ours - theirs) <= within * abs(theirs)
        if same and why:
            self.unexplained.append(f"{case}: agrees now, so the reason is out of date: {why}")
        elif same:
            self.agree += 1
        elif why:
            self.reasons[why] += 1
        else:
            self.unexplained.append(f"{case}: Lockstep {ours!r}, {self.software} {theirs!r}")

    def refused(self, case: str, error: Exception, words: str, why: str) -> None:
        """Counts a case that Lockstep refuses with these words in its message, instead of answering wrongly."""
        if words in str(error):
            self.reasons[why] += 1
        else:
            self.unexplained.append(f"{case}: Lockstep refuses with other words: {error}")

    def row(self) -> dict[str, Any]:
        """The same as a row of the table, for a process that collects rows of others."""
        release = importlib.metadata.version(self.software)
        return {"software": self.software, "release": release, "question": self.question, "agree": self.agree,
                "reasons": dict(self.reasons), "unexplained": len(self.unexplained)}  # fmt: skip

    def hold(self) -> None:
        """Fails where a case was not explained, or where nothing was asked at all."""
        assert not self.unexplained, "\n".join([f"{len(self.unexplained)} unexplained", *self.unexplained[:SHOWN]])
        assert self.agree or self.reasons, f"{self.software} was asked nothing about {self.question}"


class Asker:
    """Begins questions and hands their rows to `record`."""

    def __init__(self, record: Any) -> None:
        self.record = record

    @contextmanager
    def __call__(self, software: str, question: str) -> Iterator[Answers]:
        """`with asked("torch", "orders of schedules") as answers:`; holds every case at the end."""
        answers = Answers(software, question)
        yield answers
        self.record("asked", answers.row())
        answers.hold()


def merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the same question added up, in order of software and question."""
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        kept = table.setdefault((row["software"], row["question"]), {**row, "agree": 0, "reasons": Counter()})
        kept["agree"] += row["agree"]
        kept["reasons"].update(row["reasons"])
    return [table[key] for key in sorted(table)]


def page(rows: Iterable[dict[str, Any]], commit: str) -> str:
    """The page of a run, with its date."""
    lines = []
    for row in merged(rows):
        differ = sum(row["reasons"].values())
        why = "; ".join(f"{reason} ({number})" for reason, number in sorted(row["reasons"].items()))
        cells = (row["software"], row["release"], row["question"], row["agree"] + differ, row["agree"], differ, why)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return HEAD + "\n".join(lines) + f"\n\nAsked on {day}, commit {commit}.\n"
