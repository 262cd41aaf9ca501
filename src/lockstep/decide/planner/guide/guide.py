"""`guide`: the rules asked one after another about a job on a cluster, and their layout beside the planner's best."""

from __future__ import annotations

from lockstep.base.errors import Infeasible
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_slower, format_time
from lockstep.decide.planner.assumptions import assumptions
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.estimate import estimate as estimate_layout
from lockstep.decide.planner.from_file import imported
from lockstep.decide.planner.guide.difference import Difference, differences
from lockstep.decide.planner.guide.draft import Draft, Finding, Rule
from lockstep.decide.planner.guide.rules import RULES
from lockstep.decide.planner.plan import plan
from lockstep.decide.planner.uncounted import not_counted
from lockstep.decide.planner.utilisation import plain_mfu
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Model
from lockstep.price.layout import Job, Layout, Recipe

CLOSE_FRAC = 0.05
"""Within this of the optimum, the guide is as good: less than the step model's own error."""


@dataclass(frozen=True, slots=True, repr=False)
class Guidance(Shown):
    """What the rules say, where that leads, and what the planner finds instead."""

    job: Job
    cluster: Cluster
    findings: tuple[tuple[Rule, Finding], ...]
    layout: Layout
    estimate: Estimate | None
    """None where the rules end at a layout that cannot run or does not fit."""
    optimum: Estimate | None
    """The planner's best; None where nothing fits."""
    differences: tuple[Difference, ...]

    @property
    def feasible(self) -> bool:
        """Whether the rules found a layout that runs and fits."""
        return self.estimate is not None

    @property
    def slower_frac(self) -> float | None:
        """Step time of the rules' layout over the optimum's, minus 1."""
        if self.estimate is None or self.optimum is None:
            return None
        return self.estimate.step_time_s / self.optimum.step_time_s - 1

    @property
    def lost(self) -> tuple[str, float] | None:
        """The part of a step on which the rules' layout loses most to the optimum, and seconds; None for no part."""
        if self.estimate is None or self.optimum is None:
            return None
        mine, best = self.estimate.step.breakdown_s(), self.optimum.step.breakdown_s()
        part = max(mine, key=lambda name: mine[name] - best[name])
        return (part, mine[part] - best[part]) if mine[part] > best[part] else None

    def verdict(self) -> str:
        """Agreement or disagreement in words."""
        if self.optimum is None:
            return "neither the rules nor the planner find a layout that runs and fits"
        best = f"{self.optimum.layout} at {format_time(self.optimum.step_time_s)} per step"
        if self.estimate is None or self.slower_frac is None:
            return f"the rules end at {self.layout}, which does not run; the planner finds {best}"
        here = f"{self.estimate.layout} at {format_time(self.estimate.step_time_s)} per step"
        if self.estimate.layout == self.optimum.layout:
            return f"rules and planner agree: {here}"
        close = "as good as" if self.slower_frac <= CLOSE_FRAC else "behind"
        why = "" if self.lost is None else f", {format_time(self.lost[1])} of it {self.lost[0]}"
        return f"the rules' {here} is {close} the optimum, {format_slower(self.slower_frac)} {best}{why}"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "verdict": self.verdict(),
            "model": self.job.model.name,
            "cluster": self.cluster.name,
            "gpus": self.job.devices,
            **picked(self, "feasible layout"),
            "step_time_s": None if self.estimate is None else self.estimate.step_time_s,
            **plain_mfu(None if self.estimate is None else self.estimate.utilisation),
            "slower_frac": self.slower_frac,
            "lost": None if self.lost is None else {"part": self.lost[0], "seconds": self.lost[1]},
            "optimum": plain(self.optimum),
            "rules": [_rule(rule, finding) for rule, finding in self.findings],
            "differences": plain(self.differences),
            "not_counted": list(not_counted(self.job)),
            "assumptions": list(assumptions(self.job, self.cluster, self.layout)),
            **imported(self.job),
        }

    def __str__(self) -> str:
        return self.verdict()


def guide(model: Model, cluster: Cluster, recipe: Recipe, progress: Progress | None = None) -> Guidance:
    """The rules' layout for `model` on the whole of `cluster`, compared with the planner's."""
    job = Job(model, recipe, cluster.num_devices)
    draft, findings = Draft(job, cluster, Layout(dp=job.devices)), []
    for rule in RULES:
        finding = rule.decide(draft)
        findings.append((rule, finding))
        draft = finding.draft
    found = None
    if draft.keeps_rules:
        found = estimate_layout(job, cluster, draft.layout)
        found = found if found.memory.fits else None
    best = _optimum(model, cluster, recipe, progress)
    told = differences(found, best) if found is not None and best is not None else ()
    return Guidance(job, cluster, tuple(findings), draft.layout, found, best, told)


def _optimum(model: Model, cluster: Cluster, recipe: Recipe, progress: Progress | None) -> Estimate | None:
    try:
        return plan(model, cluster, recipe, top=1, progress=progress).best
    except Infeasible:
        return None


def _rule(rule: Rule, finding: Finding) -> Json:
    """Plain JSON form of one rule's answer."""
    return {
        "rule": rule.name,
        "question": rule.question,
        "answer": finding.answer,
        "because": finding.because,
        "numbers": dict(finding.numbers),
        "source": rule.source,
        "layout": str(finding.draft.layout),
    }
