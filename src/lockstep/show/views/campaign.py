"""`lockstep campaign`: a whole run, what it takes, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import SECONDS_PER_DAY, format_count, format_frac, format_money, format_time
from lockstep.show.views.estimate import unit
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.reading import BINDS, PART_WORDS, left_out
from lockstep.show.views.parts.terminal import bar, heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.decide.campaigns import Bar, Campaign, Change
    from lockstep.decide.campaigns.run import Run


WORDS = PART_WORDS | {
    "straggler": "waiting for slow devices",
    "data": "reading data",
    "evaluation": "evaluation",
    "checkpoint": "writing checkpoints",
    "rollback": "work lost in failures",
    "restart": "restarting",
    "detection": "noticing failures",
    "degraded": "missing nodes",
}
NUMBER_WORDS = {
    "peak_flops": "peak FLOP/s",
    "memory_bandwidth": "memory bandwidth",
    "intra_bw": "bandwidth inside a node",
    "inter_bw": "bandwidth between nodes",
    "mtbf": "time between failures",
    "recovery": "detection and restart",
    "storage_bandwidth": "storage bandwidth",
    "data_bandwidth": "rate of reading data",
    "batch": "batch",
    "price": "price",
}
SMALLEST_PART = 5e-4
CHANGES = 5
BARS = 6
ASSUMPTIONS = 6


def render(found: Campaign, out: Console) -> None:
    """Prints the campaign."""
    _verdict(found, out)
    render_days(found, out)
    render_changes(found, out)
    render_rest(found, out)


def render_days(found: Campaign, out: Console) -> None:
    """Prints where the days go."""
    heading(out, "Where the days go")
    indented(out, table([("", "left"), ("days", "right"), ("share", "right"), ("", "left")], _parts(found.run)))


def render_changes(found: Campaign, out: Console) -> None:
    """Prints what to change."""
    if found.changes:
        heading(out, "What to change", "each planned again; most days first")
        columns = [("change", "text"), ("days", "right"), ("saves", "right"), ("cost", "right"), ("saves", "right")]
        indented(out, table(columns, (_change(one) for one in found.changes[:CHANGES])))


def render_rest(found: Campaign, out: Console) -> None:
    """Prints what the days are sensitive to, what else could be paid, and the small print."""
    heading(out, "Sensitivity", "each input at -20 % and +20 %")
    columns = [("input", "left"), ("days", "right"), ("cost", "right"), ("", "left")]
    indented(out, table(columns, (_bar(one, found) for one in found.tornado[:BARS])))
    if len(found.offers) > 1:
        heading(out, "Pricing options")
        rows = [(one.name, f"${one.price_per_hour_usd:.2f}/h", _days(one.days), format_money(one.cost_usd))
                for one in found.offers]  # fmt: skip
        indented(out, table([("", "left"), ("price", "right"), ("time", "right"), ("cost", "right")], rows))
    small_print(out, "Assumptions", found.assumptions, ASSUMPTIONS)


def _verdict(found: Campaign, out: Console) -> None:
    """Days, device hours and money, with their intervals; what is in the way; what to do first."""
    run, estimate = found.run, found.scenario.estimate
    job = estimate.job
    tokens = f"{format_count(run.work.tokens)} {unit(job)}"
    cost = "at an unknown price" if run.cost_usd is None else f"for {format_money(run.cost_usd)}"
    title = f"{job.model.name} on {job.devices} x {estimate.cluster.device.name}"
    out.print(Text(f"{title}: {tokens} in {_days(run.days)}, {cost}", style="bold green"))
    between = found.interval
    level = format_frac(between.level_frac)
    out.print(f"One run takes {_days(between.low)} to {_days(between.high)} in {level} of cases ({_mean(found)}).")
    out.print(
        f"{format_count(run.gpu_hours)} device hours, {_energy(found)}{run.work.steps:,.0f} steps of"
        f" {format_time(estimate.step_time_s)} at {estimate.utilisation} with"
        f" {layout_words(estimate.layout)}."
    )
    out.print(_failures(run, _lighter_words(found)))
    left_out(job, out)
    if not bool(estimate.memory.fits):
        out.print(Text("This layout does not fit in memory: its times are what they would be if it did.", style="red"))
    if found.warmup_steps:
        out.print(f"The learning rate warms up over {found.warmup_steps:,} steps, {_days(found.warmup_days)}.")
    share = run.parts_s[run.bottleneck] / run.wall_s
    arithmetic = format_frac(run.parts_s["compute"] / run.wall_s)
    out.print(
        f"Bound by {BINDS[estimate.bound_by]} ({arithmetic} of the time is compute); largest overhead:"
        f" {WORDS[run.bottleneck]} ({format_frac(share)})."
    )
    if found.changes:
        named = "; ".join(f"{one.what} ({_days(one.saved_days)})" for one in found.changes[:3])
        out.print(Text(f"Biggest savings: {named}.", style="bold"))


def _mean(found: Campaign) -> str:
    if found.simulated is None:
        return "the spread is the error of the step time"
    low, high = (format_time(days * SECONDS_PER_DAY, 5) for days in found.ci95_days)
    return f"mean of {len(found.simulated.wall_s):,} simulations: {low} to {high}"


def _energy(found: Campaign) -> str:
    if found.energy is None:
        return ""
    carbon = "" if found.energy.carbon_kg is None else f" and {found.energy.carbon_kg / 1000:,.3g} t of CO2"
    return f"{_megawatt_hours(found.energy.energy_kWh / 1000)}{carbon}, "


def _megawatt_hours(energy_MWh: float) -> str:
    return f"{energy_MWh:,.0f} MWh" if energy_MWh >= 100 else f"{energy_MWh:.3g} MWh"


def _failures(run: Run, lighter: str) -> str:
    """How often the job fails, and when it saves."""
    if not run.losses.failures:
        return "No failures are counted: how often these devices fail is not known (set --mtbf or --node-mtbf)."
    pattern = run.pattern
    between = (
        f"{lighter} of {format_time(pattern.costs_s[0])} every {format_time(run.interval_s)} of work, between them"
    )
    kept = pattern.kept(run.interval_s)
    return (
        f"Goodput {format_frac(run.losses.goodput_frac)}: a failure every {format_time(run.mtbf_s)},"
        f" {run.losses.failures:,.3g} in total; {f'{between} ' if pattern.every > 1 else ''}a checkpoint of"
        f" {format_time(pattern.costs_s[-1])} every {format_time(pattern.every * run.interval_s)}"
        f"{f'; keep {kept}' if kept > 1 else ''}."
    )


def _lighter_words(found: Campaign) -> str:
    """What comes between whole checkpoints, in words."""
    operation = found.scenario.operation
    if operation.delta_write_s is not None:
        return "deltas"
    return "copies to peers" if operation.copies > 1 else "local checkpoints"


def _parts(run: Run) -> list[list[str | Text]]:
    """Parts worth a line, largest first."""
    parts = sorted(run.parts_s.items(), key=lambda item: -item[1])
    return [
        [WORDS[name], f"{seconds / SECONDS_PER_DAY:.3g}", format_frac(seconds / run.wall_s), bar(seconds / run.wall_s)]
        for name, seconds in parts
        if seconds >= SMALLEST_PART * run.wall_s
    ]


def _change(one: Change) -> list[str]:
    cost = "?" if one.saved_usd is None or one.after.cost_usd is None else format_money(one.after.cost_usd)
    saved = "?" if one.saved_usd is None else _signed_money(one.saved_usd)
    return [one.what, f"{one.after.days:.4g}", f"{one.saved_days:.3g} d", cost, saved]


def _signed_money(amount_usd: float) -> str:
    return f"-{format_money(-amount_usd)}" if amount_usd < 0 else format_money(amount_usd)


def _bar(one: Bar, found: Campaign) -> list[str | Text]:
    ends = (one.low, one.high)
    days = " to ".join("-" if end is None else f"{end.days:.4g}" for end in ends)
    costs = [None if end is None else end.cost_usd for end in ends]
    shown = (
        ""
        if all(cost is None for cost in costs)
        else " to ".join("-" if cost is None else format_money(cost) for cost in costs)
    )
    longest = found.tornado[0].span(found.run)
    return [NUMBER_WORDS[one.name], days, shown, bar(one.span(found.run) / longest)]


def _days(days: float) -> str:
    return format_time(days * SECONDS_PER_DAY)


def plot_tornado(found: Campaign) -> Figure:
    """The bars of everything that changes the days."""
    from matplotlib.patches import Patch

    now = found.run.days
    bars = [one for one in found.tornado if any(end and end.days != now for end in (one.low, one.high))]
    bars.sort(key=lambda one: max(abs(end.days - now) for end in (one.low, one.high) if end))

    def draw(axes: Axes) -> None:
        for place, one in enumerate(bars):
            ends = [(end.days, colour) for end, colour in ((one.low, PALETTE[1]), (one.high, PALETTE[0])) if end]
            for days, colour in ends:
                axes.barh(place, days - now, left=now, color=colour, height=0.7)
            # One number on each side, of ends on the same side the farther.
            for days in {days >= now: days for days, _ in sorted(ends, key=lambda end: abs(end[0] - now))}.values():
                axes.annotate(
                    f"{days:.4g}", (days, place), fontsize=7, va="center", ha="left" if days >= now else "right",
                    xytext=(3 if days >= now else -3, 0), textcoords="offset points",
                )  # fmt: skip
        axes.axvline(now, color="#333333", linewidth=1)
        axes.set_yticks(range(len(bars)), [NUMBER_WORDS[one.name] for one in bars])
        axes.set_xlabel("days")
        axes.margins(x=0.12)
        handles = [Patch(color=PALETTE[1], label="20 % lower"), Patch(color=PALETTE[0], label="20 % higher")]
        axes.legend(handles=handles, fontsize=8, frameon=False, loc="lower right")

    job = found.scenario.estimate.job
    title = (
        f"{job.model.name} on {job.devices} x {found.scenario.estimate.cluster.device.name},"
        f" {format_count(found.run.work.tokens)} tokens: {now:.4g} days"
    )
    return make_figure(title, draw, size=(8.0, 1.2 + 0.45 * max(3, len(bars))))


COMMAND = Command(
    without=("replica_nodes",),
    examples=(
        "lockstep campaign llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot tornado.png",
        "lockstep campaign llama3-8b -c dgx-a100-80gb:16 --batch 512 --compute-optimal --tp 2 --zero 1 --json",
        "lockstep campaign llama3-70b -c aws-p5:64 --batch-tokens 4M --loss 1.95 --spot-discount 60% --preemption 10d",
    ),
    more="Without layout flags it runs in the planner's best layout.",
    render=render,
    picture=plot_tornado,
    doing="planning, simulating, comparing changes",
    figures=("days", "cost", "goodput_frac"),
)
