"""`lockstep scaling`: strong and weak scaling, and where more devices stop helping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import SECONDS_PER_DAY, format_count, format_frac, format_money, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.reading import left_out, mfu_column, notes
from lockstep.show.views.parts.terminal import heading, indented, one_line, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.campaigns import Scaling, Size


def render(found: Scaling, out: Console) -> None:
    """Prints the sizes."""
    _verdict(found, out)
    left_out(found.base.estimate.job, out)
    note, used = mfu_column([one.estimate.utilisation for one in found.sizes])
    said = notes("each size with its best layout", note)
    heading(out, "Weak scaling" if found.weak else "Strong scaling", said)
    columns = [("devices", "right"), ("batch" if found.weak else "step", "right"), ("MFU", "right")]
    columns += [("speed-up", "right"), ("efficiency", "right"), ("added", "right")]
    if found.sizes[0].run is not None:
        columns += [("time", "right"), ("cost", "right")]
    indented(out, table(columns, (_row(one, mfu, found) for one, mfu in zip(found.sizes, used, strict=True))))
    if found.skipped:
        heading(out, "Left out")
        *smaller, (largest, why) = found.skipped
        rows: list[tuple[str, str | Text]] = [(f"{devices:,}", one_line(why)) for devices, why in smaller]
        indented(out, table([("devices", "right"), ("why", "text")], [*rows, (f"{largest:,}", why)]))


def _verdict(found: Scaling, out: Console) -> None:
    last, whole = found.last_helping, found.sizes[-1]
    if last is whole:
        title = f"More devices help up to all {whole.devices:,}"
    else:
        title = f"Adding devices beyond {last.devices:,} stops helping: over half of what they add is lost"
    out.print(Text(title, style="bold green"))
    first = found.sizes[0]
    out.print(
        f"{whole.devices:,} devices are {whole.speedup:.4g} times as fast as {first.devices:,},"
        f" {format_frac(whole.efficiency_frac)} of what they would be at the rate per device of {found.base.devices:,}"
        f"{_serial(found)}."
    )
    if found.fastest is not whole:
        out.print(f"Fastest on {found.fastest.devices:,} devices; beyond that the run takes longer.")
    if found.deadline_s is not None:
        out.print(_chosen(found.for_deadline, f"done within {format_time(found.deadline_s)}"))
    if found.budget_usd is not None:
        out.print(_chosen(found.for_budget, f"paid for by {format_money(found.budget_usd)}"))


def _serial(found: Scaling) -> str:
    if found.serial_frac is None or found.serial_frac <= 0:
        return ""
    return f", as if {format_frac(found.serial_frac)} of the work were serial"


def _chosen(size: Size | None, wish: str) -> str:
    if size is None or size.run is None:
        return f"No size is {wish}."
    cost = "" if size.run.cost_usd is None else f" for {format_money(size.run.cost_usd)}"
    return f"{size.devices:,} devices are {wish}: {format_time(size.run.wall_s)}{cost}."


def _row(one: Size, mfu: str, found: Scaling) -> list[str | Text]:
    added = "" if one.marginal_frac is None else format_frac(one.marginal_frac)
    style = "bold green" if one is found.last_helping else ""
    batch, step = format_count(one.estimate.job.recipe.batch), format_time(one.estimate.step_time_s)
    cells = [f"{one.devices:,}", batch if found.weak else step]
    cells += [mfu, f"{one.speedup:.4g}", format_frac(one.efficiency_frac), added]
    if one.run is not None:
        days = format_time(one.run.days * SECONDS_PER_DAY)
        cells += [days, "?" if one.run.cost_usd is None else format_money(one.run.cost_usd)]
    return [Text(cell, style=style) for cell in cells]


def plot_scaling(found: Scaling) -> Figure:
    """The curve next to the ideal line, the last size that helps marked."""
    devices = [one.devices for one in found.sizes]

    def draw(axes: Axes) -> None:
        axes.plot(devices, [number / devices[0] for number in devices], color="#cccccc", linestyle=":", label="ideal")
        axes.plot(devices, [one.speedup for one in found.sizes], "o-", color=PALETTE[0], label="planned")
        last = found.last_helping
        axes.plot([last.devices], [last.speedup], "o", color=PALETTE[4], markersize=9, label="last that helps")
        for one in found.sizes:
            label = format_time(one.run.wall_s) if one.run is not None else f"{one.efficiency_frac:.0%}"
            axes.annotate(label, (one.devices, one.speedup), fontsize=7, xytext=(4, -9), textcoords="offset points")
        axes.set(xscale="log", yscale="log", xlabel="devices", ylabel="speed-up over the smallest size")
        axes.set_xticks(devices, [str(number) for number in devices], rotation=45)
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False)

    first = found.sizes[0].estimate
    kind = "Weak" if found.weak else "Strong"
    return make_figure(f"{kind} scaling of {first.job.model.name} on {first.cluster.device.name}", draw)


COMMAND = Command(
    without=("replica_nodes",),
    examples=(
        "lockstep scaling llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot scaling.png",
        "lockstep scaling llama3-8b -c aws-p5:32 --batch 512 --tokens 2T --deadline 40d --budget 500000",
        "lockstep scaling llama3-8b -c dgx-a100-80gb:16 --batch 512 --weak",
    ),
    render=render,
    picture=plot_scaling,
    doing="planning every size",
    figures=("fastest_gpus", "serial_frac"),
)
