"""`lockstep pipeline`: one step of a pipeline schedule, or all schedules side by side."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.output import draw, given, show
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.show.verbs.pipeline import PipelineChoices, PipelineRun
    from lockstep.simulate.parallel.pipeline import Partition, Point


DRAWN_STAGES = 12
DRAWN_PASSES = 16
STAGE_ROWS = 16


def render(found: PipelineRun, out: Console) -> None:
    """Prints the step."""
    step = found.pipeline
    out.print(Text(f"{format_frac(step.bubble_frac)} bubble: {format_time(step.makespan_s)} per step", style="bold"))
    chunks = f", {step.chunks} chunks each" if step.chunks > 1 else ""
    out.print(f"{step.schedule} on {step.stages} stages{chunks}, {step.microbatches} micro-batches")
    if step.stages <= DRAWN_STAGES and step.microbatches * step.chunks <= DRAWN_PASSES:
        heading(out, "When")
        unicode = (out.encoding or "").startswith("utf")
        streams = [name for name in found.timeline.program.streams if name == "compute"]
        from lockstep.simulate.program import draw as draw_text

        drawing = draw_text(found.timeline, out.width - 3, streams=streams, style="unicode" if unicode else "ascii")
        indented(out, Text(drawing, no_wrap=True))
    if found.partition is not None:
        _split(found.partition, out)
    most = max(step.peak_live_microbatches)
    more = f"first {STAGE_ROWS} of {step.stages}" if step.stages > STAGE_ROWS else "micro-batches held at most"
    heading(out, "Stages", more)
    rows = [
        (str(stage), f"{live:g}", bar(live / most if most else 0.0))
        for stage, live in enumerate(step.peak_live_microbatches[:STAGE_ROWS])
    ]
    indented(out, table([("stage", "right"), ("held", "right"), ("", "left")], rows))
    heading(out, "Closed form", format_time(step.formula_s))
    indented(out, Text(f"{step.formula}\nexact: {step.exact}\n{step.source}", style="dim"))


def _split(split: Partition, out: Console) -> None:
    """How many layers each stage got."""
    heading(out, "Layers", f"the slowest stage is {format_frac(split.imbalance_frac)} above the mean")
    sizes = ", ".join(str(size) for size in split.sizes[:STAGE_ROWS])
    indented(out, Text(sizes if len(split.sizes) <= STAGE_ROWS else f"{sizes}, ..."))


ROWS = 12
_TITLES = [
    ("schedule", "left"), ("stages", "right"), ("micro-batches", "right"), ("chunks", "right"), ("busy", "right"),
    ("memory", "right"), ("messages", "right"),
]  # fmt: skip


def render_choices(found: PipelineChoices, out: Console) -> None:
    """Prints the front, fastest first, and the best of the others."""
    best = max(found.points, key=lambda point: point.utilization_frac)
    out.print(Text(f"{best.schedule}: {format_frac(best.utilization_frac)} busy", style="bold"))
    out.print(f"{len(found.points)} ways, {len(found.front)} of them on the front.")
    front = list(reversed(found.front))
    rest = [point for point in found.points if point not in front]
    others = sorted(rest, key=lambda point: -point.utilization_frac)
    for title, points in (("Front", front), ("Others", others)):
        if points:
            shown = "" if len(points) <= ROWS else f"first {ROWS} of {len(points)}"
            heading(out, title, shown)
            indented(out, table(_TITLES, (_row(point) for point in points[:ROWS])))
    said = (
        "memory: activations held at most by one device, in units of one micro-batch through the whole model",
        "messages: sent by the busiest device per step",
    )
    small_print(out, "Meaning", said, len(said))


def _row(point: Point) -> list[str]:
    return [
        point.schedule, str(point.stages), f"{point.microbatches:,}", str(point.chunks),
        format_frac(point.utilization_frac), f"{point.live_models:.3g}", f"{point.messages:,}",
    ]  # fmt: skip


def plot_choices(found: PipelineChoices) -> Figure:
    """Share of time busy against memory, a panel per number of stages and micro-batches, schedules named at their dot.

    Beyond MOST_PANELS numbers of both, one panel with a dot per schedule and number.
    """
    sizes = list(dict.fromkeys((point.stages, point.microbatches) for point in found.points))
    panels = sizes[:MOST_PANELS]

    def panel(stages: int, microbatches: int) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            here = [one for one in found.points if (one.stages, one.microbatches) == (stages, microbatches)]
            _draw_choices(here, axes)
            axes.set_xlabel(f"activations held at most, whole models ({stages} stages, {microbatches} micro-batches)")

        return draw

    best = max(found.front, key=lambda point: point.utilization_frac)
    more = f"; {MOST_PANELS} of {len(sizes)} sizes" if len(sizes) > MOST_PANELS else ""
    title = f"{best.schedule} keeps stages busiest: {format_frac(best.utilization_frac)} of the time{more}"
    across = min(2, len(panels))
    rows = -(-len(panels) // across)
    return make_figure(
        title, *(panel(*size) for size in panels), size=((9.0 if across == 1 else 7.0) * across, 5.0 * rows), rows=rows
    )


MOST_PANELS = 4
NEAR = 0.035
"""Of the axes: dots nearer than this share one name, and names are as far apart."""
LETTER_FRAC = 0.0105
"""Of the axes: the width of a letter."""
APART = 0.027
"""Of the axes: between a dot and the middle of a name above or below it."""
NEXT = sorted(range(-24, 25), key=lambda step: (abs(step), step))
"""Quarters of a line to move a name by until it covers nothing, the nearest first."""


def _draw_choices(points: Sequence[Point], axes: Axes) -> None:
    """Dots of one size, the front joined; dots in one place share a label."""
    front = sorted(points, key=lambda one: (one.live_models, -one.utilization_frac))
    memory, best = list[float](), list[float]()
    for one in front:
        if not best or one.utilization_frac > best[-1]:
            memory.append(one.live_models)
            best.append(one.utilization_frac)
    axes.step([*memory, 2 * max(one.live_models for one in points)], [*best, best[-1]], where="post", color="#BBBBBB")
    axes.set_xscale("log", base=2)
    low, high = min(memory) / 1.3, 2 * max(one.live_models for one in points)
    axes.set(xlim=(low, high), ylim=(0, 1.08), ylabel="share of time busy")
    axes.xaxis.set_major_formatter("{x:g}")
    width = math.log(high / low)
    places: list[tuple[float, float, list[str]]] = []
    for one in sorted(points, key=lambda one: (-one.utilization_frac, one.live_models)):
        axes.scatter([one.live_models], [one.utilization_frac], s=24, color=PALETTE[0], zorder=2)
        for x, y, names in places:
            if abs(math.log(x / one.live_models)) < NEAR * width and abs(y - one.utilization_frac) < NEAR:
                names.append(one.schedule)
                break
        else:
            places.append((one.live_models, one.utilization_frac, [one.schedule]))
    letter = LETTER_FRAC * width
    centres = [(math.log(one.live_models), one.utilization_frac) for one in points]
    dots = [(x - letter, x + letter, y) for x, y in centres]
    written: list[tuple[float, float, float]] = []
    for x, y, names in places:
        text = ", ".join(dict.fromkeys(names))
        start, end = math.log(x) + 1.5 * letter, math.log(x) + letter * (len(text) + 2)
        blocks = [(at, APART) for left, right, at in dots if left < end and start < right]
        blocks += [(at, NEAR) for left, right, at in written if left < end and start < right]
        free = (y + step * NEAR / 4 for step in NEXT)
        at = next((at for at in free if all(abs(at - block) >= room for block, room in blocks)), y)
        written.append((start, end, at))
        leads = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5} if abs(at - y) > APART else None
        axes.annotate(
            text, (x, y), (math.exp(start), at), fontsize=7, va="center", arrowprops=leads,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
        )  # fmt: skip


ALL = "all"


def _answers(words: Mapping[str, object]) -> Callable[..., Any]:
    """The function that answers: for one schedule or for all, which takes several numbers by itself."""
    from lockstep.show.verbs.pipeline import pipeline, pipeline_choices

    return pipeline_choices if words["schedule"] == ALL else pipeline


def plot_schedule(found: PipelineRun) -> Figure:
    """The timeline of the stages."""
    from lockstep.show.views.parts.timelines import plot_timeline

    return plot_timeline(found.timeline, streams=["compute", "comm"] if found.pipeline.cells else ["compute"])


def ask(as_json: bool, plot: str | None, **words: Any) -> None:
    """Asks for one schedule or for all of them."""
    from lockstep.show.verbs.pipeline import pipeline, pipeline_choices

    words = given(words)
    if words.get("schedule") != ALL:
        with progress("building the schedule") as report:
            answer = pipeline(progress=report, **words)
        draw(plot, partial(plot_schedule, answer))
        return show(answer, as_json, render)
    for name in ("target", "chunks", "layers", "recompute", "forward_comm_s", "backward_comm_s"):
        if name in words:
            raise BadInput("belongs to one schedule, not to --schedule all", f"--{name.replace('_', '-')}")
    if "microbatches" not in words:
        raise BadInput("must be given", "--microbatches")
    choices = pipeline_choices(**{name: value for name, value in words.items() if name != "schedule"})
    draw(plot, partial(plot_choices, choices))
    show(choices, as_json, render_choices)


COMMAND = Command(
    examples=(
        "lockstep pipeline --stages 4 --microbatches 8 --schedule 1f1b",
        "lockstep pipeline --stages 8 --microbatches 32 --schedule zb-h1 --forward-s 10ms --backward-s "
        "20ms --plot zb.svg",
        "lockstep pipeline --stages 8 --schedule 1f1b --target 95%",
        "lockstep pipeline --stages 8 --microbatches 8,16,32,64 --schedule all --plot front.png",
        "lockstep pipeline --stages 4 --microbatches 16 --layers 1x3ms,30x10ms,1x18ms",
        "lockstep pipeline --stages 8 --microbatches 20 --schedule dualpipe --forward-s 2 --backward-s 3 "
        "--weight-s 1 --forward-comm-s 1 --backward-comm-s 1 --plot dualpipe.png",
    ),
    render=render,
    picture=plot_schedule,
    figures=("makespan_s", "utilization_frac", "bubble_frac"),
    answers=_answers,
    ask=ask,
)
