"""`lockstep watch`: a running job's log beside the prediction, as a screen, as lines, or as lines of JSON."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure, times_on
from lockstep.show.views.parts.layout_columns import layout_words
from lockstep.show.views.parts.layout_table import print_layouts
from lockstep.show.views.parts.output import draw, given, picture_path, print_json, show
from lockstep.show.views.parts.screen import Screen
from lockstep.show.views.parts.terminal import heading, indented, paragraph, small_print, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.explain.watch.answer import Watched
    from lockstep.explain.watch.held import Left
    from lockstep.explain.watch.run import Event, Restart

MOST_POINTS = 4000
"""Of the picture."""
RESTARTS = 10
"""Rows of the table of restarts, the latest."""


def render(answer: Watched, out: Console) -> None:
    """Prints the verdict, the time left, restarts, and what to do with fewer devices."""
    _verdict(answer, out)
    paragraph(out, " ".join([*_pace(answer), *_stops(answer)]))
    _drift(answer, out)
    _restarts(answer.run.restarts, answer.run.restarted, out)
    _replan(answer, out)
    told = answer.notes()
    small_print(out, "How it was read", told, len(told))


def _verdict(answer: Watched, out: Console) -> None:
    """Which step, how long one takes, and whether that was expected."""
    run, found = answer.run, answer.predicted
    newest = 0 if run.newest is None else run.newest.step
    of = "" if run.last is None else f" of {run.last:,}"
    took = "no time is known of a step" if answer.step_s is None else f"{format_time(answer.step_s)} per step"
    said, style = f"Step {newest:,}{of}: {took}", "bold"
    left = run.left()
    if found is not None and answer.inside is True:
        said, style = f"{said}, inside the interval that is predicted", "bold green"
    elif found is not None and left is not None and run.comparable:
        rank = "" if left.rank is None else f" on rank {left.rank}"
        said, style = f"{said}, {left.side} than predicted since step {left.step:,}{rank}", "bold red"
    out.print(Text(f"{said}.", style=style))
    if found is not None:
        once = "" if left is not None else _once(run.first_left)
        paragraph(out, f"Predicted: {format_time(found.step_time_s)}, {found.interval.said_s}.{once}")


def _once(first: Left | None) -> str:
    """Where a run that is inside left its interval before."""
    if first is None:
        return ""
    rank = "" if first.rank is None else f" on rank {first.rank}"
    return f" It was {first.side} from step {first.step:,} on{rank} for a while."


def _pace(answer: Watched) -> list[str]:
    """Rates, and the time that is left."""
    rates = [] if answer.tokens_per_s is None else [f"{format_count(answer.tokens_per_s)} tokens/s"]
    rates += [] if answer.mfu_frac is None else [f"{format_frac(answer.mfu_frac)} MFU"]
    rates += [] if answer.run.devices is None else [f"{answer.run.devices:,} devices"]
    said = [f"{', '.join(rates)}."] if rates else []
    remaining, expected = answer.remaining, answer.to_dict()["predicted_left_s"]
    if answer.ended:
        return [*said, "The last step is done."]
    if remaining is not None:
        ends = f"{format_time(remaining.low_s)} to {format_time(remaining.high_s)}"
        said.append(f"{format_time(remaining.likely_s)} left at this pace, {ends}.")
    if expected is not None:
        said.append(f"As predicted it would be {format_time(expected['low'])} to {format_time(expected['high'])}.")
    return said


def _stops(answer: Watched) -> list[str]:
    """Goodput and restarts."""
    run, share, said = answer.run, answer.goodput_frac, []
    if share is not None and answer.wall_s is not None:
        said.append(f"Goodput {format_frac(share)} of {format_time(answer.wall_s)} by the wall clock.")
    elif share is not None and run.again:
        said.append(f"Goodput {format_frac(share)} of the time of all steps.")
    if run.restarted:
        times = "once" if run.restarted == 1 else f"{run.restarted:,} times"
        said.append(f"It restarted {times}; steps that were done again: {run.again:,}.")
    else:
        said.append("It never restarted.")
    return said


def _drift(answer: Watched, out: Console) -> None:
    drift = answer.run.seconds.drift()
    if drift is not None and drift.found:
        more = "slower" if drift.change_frac > 0 else "faster"
        change = format_frac(abs(drift.change_frac))
        said = f"Steps drift: {change} {more} from the first to the last of {drift.blocks} blocks (z {drift.z:+.1f})."
        out.print(Text(said, style="yellow"))


def _restarts(restarts: Sequence[Restart], number: int, out: Console) -> None:
    """The latest restarts."""
    if not restarts:
        return
    heading(out, "Restarts", f"the last {RESTARTS} of {number:,}" if number > RESTARTS else "")
    rows = [
        (
            f"{one.from_step:,}",
            f"{one.step:,}",
            f"{one.lost_steps:,}",
            "-" if one.stopped_s is None else format_time(one.stopped_s),
            "-" if one.devices is None else f"{one.devices:,}",
            f"{one.line:,}",
        )
        for one in restarts[-RESTARTS:]
    ]
    titles = ("after step", "next printed", "done again", "until then", "devices", "line")
    indented(out, table([(title, "right") for title in titles], rows))


def _replan(answer: Watched, out: Console) -> None:
    """The best layout on the devices that are left."""
    if not answer.run.lost_devices:
        return
    before = max(filter(None, (answer.run.most_devices, answer.run.told.devices)), default=0)
    out.print(Text(f"Devices were lost: {answer.run.devices:,} of {before:,} are left.", style="bold red"))
    if answer.replan is None:
        why = f": {answer.replan_fails}" if answer.replan_fails else ""
        paragraph(out, f"No plan for them{why or '; give --model and -c'}.")
        return
    best = answer.replan.best
    heading(out, f"Plan for {best.job.devices:,} devices: {layout_words(best.layout)}")
    print_layouts(answer.replan.plans, answer.replan.aim, out)


def plot_watch(answer: Watched) -> Figure:
    """Seconds of steps by their numbers, with the predicted interval and the restarts."""
    from lockstep.base.errors import BadInput

    if not answer.run.seconds.count:
        raise BadInput("has no step with a time after warming up, so there is no picture", "--plot")
    return make_figure(_title(answer), partial(_draw, answer), size=(9.0, 4.2))


def _title(answer: Watched) -> str:
    """What the picture shows."""
    run = answer.run
    again = f"; restarts: {run.restarted:,}" if run.restarted else ""
    return f"Seconds of a step as logged, steps {run.first.step if run.first else 0:,} to {run.highest:,}{again}"


def _draw(answer: Watched, axes: Axes) -> None:
    run = answer.run
    at, seconds = run.seconds.points(MOST_POINTS)
    axes.plot(at, seconds, ".", color=PALETTE[0], markersize=3, label="a step")
    if answer.predicted is not None and run.comparable:
        between = answer.predicted.interval
        axes.axhspan(between.low, between.high, color=PALETTE[2], alpha=0.15, label=f"predicted: {between.said_s}")
    for place, one in enumerate(run.restarts):
        axes.axvline(one.step, color=PALETTE[4], linewidth=1, label="" if place else "restart")
    axes.set(xlabel="step", ylim=(0, None))
    times_on(axes.yaxis)
    axes.legend(fontsize=8, frameon=False, loc="lower left")


def say(event: Event) -> str:
    """An event as a line."""
    about, at = event.about, f"step {event.step:,}"
    rank = "" if about.get("rank") is None else f" on rank {about['rank']}"
    seconds = about.get("step_time_s")
    took = "" if seconds is None else f"{format_time(seconds)}"
    match event.kind:
        case "restart":
            return f"{at}: restarted after step {about['from_step']:,}; steps done again: {about['lost_steps']:,}"
        case "left":
            return f"{at}: {about['side']} than predicted{rank}, {took}"
        case "returned":
            return f"{at}: back in the interval{rank}, {took}"
        case "devices":
            before = about["devices_before"]
            return f"{at}: on {about['devices']:,} devices" + ("" if before is None else f", {before:,} before")
    return f"{at}: {took or 'no time'}{rank}"


def ask(
    as_json: bool, file: list[str] | None = None, follow: bool | None = None, plot: str | None = None, **words: object
) -> None:
    """Shows the answer, and while files are followed what happens in them."""
    from lockstep.show.verbs.watch import watch, watching

    picture_path(plot)
    asked = given(words)
    if not follow:
        answer = watch(file or [], **asked)
        draw(plot, partial(plot_watch, answer))
        show(answer, as_json, render, ok=answer.ok)
        return
    screen, live, found = Screen(sys.stdout.isatty() and not as_json), False, None
    with screen:
        for found, event in watching(file or [], follow=True, **asked):
            live = live or event is None
            screen.draw(partial(render, found))
            if event is None or screen.on or (event.kind == "step" and not live):
                continue
            if as_json:
                print_json(event.to_dict())
            else:
                sys.stdout.write(f"{say(event)}\n")
            sys.stdout.flush()
    if found is not None:
        draw(plot, partial(plot_watch, found))
        show(found, as_json, render, ok=found.ok)


COMMAND = Command(
    examples=(
        "lockstep watch run.log",
        "lockstep watch run.log --follow --model llama3-8b -c dgx-h100:2 --zero 3 --batch 64",
        "lockstep watch logs/ --tokens 15T --json",
        "srun train.sh | lockstep watch - --follow --json",
    ),
    more="The exit code is 1 when the steps are outside the predicted interval, or devices were lost. With --follow, "
    "--json prints an object for each event, and the answer last.",
    render=render,
    picture=plot_watch,
    ask=ask,
    ok=lambda answer: bool(answer.ok),
    lists=False,
    figures=("step_time_s.measured", "goodput_frac", "mfu_frac", "tokens_per_s"),
)
