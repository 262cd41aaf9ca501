"""`lockstep memory`: bytes on one rank of every pipeline stage."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.units import format_count, format_frac, format_risk, format_size
from lockstep.show.verbs.words.machine import METHODS
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import INK, make_figure
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.reading import left_out
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table
from lockstep.show.views.parts.trainable import plot_trainable, render_trainable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.decide.planner.room import Use
    from lockstep.decide.planner.trainable import Trainable
    from lockstep.price.layout import Memory
    from lockstep.show.verbs.capture import CapturedMemory
    from lockstep.show.verbs.memory import StageMemories


CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "buffers")
STAGE_ROWS = 12
RANKS = 16
ASSUMPTIONS = 10
SHOWN_BY = {"NVIDIA": "nvidia-smi", "AMD": "rocm-smi"}
"""The tool that people look at, by vendor."""


def render(found: StageMemories, out: Console) -> None:
    """Prints memory by stage and category."""
    memory, device = found.memory, found.cluster.device
    fits = bool(memory.fits)
    title = f"{found.job.model.name} on {found.job.devices} x {device.name}: {layout_words(found.layout)}"
    out.print(Text(title, style="bold green" if fits else "bold red"))
    total, capacity = format_size(float(memory.total_B)), format_size(memory.capacity_B)
    say = "It fits" if fits else "It does not fit"
    risk = f"risk of running out of memory {format_risk(float(memory.out_of_memory_frac))}"
    out.print(f"{say}: stage {found.fullest} is the fullest with {total} of {capacity} per device; {risk}.")
    if memory.tight:
        out.print(tight_words(memory))
    if fits and device.vendor in SHOWN_BY and memory.kept_frac:
        out.print(reserved_words(memory, SHOWN_BY[device.vendor]))
    if memory.host_B:
        out.print(host_words(memory))
    left_out(found.job, out)
    heading(out, "What fills the memory", f"stage {found.fullest} {memory.when}")
    categories(memory, out)
    if len(found.stages) > 1:
        heading(out, "Stages", _left_out(found.stages))
        _stages(found.stages, out)
    from lockstep.decide.planner.room import Use

    if found.room:
        heading(out, "What the rest could be spent on", "each change alone")
        _uses([Use("as it is", float(memory.total_B), found.estimate.tokens_per_s), *found.room], found.job.unit, out)
    if found.place:
        heading(out, "Place of the rank", "along each axis that is split, innermost first, from 0")
        _place(found.place, out)
    from lockstep.decide.planner.assumptions import memory_assumptions

    small_print(out, "Assumptions", memory_assumptions(found.job, found.cluster, found.layout), ASSUMPTIONS)


def render_rank(memory: Memory, out: Console) -> None:
    """Prints the memory of one rank by category; of many layouts the range of their totals."""
    totals_B = np.atleast_1d(memory.total_B)
    if totals_B.size != 1:
        low, high = (format_size(float(end)) for end in (totals_B.min(), totals_B.max()))
        out.print(Text(f"Memory of {totals_B.size:,} layouts: {low} to {high}", style="bold"))
        return
    fits = "fits" if memory.fits else "does not fit"
    total, capacity = format_size(float(memory.total_B)), format_size(memory.capacity_B)
    out.print(Text(f"Memory of one rank: {total} of {capacity}, {fits}", style="bold"))
    if memory.tight:
        out.print(tight_words(memory))
    if memory.host_B:
        out.print(host_words(memory))
    heading(out, "What fills the memory", memory.when)
    categories(memory, out)


def _place(place: Mapping[str, Json], out: Console) -> None:
    """A line per axis; of a long group the first and the last ranks."""
    rows = []
    for axis, one in place.items():
        ranks = [str(rank) for rank in one["ranks"]]
        few = ranks if len(ranks) <= RANKS else [*ranks[: RANKS // 2], "...", *ranks[-RANKS // 2 :]]
        rows.append((axis, str(one["coordinate"]), str(len(ranks)), " ".join(few)))
    columns = [("axis", "left"), ("coordinate", "right"), ("ranks", "right"), ("process group", "text")]
    indented(out, table(columns, rows))


def tight_words(memory: Memory) -> str:
    """That a layout fits with so little to spare that it may run out of memory."""
    total, capacity = format_size(float(memory.total_B)), format_size(memory.capacity_B)
    return (
        f"It barely fits: {total} of {capacity} per device, {format_frac(float(memory.used_frac))}. "
        f"Of runs predicted to be this full, {format_risk(float(memory.out_of_memory_frac))} ran out of memory."
    )


def reserved_words(memory: Memory, tool: str) -> str:
    """What a tool is expected to show, and why it is more than is needed."""
    from lockstep.price.layout import FRAMEWORK_B

    shown = format_size(float(memory.reserved_B) + FRAMEWORK_B)
    return f"{tool} will show about {shown}, as PyTorch keeps freed blocks while there is room."


def host_words(memory: Memory) -> str:
    """What offloaded states need of host memory, and whether it has that."""
    held, capacity = format_size(float(memory.host_B)), format_size(memory.host_capacity_B)
    if math.isinf(memory.host_capacity_B):
        return f"Offloaded: {held} per device in host memory of unknown size."
    if memory.host_B > memory.host_capacity_B:
        return f"Offloaded states exceed host memory: {held} per device, where its share is {capacity}."
    return f"Offloaded: {held} per device in host memory, of its share of {capacity}."


def categories(memory: Memory, out: Console) -> None:
    """A line per category, with its share of the device's memory."""
    rows = []
    for name in CATEGORIES:
        size_B = float(getattr(memory, f"{name}_B"))
        share = size_B / memory.capacity_B
        rows.append((name, format_size(size_B), format_frac(share, 2), bar(share)))
    share = float(memory.used_frac)
    rows.append(("total", format_size(float(memory.total_B)), format_frac(share, 3), bar(share)))
    indented(out, table([("category", "left"), ("size", "right"), ("of device", "right"), ("", "left")], rows))


def _left_out(stages: Sequence[Memory]) -> str:
    return f"first {STAGE_ROWS} of {len(stages)}" if len(stages) > STAGE_ROWS else ""


def _stages(stages: Sequence[Memory], out: Console) -> None:
    """A line per stage."""
    titles = [("stage", "right"), *((name, "right") for name in (*CATEGORIES, "total"))]
    rows = (
        [str(number)] + [format_size(float(getattr(one, f"{name}_B"))) for name in (*CATEGORIES, "total")]
        for number, one in enumerate(stages[:STAGE_ROWS])
    )
    indented(out, table(titles, rows))


def _uses(uses: Sequence[Use], unit: str, out: Console) -> None:
    """A line per change that still fits."""
    rows = [(one.words, format_size(one.memory_B), format_count(one.tokens_per_s)) for one in uses]
    indented(out, table([("change", "left"), ("memory", "right"), (f"{unit}/s", "right")], rows))


GIB = 2.0**30
DRAWN_STAGES = 24


def plot_memory(found: StageMemories) -> Figure:
    """What fills a device of every stage, and what it has."""
    names = [f"stage {number}" for number in range(len(found.stages))] if len(found.stages) > 1 else ["device"]
    fits = "fits" if found.memory.fits else "does not fit"
    where = f"stage {found.fullest} is the fullest" if len(found.stages) > 1 else f"{found.layout}"
    title = f"{found.job.model.name} on {found.job.devices} x {found.cluster.device.name} {fits}: {where}"
    return _picture(found.stages[:DRAWN_STAGES], names[:DRAWN_STAGES], title)


def plot_rank(memory: Memory) -> Figure:
    """What fills the device of one rank, and what it has. Raises BadInput for many layouts."""
    if np.size(memory.total_B) != 1:
        raise BadInput("the memory of one layout has a picture")
    return _picture([memory], ["device"], f"Memory of one rank: it {'fits' if memory.fits else 'does not fit'}")


def _picture(stages: Sequence[Memory], names: Sequence[str], title: str) -> Figure:
    capacity_B = stages[0].capacity_B
    capacity = capacity_B / GIB
    sizes = {name: [float(getattr(one, f"{name}_B")) / GIB for one in stages] for name in CATEGORIES}
    longest = max(float(one.total_B) for one in stages) / GIB

    def draw(axes: Axes) -> None:
        ends = [format_size(float(one.total_B)) for one in stages]
        room = 1.15 * max(1.0, capacity / longest)
        bars.stacked(axes, names, sizes, ends, colours=bars.MEMORY_COLOURS, inches=8.0, room=room)
        axes.axvline(capacity, color=INK, linestyle=":")
        axes.text(capacity, -0.55, f"device: {format_size(capacity_B)} ", ha="right", va="bottom", fontsize=8)
        axes.set_ylim(len(names) - 0.4, -1.0)
        axes.set_xlabel("memory of one device at its fullest moment, GiB")

    return make_figure(title, draw, size=(10.0, 1.7 + 0.34 * max(3, len(names))))


def _render(found: StageMemories | Trainable | CapturedMemory, out: Console) -> None:
    """Prints the memory of a model or of a captured step, or what a machine trains."""
    from lockstep.show.verbs.capture import CapturedMemory
    from lockstep.show.verbs.memory import StageMemories

    if isinstance(found, StageMemories):
        render(found, out)
    elif isinstance(found, CapturedMemory):
        from lockstep.show.views.capture import render as render_capture

        render_capture(found, out)
    else:
        render_trainable(found, out)


def _plot(found: StageMemories | Trainable | CapturedMemory) -> Figure:
    """Draws the same."""
    from lockstep.show.verbs.capture import CapturedMemory
    from lockstep.show.verbs.memory import StageMemories

    if isinstance(found, CapturedMemory):
        from lockstep.show.views.capture import plot_capture

        return plot_capture(found)
    return plot_memory(found) if isinstance(found, StageMemories) else plot_trainable(found)


COMMAND = Command(
    examples=(
        "lockstep memory -c rtx-4090:1",
        "lockstep memory llama3-70b -c dgx-h100:8 --batch 128 --tp 8 --pp 4 --zero 1 --sequence-parallel",
        "lockstep memory llama3-8b -c dgx-a100-40gb --gpus 8 --batch 64 --zero 3 --recompute full --offload optimizer",
    ),
    more="The exit code is 1 when it, or no model, fits.",
    render=_render,
    picture=_plot,
    ok=lambda answer: bool(answer.fits),
    figures=(
        *("memory.total_B", "memory.activations_B", "memory.optimizer_B", "memory.fits"),
        *(f"largest.{method}" for method in METHODS),
    ),
)
