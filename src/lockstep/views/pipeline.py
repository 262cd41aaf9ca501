"""`lockstep pipeline`: one step of a pipeline schedule, or all schedules side by side."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.errors import BadInput
from lockstep.units import format_frac, format_time
from lockstep.views.parts.command import Command
from lockstep.views.parts.figure import PALETTE, make_figure
from lockstep.views.parts.output import draw, given, show
from lockstep.views.parts.progress import progress
from lockstep.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.parallel.pipeline import Partition, Point
    from lockstep.verbs.pipeline import PipelineChoices, PipelineRun


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
        from lockstep.program import draw as draw_text

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


MARKERS = "o^sD"
"""One for each time that the colours begin anew."""


def plot_choices(found: PipelineChoices) -> Figure:
    """The picture."""
    names = list(dict.fromkeys(point.schedule for point in found.points))

    def draw(axes: Axes) -> None:
        memory, best = [point.live_models for point in found.front], [point.utilization_frac for point in found.front]
        axes.step(memory, best, where="post", color="0.7", zorder=1)
        for index, name in enumerate(names):
            own = [point for point in found.points if point.schedule == name]
            held, busy = [point.live_models for point in own], [point.utilization_frac for point in own]
            round_of, colour = divmod(index, len(PALETTE))
            axes.scatter(held, busy, s=24, color=PALETTE[colour], marker=MARKERS[round_of], label=name, zorder=2)
        axes.set(xlabel="activations held at most, micro-batches through the whole model", ylabel="share of time busy")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    return make_figure("Pipeline schedules: utilisation against memory", draw)


ALL = "all"


def _answers(words: Mapping[str, object]) -> Callable[..., Any]:
    """The function that answers: for one schedule or for all, which takes several numbers by itself."""
    from lockstep.verbs.pipeline import pipeline, pipeline_choices

    return pipeline_choices if words["schedule"] == ALL else pipeline


def plot_schedule(found: PipelineRun) -> Figure:
    """The timeline of the stages."""
    from lockstep.views.parts.timelines import plot_timeline

    return plot_timeline(found.timeline, streams=["compute", "comm"] if found.pipeline.cells else ["compute"])


def ask(as_json: bool, plot: str | None, **words: Any) -> None:
    """Asks for one schedule or for all of them."""
    from lockstep.verbs.pipeline import pipeline, pipeline_choices

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
