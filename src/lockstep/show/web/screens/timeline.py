"""One step of a layout in lanes, and a measured one of the same stages below it where traces were dropped."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.base.units import format_time
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.diagnosis import Diagnosis
from lockstep.show.views.page.held import held_forms
from lockstep.show.views.page.timeline import timeline_form
from lockstep.show.views.parts.diagnosis import lanes
from lockstep.show.web.captured import taking_captures, timeline_data
from lockstep.show.web.measured import FILE, VERB, answer, answer_words, has_files, measured_figures
from lockstep.show.web.parts import headed, step_figures
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen

if TYPE_CHECKING:
    from lockstep.show.web.asked import Asked

LAYERS = "layers"
MOST_OPERATIONS = 300_000
"""A step of more is drawn pass by pass."""


def data(found: Estimate | Diagnosis, asked: Asked) -> Json:
    """The simulated step, and the measured one."""
    if isinstance(found, Estimate):
        return _predicted(found, asked)
    one = found.predicted
    drawn: Json = {"title": "a measured run", "headline": "One measured step", "figures": []}
    if one is not None:
        drawn = _titled(one) | {"headline": "One measured step below the predicted one"}
    if found.operations is None:
        said = "The files hold no operations of a step, so the predicted one is drawn alone."
        return (drawn if one is None else _predicted(one, asked)) | {"note": said}
    drawn["figures"] = measured_figures(found)
    counts = [f"{len(one.program):,} {one.source}" for one in found.timelines()]
    return {**drawn, "operations": f"{' and '.join(counts)} operations", "form": lanes(found)}


def _titled(one: Estimate) -> Json:
    stages = f"{one.layout.pp} pipeline stage{'s' if one.layout.pp > 1 else ''}"
    return {**headed(one, f"One step of {format_time(one.step_time_s)} on {stages}"), "figures": step_figures(one)}


def _predicted(one: Estimate, asked: Asked) -> Json:
    stages = one.layout.pp
    timeline = one.timeline(asked.words.get("detail") == LAYERS)
    if len(timeline.program) > MOST_OPERATIONS:
        timeline = one.timeline()
    devices = [one.job.devices // stages] * stages
    held = held_forms(one, timeline)
    form = timeline_form(timeline, stands_for=devices, capacity_B=one.memory.capacity_B, held=held)
    return {**_titled(one), "operations": f"{len(timeline.program):,} operations", "form": form}


def write(found: Estimate | Diagnosis, path: Path) -> None:
    """For Perfetto: the predicted step, with all measured ranks where there are any."""
    from lockstep.base.errors import BadInput
    from lockstep.explain.overlay import measured_timeline, write_overlay
    from lockstep.simulate.program import write_trace

    if isinstance(found, Diagnosis) and found.operations is not None:
        if found.predicted is None:
            write_trace(measured_timeline(found.operations), path)
        else:
            write_overlay(found.predicted, found.operations, path)
        return
    one = found if isinstance(found, Estimate) else found.predicted
    if one is None:
        raise BadInput("these files hold no operations of a step", "file")
    write_trace(one.timeline(), path)


SCREEN = taking_captures(
    Screen(
        title="Timeline",
        verb="estimate",
        # A number has no lanes to draw below the prediction.
        asks=lambda asked: VERB if has_files(asked) else "estimate",
        fields=(*QUESTION, Field("detail", "Detail", f"passes {LAYERS}", example="passes"), FILE, *LAYOUT, *RECIPE),
        words=partial(answer_words, shown=has_files),
        answer=partial(answer, shown=has_files),
        data=data,
        trace=write,
    ),
    timeline_data,
)
