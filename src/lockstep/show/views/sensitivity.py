"""`lockstep sensitivity`: what the step time follows, and which upgrades save most."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac, format_size, format_time
from lockstep.show.views.campaign import NUMBER_WORDS
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import make_figure
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.reading import left_out
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.planner.upgrades import Upgrade
    from lockstep.show.verbs.sensitivity import Advice


UPGRADE_ROWS = 8
ELASTICITY_ROWS = 10
ASSUMPTIONS = 2
NAME_WIDTH = 28
WORDS = NUMBER_WORDS | {
    "latency": "latency of messages",
    "host": "time on the host",
    "memory_B": "memory of a device",
    "seq": "sequence length",
    "vpp": "chunks per stage",
    "micro_batch": "micro-batch",
}
STRONGEST = 1.0
"""Elasticity of a full bar."""


def render(advice: Advice, out: Console) -> None:
    """Prints the advice."""
    now, upgrades = advice.estimate, advice.upgrades.by_saving
    strongest = advice.sensitivity.ranked[0]
    out.print(Text(_verdict(upgrades), style="bold green"))
    out.print(
        f"{now.job.model.name} on {now.job.devices} x {now.cluster.device.name}: {layout_words(now.layout)}; "
        f"{format_time(now.step_time_s)} per step; most sensitive to {_said(strongest[0])}."
    )
    if not bool(now.memory.fits):
        out.print(Text("This layout does not fit in memory: its times are what they would be if it did.", style="red"))
    left_out(now.job, out)
    heading(out, "Upgrades", "each planned again; $/h is the change in price of all devices")
    titles = [("upgrade", "text"), ("step", "right"), ("saves", "right"), ("$/h", "right"), ("memory", "right")]
    indented(out, table([*titles, ("layout", "text")], (_row(one) for one in upgrades[:UPGRADE_ROWS])))
    heading(out, "Elasticity", "% change in step time per +1 % of")
    ranked = advice.sensitivity.ranked[:ELASTICITY_ROWS]
    rows = ((_said(name), f"{value:+.3f}", bar(abs(value) / STRONGEST)) for name, value in ranked)
    indented(out, table([("number", "left"), ("elasticity", "right"), ("", "left")], rows))
    small_print(out, "Assumptions", now.assumptions(), ASSUMPTIONS)


def _said(name: str) -> str:
    """A number of the run or of the hardware as a person says it."""
    return WORDS.get(name, f"bandwidth, {name.removeprefix('bw_')}" if name.startswith("bw_") else name)


def _verdict(upgrades: tuple[Upgrade, ...]) -> str:
    """The upgrade that saves most."""
    if not upgrades or upgrades[0].saving_frac <= 0:
        return "No upgrade shortens the step"
    best = upgrades[0]
    return f"Biggest saving: {best.what} ({format_frac(best.saving_frac)} of the step time)"


def _row(one: Upgrade) -> list[str]:
    price = "?" if one.cost is None else f"{one.cost:+,.0f}" if one.cost else "0"
    memory = format_size(float(one.after.memory.total_B))
    return [one.what, format_time(one.step_time_s), format_frac(one.saving_frac), price, memory, str(one.after.layout)]


def plot_advice(advice: Advice) -> Figure:
    """What the step time is most sensitive to, and what upgrades save."""
    ranked = advice.sensitivity.ranked[:ELASTICITY_ROWS]
    upgrades = advice.upgrades.by_saving[:UPGRADE_ROWS]

    def elasticities(axes: Axes) -> None:
        values = [value for _, value in ranked]
        colours = [bars.RED if value > 0 else bars.BLUE for value in values]
        bars.plain(axes, [_said(name) for name, _ in ranked], values, lambda value: f"{value:+.2f}", colours=colours)
        axes.set_xlabel("% change in step time per +1 % of")

    def savings(axes: Axes) -> None:
        names = [fill(one.what, NAME_WIDTH) for one in upgrades]
        values = [100 * one.saving_frac for one in upgrades]
        bars.plain(axes, names, values, lambda value: f"{value:.3g} %", colours=bars.GREEN)
        axes.set_xlabel("step time saved by an upgrade, planned again, %")

    draws = [elasticities, *([savings] if upgrades else [])]
    return make_figure(_verdict(advice.upgrades.by_saving), *draws, size=(12.0, 4.5))


COMMAND = Command(
    examples=("lockstep sensitivity llama3-70b -c dgx-h100:64 --batch 512 --tp 8 --pp 4 --zero 1",),
    render=render,
    picture=plot_advice,
    figures=("now.step_time_s",),
)
