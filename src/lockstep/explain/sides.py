"""`comparison`: the predicted step and the measured one as two sides, by the parts that the files tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lockstep.decide.planner.comparison import Comparison, Side, predicted
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.answer import Beside, Held

WHOLE = "whole step"
"""The only part of a number, or of a log."""
REST = "other"
LEAST_S = 1e-9
"""Parts below the resolution of clocks are rounding."""


def comparison(found: Estimate, measured_s: float, beside: Beside | None, held: Held | None) -> Comparison:
    """The predicted step as A and one of `measured_s` seconds as B.

    The parts of each add up to its step: what traces leave is `other`. B has no error of its own, and memory where a
    snapshot was read.
    """
    job = found.job
    title = f"{job.model.name} on {job.devices} x {found.cluster.device.name}"
    mine, theirs = {WHOLE: measured_s}, {WHOLE: found.step_time_s}
    if beside is not None:
        mine = _whole({one.part: one.measured_s for one in beside.parts}, measured_s)
        theirs = _whole({one.part: one.predicted_s for one in beside.parts}, found.step_time_s)
    a = replace(predicted(found, f"{title}: {found.layout}, predicted"), parts_s=theirs)
    longer = measured_s / found.step_time_s
    b = Side(
        f"{title}, measured", mine, a.units, a.unit, a.devices, settings=a.settings, capacity_B=a.capacity_B,
        memory_B=held.by_category_B if held else {}, utilisation=found.utilisation.longer(longer),
        cost_per_token=None if a.cost_per_token is None else a.cost_per_token * longer,
    )  # fmt: skip
    return Comparison(a, b)


def _whole(parts_s: Mapping[str, float | None], step_s: float) -> dict[str, float]:
    """Seconds by part that add up to the step."""
    found = {name: seconds for name, seconds in parts_s.items() if seconds is not None and seconds >= LEAST_S}
    left_s = step_s - sum(found.values())
    if abs(left_s) >= LEAST_S:
        found[REST] = found.get(REST, 0.0) + left_s
    return found
