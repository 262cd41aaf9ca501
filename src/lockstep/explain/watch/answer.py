"""`Watched`: what a log says of a run, beside what was predicted for it.

    time left     steps left x median step time / goodput; its ends are steps left x the fastest tenth of the blocks
                  without any stop, and steps left x the slowest tenth / goodput

Goodput is a share of the wall clock where lines are stamped. Without stamps it is the share of first-time steps in the
seconds of all steps, which knows nothing of the time between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.explain.read.logs.log import PER_DEVICE_TOKENS
from lockstep.explain.stated import MFU, TOKENS
from lockstep.explain.watch.held import IN_A_ROW, WARM_UP

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.result import Plan
    from lockstep.explain.watch.run import Run
    from lockstep.explain.watch.watcher import Watcher

TENTH = 0.1
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Remaining:
    """Seconds until the last step."""

    low_s: float
    likely_s: float
    high_s: float

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True, repr=False)
class Watched(Shown):
    """A run as its log tells it so far."""

    files: tuple[str, ...]
    run: Run
    programs: tuple[str, ...]
    lines: int
    unread: int
    """Lines of steps with a number that could not be read."""
    first_unread: str
    wall_s: float | None
    backwards: int
    """Stamps that went back and were left out."""
    begins_with_step: bool = False
    """Whether the first stamp is that of the first step."""
    predicted: Estimate | None = None
    replan: Plan | None = None
    """The best plan for the devices that are left."""
    replan_fails: str = ""
    """Why there is none."""

    @property
    def step_s(self) -> float | None:
        """The median of the seconds of a step after warming up."""
        return self.run.seconds.median

    @property
    def inside(self) -> bool | None:
        """Whether the steps are inside the predicted interval; None where that is not known."""
        return self.run.inside()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong that is known: steps inside the interval, and no device lost."""
        return self.inside is not False and not self.run.lost_devices

    @property
    def ended(self) -> bool:
        """Whether the last step was printed."""
        return has_ended(self.run)

    @property
    def goodput_frac(self) -> float | None:
        """Seconds of first-time steps over the wall clock, or over those of all steps without one."""
        run, good_s = self.run, self.run.first_time_s
        if self.wall_s is None:
            whole_s = good_s + run.again_s
        else:
            whole_s = self.wall_s
            # A first step that has the first stamp was over when the clock began.
            good_s -= run.first_line_s if self.begins_with_step else 0.0
        return min(1.0, good_s / whole_s) if whole_s and good_s > 0 else None

    @property
    def steps_left(self) -> int | None:
        """Steps until the last one; None where nobody says how many there are."""
        run = self.run
        return None if run.last is None or run.newest is None else max(0, run.last - run.newest.step)

    @property
    def remaining(self) -> Remaining | None:
        """None where the number of steps or their time is not known."""
        left, recent = self.steps_left, self.run.seconds.recent
        if left is None or recent is None:
            return None
        blocks, share = self.run.seconds.blocks(), self.goodput_frac or 1.0
        fast, slow = (float(np.quantile(blocks, end)) for end in (TENTH, 1 - TENTH))
        return Remaining(left * min(fast, recent), left * recent / share, left * max(slow, recent) / share)

    @property
    def tokens_per_s(self) -> float | None:
        """As printed, else from tokens of a step."""
        printed, each = self.run.stated.get(TOKENS), self.run.stated.get(PER_DEVICE_TOKENS)
        devices = self.run.devices or self.run.told.devices
        if printed is not None:
            return printed.median
        if each is not None and each.median and devices:
            return each.median * devices
        tokens = None if self.run.newest is None else self.run.tokens(self.run.newest)
        return tokens / self.step_s if tokens and self.step_s else None

    @property
    def mfu_frac(self) -> float | None:
        """MFU by the convention of the prediction; without one as printed."""
        if self.predicted is not None and self.step_s:
            return self.predicted.mfu_frac * self.predicted.step_time_s / self.step_s
        printed = self.run.stated.get(MFU)
        return None if printed is None else printed.median

    def notes(self) -> tuple[str, ...]:
        """How the log was read, and what it does not say."""
        run = self.run
        told = []
        if self.wall_s is None:
            told.append(
                "Lines carry no wall clock: goodput is a share of the seconds of steps, without what lies between."
            )
        if run.last is None:
            told.append("The log does not say how many steps there are; give --steps or --tokens for the time left.")
        if run.untimed:
            told.append(f"Steps without a time, neither printed nor from a rate or stamps: {run.untimed:,}.")
        if self.backwards:
            told.append(f"Stamps that go back and are left out: {self.backwards:,}.")
        if self.unread:
            told.append(f"Lines of steps with a number that is none: {self.unread:,}; the first: {self.first_unread}.")
        if run.repeated:
            told.append(
                f"Lines that print a step again, which counts once: {run.repeated:,} (of another rank, or evaluation)."
            )
        if not run.comparable:
            told.append(
                f"Steps on {run.devices:,} devices are not held against the interval, which is of {run.told.devices:,}."
            )
        elif run.told.low_s is not None and self.inside is None:
            told.append(
                f"Too few steps for a verdict: {WARM_UP} after every start warm up, and {IN_A_ROW} more decide."
            )
        return tuple(told)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        run, found, remaining = self.run, self.predicted, self.remaining
        drift, recent = run.seconds.drift(), run.seconds.recent
        return {
            "inputs": list(self.files),
            "programs": list(self.programs),
            "lines": self.lines,
            "unread_lines": self.unread,
            "steps": {
                "first": run.first.step if run.first else None,
                "newest": run.newest.step if run.newest else None,
                "last": run.last,
                "printed": run.printed,
                "first_time": run.first_time,
                "again": run.again,
            },
            "ended": self.ended,
            "step_time_s": {
                "measured": self.step_s,
                "recent": recent,
                "predicted": None if found is None else found.step_time_s,
                "basis": run.basis,
            },
            "interval": None if found is None else found.interval.to_dict(),
            "inside": self.inside,
            "left": plain(run.left()),
            "first_left": plain(run.first_left),
            "outside_frac": _outside(run),
            "drift": plain(drift),
            "tokens_per_s": self.tokens_per_s,
            "mfu_frac": self.mfu_frac,
            "devices": {"now": run.devices, "most": run.most_devices, "predicted": run.told.devices},
            "restarts": plain(run.restarts),
            "restarted": run.restarted,
            "wall_s": self.wall_s,
            "goodput_frac": self.goodput_frac,
            "goodput_of": None
            if self.goodput_frac is None
            else "wall clock"
            if self.wall_s is not None
            else "step times",
            "left_s": plain(remaining),
            "predicted_left_s": self._predicted_left(),
            "replan": None if self.replan is None else _short(self.replan),
            "replan_fails": self.replan_fails,
            "notes": list(self.notes()),
        }

    def _predicted_left(self) -> Json | None:
        """Seconds until the last step by the predicted interval, without any stop."""
        left, found = self.steps_left, self.predicted
        if left is None or found is None or not self.run.comparable:
            return None
        return found.interval.times(left).to_dict()


def has_ended(run: Run) -> bool:
    """Whether a run has printed its last step."""
    return run.last is not None and run.newest is not None and run.newest.step >= run.last


def watched(watcher: Watcher, predicted: Estimate | None = None) -> Watched:
    """What is known so far."""
    readers = [one.reader or one.bars for one in watcher.files.values()]
    known = [one for one in readers if one is not None]
    return Watched(
        tuple(watcher.files),
        watcher.run,
        tuple(watcher.programs) or (("progress-bar",) if watcher.run.printed else ()),
        watcher.lines,
        sum(one.unread for one in known),
        next((one.first_unread for one in known if one.first_unread), ""),
        watcher.wall_s,
        sum(one.clock.backwards for one in watcher.files.values()),
        watcher.begins_with_step,
        predicted,
    )


def _outside(run: Run) -> float | None:
    counted = sum(one.counted for one in run.held.values())
    return sum(one.outside for one in run.held.values()) / counted if counted else None


def _short(plan: Plan) -> Json:
    """The best layout of a plan, as `plan --json` has it."""
    found: Json = plan.to_dict()
    return {"devices": plan.best.job.devices, **found["plans"][0]}
