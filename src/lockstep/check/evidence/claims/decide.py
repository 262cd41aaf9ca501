"""What was found for entries, facts and errata, and the verdict that follows; `running.py` runs them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json, picked, plain
from lockstep.check.evidence.claims.deciders.table import LAB, decide, found_in, kept_by, lab_name, nature_of
from lockstep.check.evidence.claims.entry import PARTS, Check, Entry, Erratum, Found
from lockstep.check.evidence.claims.shelf import costs, errata_of

if TYPE_CHECKING:
    from lockstep.learn.lab import Check as LabCheck
    from lockstep.learn.lab import Findings
    from lockstep.learn.lab.facts import Fact

USUAL_S = 0.02
"""Of a decider that is not in the table of costs."""


def part_of(by: str) -> str:
    """What must run for a check of this text: an experiment, runs that several deciders read, or a decider alone."""
    return LAB + lab_name(by)[0] if by.startswith(LAB) else kept_by(by) or by


def seconds(checks: Iterable[Check]) -> float:
    """Processor seconds that checks take, by the table of costs; what several need runs once."""
    parts = {part_of(check.by) for check in checks}
    return sum(costs().get(part, costs().get(part.split()[0], USUAL_S)) for part in parts)


@dataclass(slots=True)
class Bench:
    """What was found so far, with one seed."""

    seed: int = 0
    numbers: dict[str, Found] = field(default_factory=dict)
    answers: dict[str, Findings] = field(default_factory=dict)

    def experiment(self, name: str) -> Findings:
        """Findings of an experiment with its default settings, run once."""
        from lockstep.learn.lab import find_experiment

        if name not in self.answers:
            self.answers[name] = find_experiment(name).answer({}, self.seed)
        return self.answers[name]

    def find(self, by: str) -> Found:
        """What decides a check, found once; `by` is the check's text."""
        if by not in self.numbers:
            if by.startswith(LAB):
                name, what = lab_name(by)
                self.numbers[by] = found_in(self.experiment(name), what)
            else:
                self.numbers[by] = decide(by, self.seed)
        return self.numbers[by]


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
        return seconds(self.entry.every_check())

    @property
    def drawing_s(self) -> float:
        """Processor seconds that its figures take together, measured on one core."""
        return costs().get(f"figures {self.entry.id}", USUAL_S * len(self.entry.figures))

    def evidence(self) -> list[Json]:
        """The checks, with what was found for each."""
        parts = [("printed", self.entry.checks), *((case.when, case.checks) for case in self.entry.cases)]
        if self.entry.second:
            parts.append((PARTS[self.entry.kind][1], self.entry.second.checks))
        parts.append(("true form", self.entry.truths))
        return [{"part": part, **shown(check, self.found)} for part, checks in parts for check in checks]

    def deliverables(self) -> list[Json]:
        """What an exercise asks for, what ticks it, and what came out where the checks ran."""
        ticks = self.entry.ticks(self.found)
        return [
            picked(one, "asks figure value") | {"ok": ok}
            for one, ok in zip(self.entry.deliverables, ticks, strict=True)
        ]

    def to_dict(self) -> Json:
        """Plain JSON form: the card, the evidence, the errata and the cost."""
        return {
            **self.entry.to_dict(),
            "deliverables": self.deliverables(),
            "verdict": self.verdict,
            "verdicts": self.entry.verdicts(self.verdict),
            "as_registered": self.as_registered,
            "evidence": self.evidence(),
            "errata": [one.id for one in errata_of(self.entry.id)],
            "cpu_s": self.seconds,
            "drawing_cpu_s": self.drawing_s,
        }


def shown(check: Check, found: dict[Check, Found] | None) -> Json:
    """A check as JSON; without findings, or where an experiment left it out, `got` and `ok` are empty."""
    seen = None if found is None else found.get(check)
    if seen is not None and math.isnan(seen.value):
        seen = None
    return {
        "check": check.what,
        "claimed": str(check.claimed),
        "right": str(check.right),
        "got": None if seen is None else seen.value,
        "allowed": None if seen is None else check.allowed(seen),
        "agrees": not check.refutes,
        "nature": nature_of(check),
        "ok": None if seen is None else check.as_known(seen),
        "doubt": "" if seen is None else seen.doubt,
        "at": check.at,
        "follows": check.follows,
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
            "claimed": str(check.claimed) if check else "",
            "decider": check.by if check else "",
            "got": None if self.found is None or math.isnan(self.found.value) else self.found.value,
            "nature": nature_of(check) if check else "",
            "as_registered": self.as_registered,
        }


def know(fact: Fact, seed: int = 0) -> Known:
    """Runs the experiment of a fact."""
    return Known(fact, fact.evidence(Bench(seed).experiment(fact.experiment)))
