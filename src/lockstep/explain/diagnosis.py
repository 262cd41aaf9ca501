"""`Diagnosis`: a measured run, what was predicted for it, and what explains the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.explain.answer import UNCLEAR

if TYPE_CHECKING:
    from lockstep.decide.planner.comparison import Comparison
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.answer import Beside, Held, Input, Measured, Slowdowns
    from lockstep.explain.captured_calls import CallsBeside
    from lockstep.explain.changes import Change
    from lockstep.explain.gather import LinkFound
    from lockstep.explain.judge import Judged
    from lockstep.explain.path import Step
    from lockstep.explain.read.flight_recorder import Hang
    from lockstep.explain.read.logs.log import Log
    from lockstep.explain.recalibrate import Recalibrated
    from lockstep.explain.seen import Seen
    from lockstep.simulate.program import Timeline


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Shown):
    """A measured run, what was predicted for it, and what explains the difference."""

    inputs: tuple[Input, ...]
    predicted: Estimate | None
    judged: Judged | None
    """Of numbers and logs."""
    seen: Measured | None
    """Of traces and tables of operations."""
    beside: Beside | None
    """The same beside the prediction."""
    slowdowns: Slowdowns | None
    """What single stages, operations and replicas cost, of a table of operations."""
    changes: tuple[Change, ...] | None
    """What differs from another run's traces, by operation."""
    mismatches: tuple[str, ...]
    """Where files are of another run than the one described."""
    logs: tuple[Log, ...]
    memory: tuple[Held, ...]
    links: tuple[LinkFound, ...]
    path: tuple[Step, ...] | None
    """From the published run that it is held against to this one, setting by setting."""
    recalibrated: Recalibrated | None
    """The cluster as the run shows it, where that was asked for."""
    hangs: tuple[Hang, ...] | None
    """None without dumps of the flight recorder; empty where every collective ended."""
    not_known: tuple[str, ...]
    fail_above_frac: float | None = None
    operations: Seen | None = None
    """What `seen` is made of, on one clock."""
    captured: CallsBeside | None = None
    """A capture of the program beside its profile."""

    def timelines(self) -> tuple[Timeline, ...]:
        """The predicted step, if there is one, and one measured step of the same stages; empty without traces."""
        from lockstep.explain.overlay import by_stage, measured_timeline

        if self.operations is None:
            return ()
        if self.predicted is None:
            return (measured_timeline(self.operations),)
        return by_stage(self.predicted, self.operations)

    def comparison(self) -> Comparison | None:
        """The predicted step as A and the measured one as B; None without both."""
        from lockstep.explain.sides import comparison

        if self.predicted is None or self.measured_s is None:
            return None
        held = self.memory[0] if self.memory else None
        return comparison(self.predicted, self.measured_s, self.beside, held)

    @property
    def unclear(self) -> tuple[str, ...]:
        """What of the kernel time is of unknown kernels, by rank: every other number is without it."""
        return tuple(one for one in self.not_known if UNCLEAR in one)

    @property
    def measured_s(self) -> float | None:
        """Seconds of a step as measured."""
        if self.seen is not None:
            return self.seen.step_time_s
        if self.judged is not None:
            return self.judged.step_time_s
        times = [one for log in self.logs if (one := log.steady("step_time_s")) is not None]
        return times[0] if times else None

    @property
    def predicted_s(self) -> float | None:
        """Seconds of a step as predicted, of a description or of a capture."""
        if self.predicted is not None:
            return self.predicted.step_time_s
        return None if self.captured is None else self.captured.step.time.step_time_s

    @property
    def mfu_frac(self) -> float | None:
        """MFU as measured, by the convention of the recipe."""
        if self.predicted is None or self.measured_s is None:
            return None
        return self.predicted.mfu_frac * self.predicted.step_time_s / self.measured_s

    @property
    def as_predicted(self) -> bool | None:
        """Whether nothing but the prediction's own error separates the two; None without both."""
        if self.captured is not None:
            return self.captured.as_predicted
        if self.beside is not None:
            return self.beside.as_predicted
        return None if self.judged is None else self.judged.verdict == "as predicted"

    @property
    def ok(self) -> bool:
        """Whether the step is not slower than predicted by more than `fail_above_frac`."""
        if self.fail_above_frac is None or self.measured_s is None or self.predicted_s is None:
            return True
        return self.measured_s <= self.predicted_s * (1 + self.fail_above_frac)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        from lockstep.decide.planner.uncounted import not_counted

        found, measured_s, seen, beside = self.predicted, self.measured_s, self.seen, self.beside
        parts = beside.parts if beside else seen.parts if seen else ()
        return {
            "step_time_s": {
                "measured": measured_s,
                "predicted": self.predicted_s,
                "replayed": None if beside is None else beside.replayed_s,
            },
            "interval": None if found is None else found.interval.to_dict(),
            "mfu_frac": {
                "measured": self.mfu_frac,
                "predicted": None if found is None else found.mfu_frac,
                "definition": None if found is None else found.job.recipe.mfu_convention,
            },
            "not_counted": [] if found is None else list(not_counted(found.job)),
            "as_predicted": self.as_predicted,
            "parts": plain(parts),
            "ranks": plain(seen.ranks) if seen else [],
            "stragglers": plain(seen.stragglers) if seen else [],
            "collectives": plain(seen.collectives) if seen else [],
            "kernels": plain(seen.kernels) if seen else [],
            "slowdowns": plain(self.slowdowns),
            "changes": plain(self.changes),
            "layer_operations": plain(beside.layer_operations) if beside else [],
            "causes": plain(beside.causes) if beside else [],
            "inputs": plain(self.inputs),
            "fit": plain(beside.rates) if beside else None,
            "captured": plain(self.captured),
            **picked(self, "judged mismatches path logs memory links recalibrated hangs not_known"),
        }
