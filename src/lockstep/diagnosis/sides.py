"""`comparison`: the predicted step and the measured one as two sides, by the parts that the files tell apart."""

from __future__ import annotations

from dataclasses import replace

from lockstep.diagnosis.answer import Beside, Held
from lockstep.planner import Estimate
from lockstep.planner.comparison import Comparison, Side, predicted

WHOLE = "whole step"
"""The only part of a number, or of a log."""
LEAST_S = 1e-9
"""Parts below the resolution of clocks are rounding."""


def comparison(found: Estimate, measured_s: float, beside: Beside | None, held: Held | None) -> Comparison:
    """The predicted step as A and one of `measured_s` seconds as B.

    The parts of each add up to its step. B has no error of its own, and memory where a snapshot was read.
    """
    job = found.job
    title = f"{job.model.name} on {job.devices} x {found.cluster.device.name}"
    mine, theirs = {WHOLE: measured_s}, {WHOLE: found.step_time_s}
    if beside is not None:
        mine = {one.part: _seconds(one.measured_s) for one in beside.parts}
        theirs = {one.part: _seconds(one.predicted_s) for one in beside.parts}
    a = replace(predicted(found, f"{title}: {found.layout}, predicted"), parts_s=theirs)
    b = Side(
        f"{title}, measured", mine, a.units, a.unit, a.devices, settings=a.settings, capacity_B=a.capacity_B,
        memory_B=held.by_category_B if held else {}, mfu_frac=found.mfu_frac * found.step_time_s / measured_s,
    )  # fmt: skip
    return Comparison(a, b)


def _seconds(part_s: float | None) -> float:
    return part_s if part_s is not None and part_s >= LEAST_S else 0.0
