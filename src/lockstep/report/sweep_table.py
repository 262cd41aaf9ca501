"""A sweep of an experiment for a person: verdict, one row per point, the checks that strain most."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.lab.sweep import Point, Pooled, Sweep
from lockstep.report.terminal import heading, indented, table

POINTS = 14
CHECKS = 8


def render(found: Sweep, out: Console) -> None:
    """Prints the sweep."""
    sentence = found.verdict[0].upper() + found.verdict[1:]
    out.print(Text(sentence, style="bold green" if found.agrees else "bold red"))
    seeds = found.points[0].seeds
    points = f"{len(found.points)} point{'s' * (len(found.points) > 1)}"
    if not found.complete:
        out.print(Text(f"Stopped after {found.runs:,} of {found.asked:,} runs.", style="bold"))
    out.print(f"{found.runs:,} runs: {points}, {seeds} seed{'s' * (seeds > 1)} each, from {found.seed} on.")
    if found.points[0].swept:
        _points(found, out)
    _checks(found, out)
    out.print(Text(f"\nSource: {found.source}", style="dim"))


def _points(found: Sweep, out: Console) -> None:
    """How many runs agree at each point, and how far the worst mean is from its law."""
    more = len(found.points) - POINTS
    heading(out, "Points", f"{more} more with --json" if more > 0 else "")
    keys = [name.replace("_", " ") for name, _ in found.points[0].swept]
    columns = [(key, "right") for key in keys] + [("runs that agree", "right"), ("worst mean", "text")]
    rows = [
        [*(str(value) for _, value in point.swept), f"{point.agreeing} of {point.seeds}", _worst(point)]
        for point in found.points[:POINTS]
    ]
    indented(out, table(columns, rows))


def _worst(point: Point) -> str:
    laws = [pooled for pooled in point.checks if pooled.check.relation == "equals" and not pooled.check.false_law]
    random = [pooled for pooled in laws if pooled.check.standard_error]
    if not random:
        return "nothing is random"
    worst = max(random, key=_errors)
    return f"{_errors(worst):.2g} standard errors: {worst.check.what}"


def _errors(pooled: Pooled) -> float:
    """Distance of mean and law in standard errors of the mean."""
    check = pooled.check
    return abs(check.got - check.expected) / check.standard_error


def _checks(found: Sweep, out: Console) -> None:
    """Means with their intervals, what failed and what strains most first."""
    pooled = [(point, one) for point in found.points for one in point.checks]
    ordered = sorted(pooled, key=lambda pair: (pair[1].check.ok, -pair[1].check.strain))
    more = len(ordered) - CHECKS
    heading(out, "Theory and means over seeds", f"{more} more with --json" if more > 0 else "")
    columns = [("", "text"), ("theory", "right"), ("mean", "right"), ("95 % interval", "right"), ("", "left")]
    rows: list[list[str | Text]] = []
    for point, one in ordered[:CHECKS]:
        where = ", ".join(f"{name} = {value}" for name, value in point.swept)
        low, high = one.ci95
        said = "rejected, as expected" if one.check.false_law else "agrees"
        mark = Text(said, style="green") if one.check.ok else Text("no", style="red")
        name = f"{one.check.what} ({where})" if where else one.check.what
        expected, got = one.check.printed(4)
        rows.append([name, expected, got, f"{low:.4g} to {high:.4g}", mark])
    indented(out, table(columns, rows))
