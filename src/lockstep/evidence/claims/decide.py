"""Runs the deciders of entries and errata, each number once, cheapest entries first, within a budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.evidence.claims.deciders.table import LAB, decide, found_in, lab_name, nature_of
from lockstep.evidence.claims.entry import Check, Entry, Erratum, Found
from lockstep.evidence.claims.shelf import costs, errata_of
from lockstep.types.plain import Json, picked, plain

if TYPE_CHECKING:
    from lockstep.lab import Check as LabCheck
    from lockstep.lab import Findings
    from lockstep.lab.facts import Fact

Progress = Callable[[int, int], None]
USUAL_S = 0.02
"""Of a decider that is not in the table of costs."""


def _costs_of(by: str) -> str:
    """The row of the table of costs: an experiment, or a decider."""
    return LAB + lab_name(by)[0] if by.startswith(LAB) else by.split()[0]


@dataclass(slots=True)
class Bench:
    """What was found so far, with one seed."""

    seed: int = 0
    numbers: dict[str, Found] = field(default_factory=dict)
    answers: dict[str, Findings] = field(default_factory=dict)

    def experiment(self, name: str) -> Findings:
        """Findings of an experiment with its default settings, run once."""
        from lockstep.lab import find_experiment

        if name not in self.answers:
            self.answers[name] = find_experiment(name).answer({}, self.seed)
        return self.answers[name]

    def find(self, check: Check) -> Found:
        """What decides a check, found once."""
        if check.by not in self.numbers:
            if check.by.startswith(LAB):
                name, what = lab_name(check.by)
                self.numbers[check.by] = found_in(self.experiment(name), what)
            else:
                self.numbers[check.by] = decide(check.by, self.seed)
        return self.numbers[check.by]

    def seconds(self, checks: Iterable[Check]) -> float:
        """Seconds that these checks will take: what has run already is free."""
        table, new = costs(), {_costs_of(one.by): one.by for one in checks if one.by not in self.numbers}
        return sum(
            table.get(what, USUAL_S)
            for what, by in new.items()
            if not (by.startswith(LAB) and lab_name(by)[0] in self.answers)
        )

    def decide(self, entry: Entry) -> dict[Check, Found]:
        """What was found for every check of an entry."""
        return {check: self.find(check) for check in entry.every_check()}


@dataclass(frozen=True, slots=True)
class Decided:
    """An entry with what was found for its checks; `found` is None where nothing ran."""

    entry: Entry
    found: dict[Check, Found] | None = None

    @property
    def verdict(self) -> str:
        """The one that follows from the checks; the registered one where none ran."""
        return self.entry.verdict if self.found is None else self.entry.derived(self.found)

    @property
    def as_registered(self) -> bool | None:
        """Whether the checks came out as known; None where nothing ran."""
        return None if self.found is None else self.verdict == self.entry.verdict

    @property
    def seconds(self) -> float:
        """Processor seconds that the checks take."""
        return Bench().seconds(self.entry.every_check())

    def evidence(self) -> list[Json]:
        """The checks, with what was found for each."""
        parts = [("printed", self.entry.checks), *((case.when, case.checks) for case in self.entry.cases)]
        parts.append(("true form", self.entry.truths))
        return [{"part": part, **shown(check, self.found)} for part, checks in parts for check in checks]

    def to_dict(self) -> Json:
        """Plain JSON form: the card, the evidence, the errata and the cost."""
        return {
            **self.entry.to_dict(),
            "verdict": self.verdict,
            "as_registered": self.as_registered,
            "evidence": self.evidence(),
            "errata": [one.id for one in errata_of(self.entry.id)],
            "cpu_s": self.seconds,
        }


def shown(check: Check, found: dict[Check, Found] | None) -> Json:
    """A check as JSON; without findings `got` and `ok` are empty."""
    seen = None if found is None else found.get(check)
    return {
        "check": check.what,
        "claimed": str(check.claimed),
        "right": str(check.right),
        "got": None if seen is None else seen.value,
        "allowed": None if seen is None else check.allowed(seen),
        "agrees": not check.refutes,
        "nature": nature_of(check),
        "ok": None if seen is None else check.as_known(seen),
    }


@dataclass(frozen=True, slots=True)
class Known:
    """A fact of the lab; `evidence` is None where nothing ran."""

    fact: Fact
    evidence: tuple[LabCheck, ...] | None = None

    @property
    def as_registered(self) -> bool | None:
        """Whether the experiment found what is listed; None where nothing ran."""
        return None if self.evidence is None else bool(self.evidence) and all(one.ok for one in self.evidence)

    @property
    def verdict(self) -> str:
        """true, false, or undecided where the experiment did not find what is listed."""
        return "undecided" if self.as_registered is False else "true" if self.fact.holds else "false"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self.fact, "id statement"),
            "kind": "fact",
            **picked(self, "verdict as_registered"),
            "evidence": plain(self.evidence or ()),
            "command": f"lockstep converge {self.fact.experiment}",
        }


@dataclass(frozen=True, slots=True)
class Corrected:
    """An erratum; `found` is None where nothing ran, or where nothing can."""

    erratum: Erratum
    found: Found | None = None

    @property
    def as_registered(self) -> bool | None:
        """Whether the right value was found, and not the printed one; None where nothing ran."""
        check = self.erratum.check
        if self.found is None or check is None:
            return None
        return check.as_known(self.found) and not check.agrees(self.found)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        check = self.erratum.check
        return {
            **self.erratum.to_dict(),
            "of": self.erratum.of,
            "got": None if self.found is None else self.found.value,
            "nature": nature_of(check) if check else "",
            "as_registered": self.as_registered,
        }


def run(
    chosen: Iterable[Entry], seed: int = 0, within_s: float = float("inf"), progress: Progress | None = None
) -> tuple[Decided, ...]:
    """Decides entries, cheapest first, as long as their cost fits into what is left of `within_s`; in their own order.

    Entries that did not fit come back without findings.
    """
    bench, entries, begun_s = Bench(seed), tuple(chosen), time.monotonic()
    waiting, done = list(entries), {}
    while waiting:
        waiting.sort(key=lambda entry: bench.seconds(entry.every_check()))
        entry = waiting.pop(0)
        cost_s = bench.seconds(entry.every_check())
        if not cost_s or time.monotonic() - begun_s + cost_s <= within_s:
            done[entry.id] = bench.decide(entry)
        if progress is not None:
            progress(len(entries) - len(waiting), len(entries))
    return tuple(Decided(entry, done.get(entry.id)) for entry in entries)


def know(fact: Fact, seed: int = 0) -> Known:
    """Runs the experiment of a fact."""
    return Known(fact, fact.evidence(Bench(seed).experiment(fact.experiment)))


def correct(chosen: Iterable[Erratum], seed: int = 0, progress: Progress | None = None) -> tuple[Corrected, ...]:
    """Runs what can be run of errata."""
    bench, given, done = Bench(seed), tuple(chosen), []
    for erratum in given:
        done.append(Corrected(erratum, bench.find(erratum.check) if erratum.check else None))
        if progress is not None:
            progress(len(done), len(given))
    return tuple(done)
