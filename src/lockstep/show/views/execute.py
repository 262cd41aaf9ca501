"""`lockstep execute`: a collective or a pipeline on real ranks, measured beside predicted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_bandwidth, format_frac, format_size, format_time
from lockstep.show.views.page.timeline import MOST_IN_FILE, timeline_form
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import new_figure
from lockstep.show.views.parts.terminal import heading, indented, interactive, small_print, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.run.execute import Execution
    from lockstep.show.verbs.execute import Executed
    from lockstep.simulate.failures.stragglers import FoundLate


ROWS = 8
MOST_RANKS = 8


def render(found: Executed, out: Console) -> None:
    """Prints the verdict, the times and what a reader must know."""
    run = found.execution
    what = found.what if found.what == "pipeline" else f"{found.what} of {format_size(found.size_B or 0)}"
    out.print(Text(f"{what}, {found.algorithm}, on {run.program.ranks} ranks: {_verdict(run)}", style="bold"))
    out.print(_counts(found))
    heading(out, "Time", f"median of {len(run.makespans_s)} runs")
    indented(out, table([("", "left"), ("makespan", "right"), ("", "right")], _times(found)))
    if run.late is not None:
        _late(run.late, out)
    both = (run.difference.predicted, run.difference.measured)
    interactive(out, "timeline", partial(timeline_form, *both, most=MOST_IN_FILE))
    rows = [_row(row) for row in run.difference.rows() if row["predicted_s"] or row["measured_s"]]
    heading(out, "By operation", "all ranks together, largest difference first")
    titles = [("", "left"), ("predicted", "right"), ("measured", "right")]
    indented(out, table(titles, rows[:ROWS]))
    small_print(out, "Assumptions", run.assumptions, len(run.assumptions))


def _verdict(run: Execution) -> str:
    """What was sent and computed, and the time, which is predicted apart from it."""
    sent = "bytes and messages as predicted" if run.counts_agree else "bytes and messages NOT as predicted"
    wrong = ", results WRONG" if run.wrong else ""
    frac = run.difference.makespan_frac
    return f"{sent}{wrong}; the predicted time is {format_frac(abs(frac), 2)} too {'short' if frac < 0 else 'long'}"


def _counts(found: Executed) -> str:
    run = found.execution
    sent, messages = format_size(sum(run.sent_B)), sum(run.messages)
    counted = "as predicted" if run.counts_agree else "NOT as predicted"
    right = f"; {run.wrong} wrong elements against {' and '.join(run.checks)}" if run.checks else ""
    return f"{sent} sent in {messages:,} messages, {counted}{right}."


def _times(found: Executed) -> list[list[str]]:
    run = found.execution
    measured_s = run.measured.makespan_s
    spread = f"{format_time(min(run.makespans_s))} to {format_time(max(run.makespans_s))}"
    alone = "" if run.cores is None else " alone"
    link = f"{format_time(float(run.link.latency_s))}, {format_bandwidth(float(run.link.bandwidth_Bps))}{alone}"
    rows = [
        ["measured", format_time(measured_s), spread],
        [f"predicted ({link})", format_time(run.predicted.makespan_s), _signed(run.difference.makespan_frac)],
    ]
    if run.straggler is not None:
        rows.append(["predicted, no rank late", format_time(run.on_time.makespan_s), ""])
    return rows


def _late(late: FoundLate, out: Console) -> None:
    """Who was late, found in the measurement, and how long each rank waited."""
    heading(out, "Late", f"rank {late.rank}, found in the measurement; seconds beyond the expected")
    pairs = zip(late.excess_s, late.waited_s, strict=True)
    cells = [[format_time(max(0.0, time_s)) for time_s in pair] for pair in pairs]
    rows = [[f"rank {rank}", *cell] for rank, cell in enumerate(cells)]
    indented(out, table([("", "left"), ("took longer", "right"), ("waited", "right")], rows[:MOST_RANKS]))


def _signed(frac: float) -> str:
    return ("+" if frac >= 0 else "-") + format_frac(abs(frac), 2)


def _row(row: dict[str, object]) -> list[str]:
    name = f"{row['kind']} {row['label']}".strip()
    return [name, format_time(float(str(row["predicted_s"]))), format_time(float(str(row["measured_s"])))]


MOST_LANES = 32


def plot_execution(found: Executed) -> Figure:
    """The predicted timeline above the measured one, on one scale."""
    from lockstep.show.views.parts.timelines import draw_timeline

    run = found.execution
    lines = (run.predicted, run.measured)
    lanes = [lane for lane in run.measured.lanes if found.what != "pipeline" or lane[1] == "compute"][:MOST_LANES]
    figure = new_figure((12, 2.0 + 0.56 * max(4, len(lanes))))
    longest_s = max(line.makespan_s for line in lines)
    for line, axes in zip(lines, figure.subplots(2, 1), strict=True):
        unit_s = draw_timeline(line, axes, lanes, longest_s)
        axes.set_title(f"{line.source}: {format_time(line.makespan_s)}", loc="left", fontsize=10)
        axes.set_xlim(0, longest_s / unit_s)
    error = run.difference.makespan_frac
    figure.suptitle(
        f"{found.what} {found.algorithm} on {run.program.ranks} ranks: prediction "
        f"{format_frac(abs(error), 2)} {'above' if error >= 0 else 'below'} the measurement",
        fontsize=11,
    )
    return figure


COMMAND = Command(
    examples=(
        "lockstep execute all-reduce --ranks 2 --size 16MB --algorithm ring --plot ring.png",
        "lockstep execute pipeline --ranks 4 --microbatches 8 --schedule zb-h1 --plot zb.png",
        "lockstep execute all-reduce --ranks 4 --size 1MB --algorithm ring --straggler 2:50ms --plot late.png",
        "torchrun --nproc-per-node 4 -m lockstep execute all-to-all --size 1MB",
    ),
    render=render,
    picture=plot_execution,
    doing="running",
    ok=lambda answer: answer.execution.ok,
    by_ranks=True,
)
