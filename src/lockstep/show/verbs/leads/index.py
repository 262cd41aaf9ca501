"""What a question may lead to, with the texts by which it is found.

Experiments of the lab and published runs are read from their files as text: importing them takes longer than an answer.
"""

from __future__ import annotations

import csv
import inspect
import re
from ast import literal_eval
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import lockstep
from lockstep.base import vocabulary
from lockstep.base.records import dataclass
from lockstep.show.verbs import TABLE, VERBS
from lockstep.show.verbs.words.option import Argument, Word, words_of

ROOT = Path(lockstep.__file__).parent
EXPERIMENTS, STUDIES = ROOT / "learn/lab/experiments", ROOT / "check/validation/cases/studies"
FACTS, PAGES = ROOT / "learn/lab/facts.csv", Path(__file__).with_name("pages.csv")
QUESTION = re.compile(r"^QUESTION = (\(.*?^\)|.*?$)", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"^title: (.*)$", re.MULTILINE)
KINDS = {"command": 1.6, "page": 1.1, "experiment": 1.0, "claim": 0.85, "option": 0.65, "case": 0.8, "fact": 0.65}
"""Kinds of leads, and how much one counts that is as near to the words of the question as another."""


@dataclass(frozen=True, slots=True)
class Lead:
    """One thing that may answer a question."""

    kind: str
    """A key of KINDS."""
    name: str
    says: str
    """What it is, in a line."""
    command: str
    """What to type; empty for a page of the documentation, which `name` names."""
    more: str = ""
    """Other text by which it is found."""

    def fields(self) -> list[tuple[float, str]]:
        """Its texts, each with its weight."""
        return [(3.0, self.name.replace("/", " ")), (2.0, self.says), (1.0, self.more)]


@cache
def leads() -> tuple[Lead, ...]:
    """Everything that a question may lead to."""
    return (*_commands(), *_options(), *_claims(), *_facts(), *_experiments(), *_cases(), *_pages())


def clause(text: str) -> str:
    """The first sentence of a help text, up to a semicolon."""
    return re.split(r"; |(?<!e\.g)\. | \(default", text, maxsplit=1)[0].rstrip(".") + "."


def _commands() -> Iterator[Lead]:
    for verb, says in ((verb, says) for group in TABLE.values() for verb, says in group.items()):
        about = inspect.getdoc(_function(verb)) or ""
        yield Lead("command", verb, says, f"lockstep {verb} --help", about)


def _function(verb: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(f"lockstep.show.verbs.{verb}"), verb)
    return found


def _options() -> Iterator[Lead]:
    """Each option once, of the first verb that has it, with its names in other software."""
    elsewhere: dict[str, list[str]] = {}
    for other, ours in vocabulary.OPTIONS.items():
        for name in ours:
            elsewhere.setdefault(name, []).append(other)
    seen = set()
    for verb in VERBS:
        words = words_of(_function(verb))
        must = " ".join(_written(word) for word in words if word.default is inspect.Parameter.empty)
        for word in words:
            if isinstance(word.declared, Argument):
                continue
            says = clause(word.declared.help)
            if (word.name, says) not in seen:
                seen.add((word.name, says))
                given = f"lockstep {verb} {must}"
                command = given if _written(word) in must else f"{given} {_written(word)}"
                more = " ".join([word.declared.help, verb, *elsewhere.get(word.name, ())])
                yield Lead("option", _flag(word), says, " ".join(command.split()), more)


def _flag(word: Word) -> str:
    own = getattr(word.declared, "flag", "")
    return own if own.startswith("--") else f"--{word.name.replace('_', '-')}"


def _written(word: Word) -> str:
    """A word as a command line has it."""
    metavar = getattr(word.declared, "metavar", "")
    return metavar if isinstance(word.declared, Argument) else f"{_flag(word)} {metavar}".strip()


def _claims() -> Iterator[Lead]:
    from lockstep.check.evidence.claims.shelf import entries

    for one in entries():
        more = " ".join([one.says, *one.names])
        yield Lead("claim", one.id, one.title, f"lockstep claims {one.id}", more)


def _facts() -> Iterator[Lead]:
    with FACTS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            says = row["statement"] if row["holds"] == "yes" else f"{row['statement']} (false)"
            yield Lead("fact", row["id"], says, f"lockstep claims {row['id']}")


def _experiments() -> Iterator[Lead]:
    for file in sorted(EXPERIMENTS.rglob("*.py")):
        if found := QUESTION.search(file.read_text("utf-8")):
            name = file.stem.replace("_", "-")
            yield Lead("experiment", name, literal_eval(found[1]), f"lockstep converge {name}", file.parent.name)


def _cases() -> Iterator[Lead]:
    for file in sorted(STUDIES.glob("*.yaml")):
        found = TITLE.search(file.read_text("utf-8"))
        says = f"A published run, predicted: {found[1].strip() if found else file.stem}."
        yield Lead("case", file.stem, says, f"lockstep case {file.stem}")


def _pages() -> Iterator[Lead]:
    with PAGES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Lead("page", row["page"], f"{row['title']}.", "", f"{row['says']} {row['headings']}")
