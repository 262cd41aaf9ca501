"""Scaling for a person: where more devices stop helping, which size keeps a deadline or a budget, every size."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.campaigns import Scaling, Size
from lockstep.planner.estimate import SECONDS_PER_DAY
from lockstep.report.terminal import heading, indented, one_line, table
from lockstep.units import format_count, format_frac, format_money, format_time


def render(found: Scaling, out: Console) -> None:
    """Prints the sizes."""
    _verdict(found, out)
    heading(out, "Weak scaling" if found.weak else "Strong scaling", "each size with its best layout")
    columns = [("devices", "right"), ("batch" if found.weak else "step", "right"), ("MFU", "right")]
    columns += [("speed-up", "right"), ("efficiency", "right"), ("added", "right")]
    if found.sizes[0].run is not None:
        columns += [("time", "right"), ("cost", "right")]
    indented(out, table(columns, (_row(one, found) for one in found.sizes)))
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
        f" {format_frac(whole.efficiency_frac)} of what they could be{_serial(found)}."
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


def _row(one: Size, found: Scaling) -> list[str | Text]:
    added = "" if one.marginal_frac is None else format_frac(one.marginal_frac)
    style = "bold green" if one is found.last_helping else ""
    batch, step = format_count(one.estimate.job.recipe.batch), format_time(one.estimate.step_time_s)
    cells = [f"{one.devices:,}", batch if found.weak else step]
    cells += [format_frac(one.estimate.mfu_frac), f"{one.speedup:.4g}", format_frac(one.efficiency_frac), added]
    if one.run is not None:
        days = format_time(one.run.days * SECONDS_PER_DAY)
        cells += [days, "?" if one.run.cost_usd is None else format_money(one.run.cost_usd)]
    return [Text(cell, style=style) for cell in cells]
