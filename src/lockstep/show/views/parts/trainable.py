"""What a machine trains: a table per method, and a picture of how large the models of each family are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.units import format_count, format_risk, format_size, format_time
from lockstep.show.views.parts.bars import rows as name_rows
from lockstep.show.views.parts.figure import PALETTE, QUIET, make_figure
from lockstep.show.views.parts.terminal import heading, indented, paragraph, small_print, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.trainable import Larger, Row, Trainable

FIGURES = [(title, "right") for title in ("mb", "memory", "risk", "tokens/s", "time")]
COLUMNS = [("model", "left"), *FIGURES, ("next larger: needs", "text")]
SAID = {"full": "full fine-tuning"}
"""How a sentence names a method."""
BILLION = 1e9
ROOM, RAISED = 1.08, 0.27
"""Times its size at which the name of a model stands, and rows above its own."""


def render_trainable(found: Trainable, out: Console) -> None:
    """Prints the verdict, a table per method, and how to ask for one row."""
    paragraph(out, verdict(found), style="bold green" if found.fits else "bold red")
    for method in found.methods:
        words = " ".join(f"--{name} {value}" for name, value in method.words.items())
        heading(out, SAID.get(method.name, method.name), words)
        _method(found.of(method), out)
    example = next((row.fit for method in found.methods for row in found.of(method) if row.fit), None)
    if example is not None:
        heading(out, "One of them alone", "all commands with --json")
        indented(out, Text(example.command))
    small_print(out, "Assumptions", list(_assumptions(found)), 10)


def verdict(found: Trainable) -> str:
    """The largest model of each method in a sentence."""
    where = f"{found.cluster.num_devices} x {found.cluster.device.name}"
    largest = {method.name: found.of(method)[0].fit for method in found.methods}
    said = [
        f"{one.model} ({format_count(one.parameters)}) by {SAID.get(name, name)}"
        for name, one in largest.items()
        if one
    ]
    return f"{where} trains up to {', '.join(said)}." if said else f"{where} trains no model of the catalog like this."


def _method(rows: Sequence[Row], out: Console) -> None:
    """A line per family of which a model fits, or one nearly does; the others by name."""
    near = [row for row in rows if row.fit or (row.larger and row.larger.changes)]
    if near:
        indented(out, table(COLUMNS, [[*_cells(row), _next(row.larger)] for row in near]))
    left = [row.family for row in rows if row not in near]
    if left:
        paragraph(out, f"No model fits of: {', '.join(left)}.", style="dim", indent=2)


def _cells(row: Row) -> list[str]:
    if row.fit is None:
        return [f"none of {row.family}", "", "", "", "", ""]
    fit = row.fit
    time = format_time(fit.time_s)
    risk = format_risk(fit.out_of_memory_frac).replace("less than", "<")
    speed = format_count(fit.tokens_per_s)
    return [fit.model, str(fit.layout.micro_batch), format_size(fit.memory_B), risk, speed, time]


def _next(larger: Larger | None) -> str:
    """The next larger model, and what lets it fit: changes, or the machine."""
    if larger is None:
        return ""
    name = f"{larger.model} (tight)" if larger.tight else larger.model
    needs = " ".join(larger.changes) or larger.machine
    return f"{name}: {needs}" if needs else name


def _assumptions(found: Trainable) -> Iterator[str]:
    """What the answer takes for granted."""
    first, data = found.methods[0].recipe, found.data
    yield (
        "a model fits where the risk of running out of memory, the share of published runs predicted to be as full "
        f"that ran out, is at most {format_risk(found.most_risk_frac)}"
    )
    yield (
        f"{first.batch} sequences of {first.seq} tokens per step, by models that read as many; software "
        f"{first.software.name}; the fastest micro-batch, recomputation and ZeRO stage of those that fit"
    )
    length = "that fill a sequence each" if data["sample_tokens"] is None else f"of {data['sample_tokens']} tokens"
    samples = f"{format_count(data['samples'])} samples {length}"
    yield f"time of {data['epochs']:g} epochs of {samples}, without interruptions"
    yield "decoders of the catalog whose weights are published; the largest has most parameters, experts included"
    for method in found.methods:
        if elsewhere := method.elsewhere:
            yield f"{method.name}: not counted are {', '.join(elsewhere)}"
    yield (
        "the next larger model of a family fits with the options behind it, else on the machine behind it, the "
        "cheapest of as many devices"
    )
    if any(row.larger and row.larger.tight for row in found.rows):
        yield "tight: it fits if memory is no more than predicted, and of runs as full as that some ran out of memory"


def plot_trainable(found: Trainable) -> Figure:
    """A row per family: its models as ticks, and how far each method gets. Raises BadInput where nothing fits."""
    from lockstep.describe.workload import families

    every = families()
    reached = {(row.family, row.method): row.fit for row in found.rows if row.fit}
    if not reached:
        raise BadInput("no model fits, so that there is nothing to draw")
    largest = {family: max(reached[one].parameters for one in reached if one[0] == family) for family, _ in reached}
    names = sorted(largest, key=lambda family: -largest[family])
    methods = [method.name for method in found.methods]

    def draw(axes: Axes) -> None:
        for at, family in enumerate(names):
            sizes = [size / BILLION for size, _ in every[family]]
            axes.plot(sizes, [at] * len(sizes), color=QUIET, linewidth=0.8, marker="|", markersize=9, zorder=1)
            best = max(
                (reached[family, one] for one in methods if (family, one) in reached), key=lambda fit: fit.parameters
            )
            axes.text(ROOM * best.parameters / BILLION, at - RAISED, best.model, va="center", fontsize=7)
            for place, method in enumerate(methods):
                if fit := reached.get((family, method)):
                    lane = at + 0.15 * (place - (len(methods) - 1) / 2)
                    axes.scatter(fit.parameters / BILLION, lane, s=22, color=PALETTE[place], zorder=2)
        for place, method in enumerate(methods):
            axes.scatter([], [], s=22, color=PALETTE[place], label=method)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: format_count(value * BILLION))
        axes.set_xlabel(
            "parameters; ticks are all models of a family, dots the largest that fit, with the largest's name"
        )
        name_rows(axes, names)
        axes.legend(fontsize=8, frameon=False, loc="lower right")

    return make_figure(verdict(found), draw, size=(10.0, 1.8 + 0.34 * max(3, len(names))))
