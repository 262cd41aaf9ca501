"""`lockstep runs`: the runs that were kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.errors import BadInput
from lockstep.base.store import Comparison, Record, change_frac
from lockstep.base.units import format_frac, format_time
from lockstep.show.verbs.runs import Changed, RunList, RunsAnswer
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.output import draw, given, show
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console


EVENTS = 8
COLOURS = {"finished": "green", "failed": "red", "running": "yellow", "stopped": "yellow", "damaged": "red"}


def render(answer: RunsAnswer, out: Console) -> None:
    """Prints what was asked for."""
    match answer:
        case RunList():
            _list(answer, out)
        case Record():
            _show(answer, out)
        case Comparison():
            _compare(answer, out)
        case Changed():
            out.print(f"{answer.done}; {_runs(answer.runs)} in {answer.root}")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _list(found: RunList, out: Console) -> None:
    if not found.rows:
        out.print(f"No runs in {found.root}.")
        return
    more = f", newest {len(found.rows)}" if len(found.rows) < found.total else ""
    out.print(f"{_runs(found.total)} in {found.root}{more}")
    out.print()
    rows = (
        (row.id, row.verb, _status(row.status), _lasted(row.started_s, row.ended_s), str(row.events), row.reason)
        for row in found.rows
    )
    titles = [
        ("run", "left"), ("verb", "left"), ("status", "left"), ("took", "right"), ("events", "right"), ("why", "text"),
    ]  # fmt: skip
    indented(out, table(titles, rows))


def _show(run: Record, out: Console) -> None:
    out.print(Text.assemble((run.id, "bold"), "  ", _status(run.status)))
    if run.reason:
        out.print(run.reason)
    began = datetime.fromtimestamp(run.started_s, UTC)
    where = run.environment
    out.print(
        f"{run.verb}, began {began:%Y-%m-%d %H:%M:%S} UTC, took {_lasted(run.started_s, run.ended_s) or '?'}; "
        f"Lockstep {where.get('lockstep', '?')}, Python {where.get('python', '?')}, {where.get('cpus', '?')} CPUs"
    )
    damage = [*run.damaged_files, *(f"line {number} of events.jsonl" for number in run.damaged)]
    if damage:
        more = f" and {len(damage) - EVENTS} more" if len(damage) > EVENTS else ""
        out.print(f"damaged: {', '.join(damage[:EVENTS])}{more}")
    for title, values in (("Asked", run.words), ("Answer", run.result or {})):
        if values:
            heading(out, title)
            rows = [(name, _short(value)) for name, value in values.items()]
            indented(out, table([("name", "left"), ("value", "line")], rows))
    events = run.measurements
    if events:
        heading(out, "Events", f"last {EVENTS} of {len(events)}" if len(events) > EVENTS else "")
        for event in events[-EVENTS:]:
            indented(out, Text(_short(event), no_wrap=True, overflow="ellipsis"))


def _compare(found: Comparison, out: Console) -> None:
    out.print(Text(f"{found.second.id} against {found.first.id}", style="bold"))
    words = found.words
    heading(out, "Asked differently", "" if words else "nothing")
    if words:
        asked = [(name, _short(first), _short(second)) for name, (first, second) in words.items()]
        indented(out, table([("word", "left"), ("first", "left"), ("second", "left")], asked))
    if found.numbers:
        heading(out, "Answers")
        titles = [("number", "left"), ("first", "right"), ("second", "right"), ("change", "right")]
        indented(out, table(titles, (_change(key, *pair) for key, pair in found.numbers.items())))
    if found.series:
        heading(out, "Series", "last values; --plot draws them")
        last = [(name, f"{a[-1]:.6g}", f"{b[-1]:.6g}") for name, (a, b) in found.series.items()]
        indented(out, table([("series", "left"), ("first", "right"), ("second", "right")], last))


def _change(key: str, first: float, second: float) -> list[str]:
    change = change_frac(first, second)
    return [key, f"{first:.6g}", f"{second:.6g}", "" if change is None else format_frac(change)]


def _status(status: str) -> Text:
    return Text(status, style=COLOURS.get(status, ""))


def _lasted(started_s: float, ended_s: float | None) -> str:
    return "" if ended_s is None else format_time(max(0.0, ended_s - started_s))


def _short(value: object) -> str:
    """A value in a line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_short(inner)}" for name, inner in value.items())
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and len(value) > EVENTS:
        return f"[{', '.join(_short(inner) for inner in value[:EVENTS])}, ... {len(value)} in total]"
    return str(value)


PREFERRED = ("loss", "time_s", "accuracy")


def plot_series(found: Comparison) -> Figure:
    """The series both have that says most: the loss if there is one. Raises BadInput when they share none."""
    series = found.series
    if not series:
        raise BadInput("the two runs recorded no series in common", "--plot")
    name = next((one for one in PREFERRED if one in series), next(iter(series)))

    def draw(axes: Axes) -> None:
        for run, values, colour in zip((found.first, found.second), series[name], ("0.6", PALETTE[0]), strict=True):
            axes.plot(values, color=colour, label=run.label or run.id)
        axes.set(xlabel="event", ylabel=name)
        axes.legend(fontsize=8, frameon=False)

    return make_figure(f"{name} of two runs", draw)


def ask(as_json: bool, plot: str | None, action: str | None, names: list[str] | None, **words: object) -> None:
    """Names are positional; only a comparison has a picture."""
    from lockstep.show.verbs.runs import runs

    if plot is not None and action != "compare":
        raise BadInput("belongs to compare", "--plot")
    answer = runs(action or "list", *(names or ()), **given(words))
    draw(plot, partial(plot_series, answer))  # type: ignore[arg-type]
    show(answer, as_json, render)


COMMAND = Command(
    examples=(
        "lockstep runs",
        "lockstep runs show last",
        "lockstep runs compare 20261121T1405 last --plot curves.png",
        "lockstep runs export last --tensorboard curves",
        "lockstep runs reindex",
    ),
    render=render,
    picture=plot_series,
    lists=False,
    ask=ask,
)
