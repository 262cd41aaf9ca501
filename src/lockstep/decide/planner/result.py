"""`Plan`: the answer to "how should this be trained", with its verdict in words and its plain JSON form."""

from __future__ import annotations

from collections.abc import Callable

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import (
    SECONDS_PER_DAY,
    format_count,
    format_frac,
    format_money,
    format_size,
    format_slower,
    format_time,
)
from lockstep.decide.planner.choices import Choice
from lockstep.decide.planner.course import Course, Steps
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.export import export
from lockstep.decide.planner.from_file import imported
from lockstep.decide.planner.neighbours import Neighbour
from lockstep.decide.planner.search import MEMORY, Findings
from lockstep.decide.planner.software import Software
from lockstep.decide.planner.uncounted import not_counted, said_not_counted
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, is_safe

ROOMIER_FRAC, FREED_FRAC = 0.05, 0.15
"""What is little time, as a share of the step, and what is much memory, as a share of the device's."""
UNINTERRUPTED = "days and cost are without interruptions; `lockstep campaign` adds failures, checkpoints and advice"


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Shown):
    """The answer to "how should this be trained": estimates of the best layouts, best first."""

    job: Job
    cluster: Cluster
    objective: str
    plans: tuple[Estimate, ...]
    findings: Findings
    tokens: float | None = None
    course: Course | None = None
    """The passes over a data set in which these tokens are read; None where they are read once, in equal steps."""
    software: Software | None = None
    """What was asked to be able to run them."""
    find_front: Callable[[], tuple[Estimate, ...]] = tuple
    """Works out the estimates of the layouts on the front."""
    find_neighbours: Callable[[], tuple[Neighbour, ...]] = tuple
    """Looks for questions close to this one that have a much better answer."""
    choices: tuple[Choice, ...] = ()
    """Where several recipes were asked: the best layout with each, best first."""

    @property
    def best(self) -> Estimate:
        """The best layout."""
        return self.plans[0]

    @property
    def aim(self) -> float | Course | None:
        """What is to be read: passes over a data set, or tokens."""
        return self.tokens if self.course is None else self.course

    @property
    def steps(self) -> Steps | None:
        """The steps over a data set in the best layout; None where only tokens are given."""
        return None if self.course is None else self.course.steps(self.best.job, self.best.layout)

    @property
    def said_aim(self) -> str | None:
        """What is read, in words; None where that is unsaid."""
        steps = self.steps
        tokens = self.tokens if steps is None else steps.tokens
        said = None if tokens is None else f"{format_count(tokens)} {self.job.unit}"
        return said if steps is None else f"{said} in {steps}"

    @property
    def front(self) -> tuple[Estimate, ...]:
        """Layouts that no other beats in step time and memory, worked out when they are first asked for."""
        return self.find_front()

    @property
    def given_up_frac(self) -> float:
        """By how much the chosen layout is slower than the fastest, by the formulas; equal but for rounding is 0."""
        return max(0.0, self.best.step_time_s / self.findings.best[0].step_time_s - 1.0)

    @property
    def choice(self) -> str | None:
        """Why the layout chosen is not the fastest; None where it is."""
        fastest = self.findings.best[0]
        pads = self.course is not None and self.course.pads
        if self.best.layout == fastest.layout or (self.objective != "robust" and not pads):
            return None
        if pads:
            slower = f"{format_slower(self.given_up_frac)} {fastest.layout}"
            return f"{slower} in steps of the longest rows, and faster over the data set, as it pads less"
        slower = f"{format_slower(self.given_up_frac)} {fastest.layout}, which"
        if not is_safe(fastest.memory_B, self.cluster.device.memory_B):
            return f"{slower} would fill {format_frac(fastest.memory_B / self.cluster.device.memory_B)} of the memory"
        return f"{slower} loses more when links and software are slow, or is less simple"

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """Questions close to this one that have a much better answer, searched for when they are first asked for."""
        return self.find_neighbours()

    @property
    def roomier(self) -> Estimate | None:
        """What frees much memory for little time: of the layouts at most ROOMIER_FRAC slower than the best, the one
        that needs least. Beside a layout that barely fits, the fastest that is safe. None where neither exists.
        """
        best_B, capacity_B = float(self.best.memory.total_B), self.best.memory.capacity_B
        little = [one for one in self.front if one.step_time_s <= (1 + ROOMIER_FRAC) * self.best.step_time_s]
        if not is_safe(best_B, capacity_B):
            little += [one for one in self.front if is_safe(float(one.memory.total_B), capacity_B)][:1]
        least = min(little, key=lambda one: float(one.memory.total_B), default=None)
        freed_B = 0.0 if least is None else best_B - float(least.memory.total_B)
        return least if freed_B >= FREED_FRAC * capacity_B or (freed_B and not is_safe(best_B, capacity_B)) else None

    @property
    def room(self) -> str | None:
        """What `roomier` gives and costs, in words."""
        one = self.roomier
        if one is None:
            return None
        freed_B = float(self.best.memory.total_B) - float(one.memory.total_B)
        slower = one.step_time_s / self.best.step_time_s - 1.0
        return f"for {format_frac(max(0.0, slower), 2)} more time per step, {one.layout} frees {format_size(freed_B)}"

    @property
    def rejected(self) -> list[Json]:
        """How many layouts each constraint rejected, most first."""
        counts = sorted(self.findings.rejected.items(), key=lambda item: (-item[1], item[0]))
        return [{"why": why, "count": count} | self._nearest(why) for why, count in counts]

    def _nearest(self, why: str) -> Json:
        """The nearest miss of the memory constraint: how far over, and which layout."""
        miss = self.findings.nearest_miss
        if why != MEMORY or miss is None:
            return {}
        excess_B = miss.memory_B - self.cluster.device.memory_B
        margin_frac = excess_B / self.cluster.device.memory_B
        return {"nearest": {"layout": str(miss.layout), "excess_B": excess_B, "margin_frac": margin_frac}}

    def verdict(self) -> str:
        """The answer in words."""
        best, job = self.best, self.job
        things = job.unit
        parts = [
            f"{job.model.name} on {job.devices} x {self.cluster.device.name}: {best.layout}",
            f"{format_time(best.step_time_s)} per step of {format_count(job.step_units)} {things} "
            f"({best.accumulation}), {best.said_interval}, "
            f"{format_count(best.tokens_per_s)} {things}/s, {best.utilisation}",
            f"{format_size(float(best.memory.total_B))} of {format_size(best.memory.capacity_B)} per device, "
            f"bound by {best.bound_by}",
        ]
        if self.aim is not None:
            days, dollars = best.campaign(self.aim)
            cost = "price unknown" if dollars is None else format_money(dollars)
            parts.append(f"{self.said_aim}: {format_time(days * SECONDS_PER_DAY)}, {cost}")
        parts += [one for one in (self.choice, self.room) if one is not None]
        parts += map(str, self.neighbours)
        if left_out := said_not_counted(job):
            parts.append(left_out.removesuffix("."))
        return "; ".join(parts)

    def _roomier(self) -> Json | None:
        one = self.roomier
        if one is None:
            return None
        saved_B = float(self.best.memory.total_B) - float(one.memory.total_B)
        return {
            "layout": one.layout.to_dict(),
            "saves_B": saved_B,
            "step_time_frac": one.step_time_s / self.best.step_time_s - 1.0,
        }

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        on_front = {one.layout for one in self.front}
        plans = [one.to_dict() | _summary(one, one.layout in on_front) for one in self.plans]
        answer: Json = {
            "verdict": self.verdict(),
            "model": self.job.model.name,
            "cluster": self.cluster.name,
            "gpus": self.job.devices,
            "objective": self.objective,
            "given_up": None if self.choice is None else {"step_time_frac": self.given_up_frac},
            "roomier": self._roomier(),
            "neighbours": [one.to_dict() for one in self.neighbours],
            "plans": plans,
            "front": [{"layout": one.layout.to_dict()} | _summary(one, True) for one in self.front],
            "evaluated": self.findings.evaluated,
            "feasible": self.findings.feasible,
            "complete": self.findings.complete,
            "rejected": self.rejected,
            "not_counted": list(not_counted(self.job)),
            "assumptions": list(self.best.assumptions()),
            **imported(self.job),
        }
        if self.choices:
            answer["choices"] = [one.to_dict() for one in self.choices]
        if self.software is not None:
            answer["export"] = {
                **picked(self.software, "target version"),
                "text": export(self.best, self.software.target),
            }
        if self.aim is not None:
            days, dollars = self.best.campaign(self.aim)
            steps = self.steps
            between = self.best.interval.times(days / self.best.step_time_s)
            tokens = self.tokens if steps is None else steps.tokens
            answer |= {"tokens": tokens, "days": days, "days_interval": between.to_dict(), "cost": dollars}
            if self.course is not None and steps is not None:
                answer["data_set"] = picked(self.course, "count epochs packing") | steps.to_dict()
            answer["assumptions"].append(UNINTERRUPTED)
        return answer


def _summary(one: Estimate, pareto: bool) -> Json:
    """The numbers by which layouts are compared."""
    return {
        "step_time_s": one.step_time_s,
        "tokens_per_s": one.tokens_per_s,
        "mfu_frac": one.mfu_frac,
        "memory_B": float(one.memory.total_B),
        "memory_frac": float(one.memory.used_frac),
        "bound_by": one.bound_by,
        "cost_per_token": one.cost_per_token,
        "pareto": pareto,
    }
