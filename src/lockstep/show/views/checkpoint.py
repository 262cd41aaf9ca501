"""`lockstep checkpoint`: how often to save, and what failures cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_frac, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.simulate.failures import Campaigns, Checkpoint, Losses, Pool


ROWS = 7


def render(found: Checkpoint, out: Console) -> None:
    """Prints the interval and its cost."""
    every, overhead = format_time(found.interval_s, 4), format_frac(found.overhead_frac)
    out.print(Text(f"Checkpoint every {every} of work: {overhead} overhead", style="bold"))
    out.print(
        f"Goodput {format_frac(1 / (1 + found.overhead_frac))}; a failure every {format_time(found.mtbf_s)}."
        f" {format_time(found.work_s)} of work take {format_time(found.expected_wall_s, 4)};"
        f" the probability of no failure at all is {_probability(found.no_failure_frac)}."
    )
    pattern = found.pattern
    if pattern.every > 1:
        between = format_time(pattern.costs_s[0])
        full = format_time(pattern.costs_s[-1])
        out.print(f"One checkpoint in {pattern.every} is a full one of {full}; those between take {between}.")
    if found.causes is not None and len(found.causes.causes) > 1:
        shares = [(one.kind, found.causes.share_frac(one.kind)) for one in found.causes.causes]
        named = ", ".join(f"{kind} {format_frac(share)}" for kind, share in sorted(shares, key=lambda pair: -pair[1]))
        out.print(f"Failures: {named}.")
    if found.pool is not None:
        out.print(_pool(found.pool))
    if pattern.silent_frac:
        out.print(
            f"{format_frac(pattern.silent_frac)} of the failures are corruption, noticed after"
            f" {format_time(pattern.silent_delay_s)}: keep {pattern.kept(found.interval_s)} checkpoints to go back to."
        )
    if pattern.every == 1:
        heading(out, "Formulas", "overhead of each interval, exact")
        indented(out, table([("", "left"), ("interval", "right"), ("overhead", "right")], _formulas(found)))
    heading(out, "Nearby intervals")
    columns = [("interval", "right"), ("overhead", "right"), ("", "left")]
    indented(out, table(columns, _curve(found)))
    if found.simulated is None:
        heading(out, "Where the time goes", "by formula")
        indented(out, table([("", "left"), ("share of time", "right"), ("", "left")], _losses(found.losses)))
    if found.simulated is not None:
        _simulated(found.simulated, found.losses, out)
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _probability(frac: float) -> str:
    return "below 0.0001" if frac < 1e-4 else f"{frac:.3g}"


def _formulas(found: Checkpoint) -> list[list[str]]:
    rows = []
    for name, interval_s in (("Young", found.young_s), ("Daly", found.daly_s), ("exact", found.exact_s)):
        usable = interval_s > 0 and interval_s >= found.pattern.shortest_work_s * (1 - 1e-12)
        shown = format_frac(float(found.long_run.overhead_frac(interval_s)), 4) if usable else "writes overlap"
        rows.append([name, format_time(interval_s, 4), shown])
    return rows


def _curve(found: Checkpoint) -> list[list[str | Text]]:
    """At most ROWS points of the curve, evenly chosen, the interval itself among them."""
    points = found.curve
    here = min(range(len(points)), key=lambda i: abs(points[i][0] - found.interval_s))
    step = max(1, (len(points) - 1) // (ROWS - 1))
    places = sorted({here, *(place for place in range(here % step, len(points), step))})
    most = max(points[place][1] for place in places)
    rows: list[list[str | Text]] = []
    for place in places:
        style = "bold green" if place == here else ""
        interval_s, overhead = points[place]
        cells = [Text(format_time(interval_s), style=style), Text(format_frac(overhead), style=style)]
        rows.append([*cells, bar(overhead / most if most else 0.0)])
    return rows


def _pool(pool: Pool) -> str:
    """Spares, repairs, and what the job does without."""
    spares = f"{pool.spares} spare node{'' if pool.spares == 1 else 's'}, repairs take {format_time(pool.repair_s)}"
    if not pool.shrinks:
        return f"{spares}; without a spare the job waits for a repair."
    return f"{spares}; without a spare the job continues on fewer of its {pool.nodes} nodes, down to {pool.fewest}."


def _losses(losses: Losses) -> list[list[str | Text]]:
    """Goodput and what takes the rest, by formula."""
    rows = {"goodput": losses.goodput_frac, **losses.fracs()}
    return [[name, format_frac(share), bar(share)] for name, share in rows.items() if share or name == "goodput"]


def _simulated(campaigns: Campaigns, losses: Losses, out: Console) -> None:
    """Where the time of the simulated runs goes, beside the formula."""
    low, high = campaigns.overhead.interval_s()
    note = f"{len(campaigns.wall_s):,} runs, {campaigns.failures.mean():.4g} failures each"
    heading(out, "Simulated", note)
    mean = format_frac(campaigns.overhead.mean_s, 4)
    said = f"overhead {mean}, {format_frac(low, 4)} to {format_frac(high, 4)} (95 %)"
    indented(out, Text(said))
    columns = [("", "left"), ("share of time", "right"), ("95 %", "right"), ("formula", "right"), ("", "left")]
    expected = {"goodput": losses.goodput_frac, **losses.fracs()}
    rows: list[list[str | Text]] = []
    for name, sample in {"goodput": campaigns.goodput, **campaigns.losses()}.items():
        if not sample.mean_s:
            continue
        ends = " to ".join(format_frac(end, 4) for end in sample.interval_s())
        rows.append([name, format_frac(sample.mean_s, 4), ends, format_frac(expected[name], 4), bar(sample.mean_s)])
    indented(out, table(columns, rows))


TICKS_S = (
    0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 10_800.0, 28_800.0, 86_400.0, 259_200.0, 864e3,
    2_592e3, 8_640e3,
)  # fmt: skip
"""Round durations."""


def plot_overhead(found: Checkpoint) -> Figure:
    """The curve."""
    from lockstep.simulate.failures import first_order_overhead_frac

    work_s = [point[0] for point in found.curve]
    percent = [100 * point[1] for point in found.curve]
    blocking_s = (1 - found.pattern.hidden_frac) * found.pattern.costs_s[-1]

    def draw(axes: Axes) -> None:
        axes.plot(work_s, percent, color=PALETTE[0], label="exact")
        if found.pattern.every == 1:
            young = 100 * first_order_overhead_frac(work_s, blocking_s, found.mtbf_s)
            axes.plot(work_s, young, color="#999999", linestyle="--", label="first order, free restart (Young)")
        axes.plot([found.interval_s], [100 * found.overhead_frac], "o", color=PALETTE[4], label="this interval")
        if found.simulated is not None:
            low, high = (100 * end for end in found.simulated.overhead.interval_s())
            middle = (low + high) / 2
            axes.errorbar(
                [found.interval_s], [middle], [[middle - low], [high - middle]], color=PALETTE[1], capsize=6,
                label="simulated, 95 %",
            )  # fmt: skip
        axes.set(xscale="log", xlabel="work between checkpoints", ylabel="overhead, % of the work")
        ticks_s = [tick_s for tick_s in TICKS_S if work_s[0] <= tick_s <= work_s[-1]]
        if ticks_s:
            axes.set_xticks(ticks_s, [format_time(tick_s) for tick_s in ticks_s])
            axes.set_xticks([], minor=True)
        axes.legend(fontsize=8, frameon=False)

    first, last = (format_time(found.pattern.costs_s[place]) for place in (0, -1))
    between = f", those between {first}" if found.pattern.every > 1 else ""
    title = f"A failure every {format_time(found.mtbf_s)}; a checkpoint takes {last}{between}"
    return make_figure(title, draw)


COMMAND = Command(
    examples=(
        "lockstep checkpoint --mtbf 6h --write 5min --restart 10min --simulate --plot overhead.png",
        "lockstep checkpoint llama3-405b --cluster dgx-h100:2048 --storage-bandwidth 2TB/s --restart 10min --async 90%",
        "lockstep checkpoint --cluster dgx-h100:128 --write 1min --restart 5min --repair 1d --spares 1 "
        "--fewest-nodes 96 --simulate",
        "lockstep checkpoint --mtbf 3h --write 60s --restart 10min --local-write 2s --local-restart 1min "
        "--local-frac 90%",
        "lockstep checkpoint llama3-405b --cluster dgx-h100:2048 --storage-bandwidth 2TB/s --restart 10min --copies 2",
    ),
    render=render,
    picture=plot_overhead,
    figures=("overhead_frac", "interval_s", "young_s", "daly_s"),
)
