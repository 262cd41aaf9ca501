"""`Trial`: one experiment at one point with one seed; `Outcome`: what a sweep keeps of it.

Both are plain data, so that any engine can send them to another process or machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lockstep.errors import BadInput
from lockstep.lab.findings import Check
from lockstep.lab.sweep.results import Results, results_of


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run."""

    experiment: str
    settings: tuple[tuple[str, Any], ...]
    """Names and values as given."""
    seed: int

    def __str__(self) -> str:
        pairs = "".join(f" {name}={value}" for name, value in self.settings)
        return f"{self.experiment}{pairs} seed={self.seed}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The checks and results of one run; its whole curves come back by running it alone."""

    checks: tuple[Check, ...]
    results: Results = field(default_factory=Results)

    @property
    def agrees(self) -> bool:
        """Whether every check came out as it should."""
        return all(check.ok for check in self.checks)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Settings that the experiment itself refused, which only a run can find out."""

    message: str
    where: str | None


def run_trial(trial: Trial) -> Outcome | Refusal:
    """Runs the experiment here."""
    from lockstep.lab.registry import find_experiment

    try:
        found = find_experiment(trial.experiment).answer(dict(trial.settings), trial.seed)
    except BadInput as refused:
        return Refusal(refused.message, refused.where)
    return Outcome(found.checks, results_of(found))
