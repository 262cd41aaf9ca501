"""`lockstep estimate`: step time and memory of one layout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lockstep.base.documents.files import writing
from lockstep.base.errors import BadInput
from lockstep.base.units import format_count, format_flops, format_frac, format_risk, format_size, format_time
from lockstep.show.verbs.words.option import Option
from lockstep.show.views.memory import categories, host_words, tight_words
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.options import flags
from lockstep.show.views.parts.output import draw, picture_path, show
from lockstep.show.views.parts.reading import BINDS, PART_WORDS, left_out
from lockstep.show.views.parts.terminal import bar, heading, indented, paragraph, small_print, table

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.price.layout import Job


ASSUMPTIONS = 5
HIDDEN_FRAC = 1e-3
"""A part with nothing exposed is left out where less than this share of the step is hidden."""


def render(found: Estimate, out: Console) -> None:
    """Prints the estimate."""
    _verdict(found, out)
    heading(out, "Where the time goes", "exposed seconds of one step; hidden traffic costs nothing")
    _breakdown(found, out)
    heading(out, "What fills the memory", f"fullest device {found.memory.when}")
    categories(found.memory, out)
    small_print(out, "Assumptions", found.assumptions(), ASSUMPTIONS)


def _verdict(found: Estimate, out: Console) -> None:
    """How fast, and whether it fits."""
    job, memory = found.job, found.memory
    fits = bool(memory.fits)
    title = f"{job.model.name} on {job.devices} x {found.cluster.device.name}: {layout_words(found.layout)}"
    out.print(Text(title, style="bold green" if fits else "bold red"))
    pieces = unit(job)
    out.print(
        f"{format_time(found.step_time_s)} per step of {format_count(job.step_units)} {pieces} "
        f"({found.accumulation}), {found.said_interval}; "
        f"{format_count(found.tokens_per_s)} {pieces}/s ({format_count(found.tokens_per_s_per_gpu)} per device), "
        f"{found.utilisation}, {format_flops(found.model_flops_per_gpu_per_s)} per device"
        f"{_peak(found)}, "
        f"{format_frac(found.hfu_frac)} HFU; bound by {BINDS[found.bound_by]}."
    )
    total, capacity = format_size(float(memory.total_B)), format_size(memory.capacity_B)
    if memory.tight:
        out.print(tight_words(memory))
    elif fits:
        risk = format_risk(float(memory.out_of_memory_frac))
        out.print(f"It fits: {total} of {capacity} per device; risk of running out of memory {risk}.")
    elif memory.total_B > memory.capacity_B:
        out.print(Text(f"It does not fit: {total} per device, the {found.cluster.device.name} has {capacity}."))
    else:
        out.print(f"It does not fit, though the device holds its part: {total} of {capacity}.")
    if memory.host_B:
        out.print(host_words(memory))
    left_out(job, out)


def _peak(found: Estimate) -> str:
    """The peak that utilisations are of, where it is not that of half precision."""
    dtype = found.job.recipe.dtype
    from lockstep.decide.planner.utilisation import HALF

    return "" if dtype in HALF else f" of {format_flops(found.cluster.device.peak(dtype))} in {dtype}"


def unit(job: Job) -> str:
    """What a batch is counted in."""
    return job.unit


def _breakdown(found: Estimate, out: Console) -> None:
    """Parts of the step that take time, largest first, and what of their traffic hides beside computing."""
    from lockstep.simulate.parallel.piece import Hiding

    parts = sorted(found.step.breakdown_s().items(), key=lambda part: -part[1])
    hidden, rows = found.hiding(), []
    for name, seconds in parts:
        share, one = seconds / found.step_time_s, hidden.get(name, Hiding())
        if share > 0 or one.hidden_s > HIDDEN_FRAC * found.step_time_s:
            told = (format_time(float(one.hidden_s)), format_time(float(one.slack_s))) if one.hidden_s else ("", "")
            rows.append((PART_WORDS[name], format_time(seconds), format_frac(share, 2), bar(share), *told))
    columns = [("part", "left"), ("time", "right"), ("share", "right"), ("", "left")]
    if any(row[-1] for row in rows):
        columns += [("hidden", "right"), ("room left", "right")]
    indented(out, table(columns, [row[: len(columns)] for row in rows]))


def time_line(found: Estimate, out: Console) -> None:
    """Parts of the step of at least one per cent in one line."""
    parts = sorted(found.step.breakdown_s().items(), key=lambda part: -part[1])
    shares = [(name, seconds / found.step_time_s) for name, seconds in parts]
    words = [f"{PART_WORDS[name]} {format_frac(share, 2)}" for name, share in shares if share >= 0.01]
    paragraph(out, "Time: " + ", ".join(words), "dim")


SAID_PARTS = 3
MOST_STAGES = 8
"""Stages whose traffic a picture shows; of more it shows computing alone."""

TRACE = flags(
    trace=Option("FILE", "Also write the step as a Perfetto trace: .json.gz or .json."),
    form=Option(
        "FORM",
        "Form of the trace: perfetto; or kineto, a folder with a file for every rank of the layout as PyTorch's "
        "profiler writes it.",
        flag="--as",
        default="perfetto",
    ),
    expand=Option(
        "W",
        "Detail of the trace: layers writes each layer of every pass; operations also writes what each layer computes, "
        "of the first micro-batches alone where that is more than 100,000 spans; messages writes layers and expands "
        "each different collective of the first stage once, into the sends of all ranks of its group; tp, cp, ep or dp "
        "expands only that kind.",
    ),
)
MACHINE = flags(
    machine=Option("FILE", "Also draw the step on nodes, devices and links at one moment: .png, .svg or .pdf."),
    moment=Option("SHARE", "The moment of --machine, as a share of the step: 40%.", default="50%"),
)


def plot_step(found: Estimate) -> Figure:
    """The timeline of the step; of many stages computing alone."""
    from lockstep.show.views.parts.timelines import plot_timeline
    from lockstep.simulate.parallel.lanes import COMPUTE
    from lockstep.simulate.parallel.script import LANES

    step = f"{format_time(found.step_time_s)} per step, {format_frac(found.mfu_frac)} {found.utilisation.name}"
    parts = sorted(found.step.breakdown_s().items(), key=lambda part: -part[1])[:SAID_PARTS]
    where = ", ".join(f"{PART_WORDS[name]} {format_frac(time_s / found.step_time_s, 2)}" for name, time_s in parts)
    streams = LANES if found.layout.pp <= MOST_STAGES else (COMPUTE,)
    return plot_timeline(found.timeline(), title=f"{step}: {where}", streams=streams)


def ask(
    as_json: bool, plot: str | None, trace: str | None, form: str | None, expand: str | None, machine: str | None,
    moment: str | None, **words: Any,
) -> None:  # fmt: skip
    """Writes the trace and the machine too."""
    from lockstep.show.verbs.capture import is_capture
    from lockstep.show.verbs.estimate import estimate
    from lockstep.show.verbs.trace import trace_step

    drawn = picture_path(machine, "--machine")
    if moment is not None and drawn is None:
        raise BadInput("has no effect without --machine", "--moment")
    if is_capture(words["model"]):
        if drawn is not None:
            raise BadInput("does not belong to a captured step, which is of one device", "--machine")
        return _captured(as_json, plot, trace, {**words, "as": form, "expand": expand})
    answer = estimate(**words)
    draw(plot, partial(plot_step, answer))
    if drawn is not None:
        _draw_machine(answer, drawn, moment)
    if trace is not None:
        trace_step(answer, trace, expand, form or "perfetto")
    elif expand is not None or form is not None:
        raise BadInput("has no effect without --trace", "--expand" if expand is not None else "--as")
    show(answer, as_json, render, ok=bool(answer.memory.fits))


def _draw_machine(answer: Estimate, path: Path, moment: str | None) -> None:
    """Writes the picture of the step on the machine. Raises BadInput at --moment or --machine."""
    from lockstep.show.views.parts.figure import save_figure
    from lockstep.show.views.parts.machine import MOMENT, plot_machine

    figure = plot_machine(answer, moment or MOMENT)
    with writing(path, "--machine"):
        save_figure(figure, path)


def _captured(as_json: bool, plot: str | None, trace: str | None, words: dict[str, Any]) -> None:
    """A captured step, as `lockstep memory` says it, with its trace."""
    from lockstep.show.verbs.capture import read_capture
    from lockstep.show.verbs.trace import trace_captured
    from lockstep.show.views.capture import plot_capture
    from lockstep.show.views.capture import render as render_capture

    found = read_capture(words.pop("model"), words.get("cluster"), words, words.pop("at") or (), words.pop("steps"))
    draw(plot, partial(plot_capture, found))
    if trace is not None:
        trace_captured(found, trace, "--trace")
    show(found, as_json, render_capture, ok=found.fits)


COMMAND = Command(
    also={**TRACE, **MACHINE},
    examples=(
        "lockstep estimate gpt3-175b -c dgx-a100-80gb --gpus 1024 --batch 1536 --tp 8 --pp 16 --zero 1 --seq 2048",
        "lockstep estimate llama3-8b -c dgx-h100:4 --batch 256 --zero 3 --recompute selective --json",
        "lockstep estimate llama3-8b -c dgx-h100:4 --batch 256 --stack hf-trainer --way norm=one,rotary=one",
        "lockstep estimate llama3-8b -c dgx-h100:4 --batch 256 --pp 4 --plot step.png --trace step.json.gz",
        "lockstep estimate llama3-8b -c dgx-h100:4 --batch 256 --pp 4 --machine step.svg --moment 40%",
        "lockstep estimate llama3-8b -c dgx-h100:4 --batch 64 --tp 8 --trace step.json.gz --expand messages",
        "lockstep estimate gpt2-medium -c dgx-h100 --batch 32 --trace ranks --as kineto",
        "lockstep estimate step.capture -c dgx-h100:4 --trace step.json.gz",
    ),
    more="The exit code is 1 when it does not fit in memory.",
    render=render,
    picture=plot_step,
    figures=("step_time_s", "mfu_frac", "tokens_per_s", "memory.total_B", "memory.fits"),
    ask=ask,
)
