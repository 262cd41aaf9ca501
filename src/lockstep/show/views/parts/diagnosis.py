"""Measured operations beside the predicted step: parts, ranks, collectives, kernels, causes; tables and a picture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_bandwidth, format_flops, format_frac, format_size, format_time
from lockstep.show.views.page.timeline import MOST_IN_FILE, timeline_form
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.layer_operations import furthest_from_price
from lockstep.show.views.parts.terminal import bar, heading, indented, interactive, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.explain.answer import Beside, Cause, Measured, Part, Slowdowns, Straggler
    from lockstep.explain.changes import Change
    from lockstep.explain.diagnosis import Diagnosis

WORDS = {
    "compute.matmul": "matrix products",
    "compute.attention": "attention",
    "compute.stream": "norms, elementwise",
    "optimizer": "optimizer",
    "recompute": "recomputation",
    "copies": "copies",
    "idle.host": "host too late",
    "idle.sync": "host waits for the device",
    "idle.input": "waits for input",
    "idle.dependency": "waits for another stream",
    "idle.gaps": "gaps below 5 us",
    "idle.unknown": "idle, cause unknown",
    "bubble.schedule": "pipeline bubble",
    "bubble.imbalance": "bubble of uneven stages",
    "outside_step": "outside of the step",
}
GROUPS = {
    "dp_comm": "data-parallel",
    "tp_comm": "tensor-parallel",
    "pp_comm": "pipeline",
    "cp_comm": "context-parallel",
    "ep_comm": "expert",
    "other_comm": "other collectives",
}
SLOW = {
    "": "",
    "host": "its host is late",
    "kernels": "its kernels are slow",
    "interrupted": "something interrupts its kernels",
}
HOW = {"": "exposed", "transfer": "transfer", "waiting": "waiting"}
SMALL_FRAC = 0.001
LEAST_S = 1e-9
"""The resolution of profilers' clocks."""
COSTS_FRAC = 0.02
"""A stage that costs less than this share of a step is not spoken of."""
ROWS = 8
CHANGES = 3
MOST_DRAWN = 40_000
"""Operations of a step that a page draws."""


def words(part: str) -> str:
    """A part of the step as a person says it."""
    group, _, how = part.partition(".")
    return f"{GROUPS[group]}, {HOW.get(how, how)}" if group in GROUPS else WORDS.get(part, part)


def render_operations(answer: Diagnosis, seen: Measured, out: Console) -> None:
    """Prints what traces or a table of operations show."""
    beside = answer.beside
    _verdict(answer, seen, out)
    interactive(out, "timeline", partial(lanes, answer, MOST_IN_FILE))
    if answer.changes is not None:
        more = f"; {len(answer.changes) - ROWS} more with --json" if len(answer.changes) > ROWS else ""
        heading(out, "What changed", f"seconds of a step, and of the whole capture{more}")
        _changes(answer.changes, out)
    heading(out, "Where the time goes", "mean over ranks and steps")
    _parts(beside.parts if beside else seen.parts, seen.step_time_s, beside is not None, out)
    if answer.slowdowns is not None:
        heading(out, "What it costs", "step with the measured times of one thing and ideal ones of the rest, by replay")
        _slowdowns(answer.slowdowns, out)
    if seen.stragglers:
        heading(
            out, "Who waits for whom", "in the steps in which that costs 1 % or more; stays: in two thirds of these"
        )
        _stragglers(seen.stragglers, seen.step_time_s, out)
    _collectives(seen, out)
    _kernels(seen, out)
    if beside is not None and beside.causes:
        heading(out, "Change first", "ceilings: what a step without these seconds would reach")
        _causes(beside.causes, out)


def lanes(answer: Diagnosis, most: int = MOST_DRAWN) -> Json:
    """A measured step of each stage under the predicted one, as a browser draws it; without a prediction alone."""
    found = answer.predicted
    if found is None:
        return timeline_form(*answer.timelines(), most=most)
    devices = [found.job.devices // found.layout.pp] * found.layout.pp
    capacity_B = found.memory.capacity_B
    return timeline_form(*answer.timelines(), stands_for=devices, capacity_B=capacity_B, most=most)


def _verdict(answer: Diagnosis, seen: Measured, out: Console) -> None:
    beside, found = answer.beside, answer.predicted
    ranks, steps = len(seen.ranks), max((len(one.steps) for one in seen.inputs), default=0)
    over = f"{steps} step{'s' if steps != 1 else ''} of {ranks} rank{'s' if ranks != 1 else ''}"
    alike = (seen.spread_s or 0.0) < 1e-3 * COSTS_FRAC * seen.step_time_s
    spread = "" if alike else f", {format_time(seen.spread_s or 0.0)} apart"
    if beside is None or found is None:
        out.print(Text(f"{format_time(seen.step_time_s, 4)} per step: {over}{spread}.", style="bold"))
        slow = answer.slowdowns
        if slow is not None and len(slow.by_stage) > 1 and (stage := slow.worst_stage) is not None:
            costs = slow.by_stage[stage]
            if costs > 1 + COSTS_FRAC:
                out.print(f"Stage {stage} alone makes the step {costs:.2f} times as long as even stages would.")
    else:
        low, high = found.interval.low, found.interval.high
        title = "As predicted." if beside.as_predicted else _said(beside)
        out.print(Text(title, style="bold green" if beside.as_predicted else "bold yellow"))
        out.print(
            f"{format_time(seen.step_time_s, 4)} per step ({over}{spread}), "
            f"{format_frac(answer.mfu_frac or 0.0)} {found.utilisation.name}; "
            f"predicted {format_time(found.step_time_s)}, {format_time(low)} to {format_time(high)} in "
            f"{format_frac(found.interval.level_frac)} of cases, {format_frac(found.mfu_frac)}."
        )
        if beside.replayed_s is not None:
            off = round(beside.replayed_s / seen.step_time_s - 1, 4) + 0.0
            out.print(
                f"The replay of the measured operations gives {format_time(beside.replayed_s)} ({off:+.1%}), which is "
                "how far the parts below can be trusted."
            )
        furthest_from_price(beside.layer_operations, seen.step_time_s, out)
    for unclear in answer.unclear:
        out.print(f"{unclear}.", style="yellow")
    slower = next((one.quality.profiler_slowdown_frac for one in answer.inputs), None)
    if slower is not None:
        out.print(f"The traced step is {abs(slower):.1%} {'slower' if slower > 0 else 'faster'} than the log's.")
    quality = next((one.quality for one in seen.inputs if one.quality.end_skew_s is not None), None)
    if quality is not None and quality.end_skew_s is not None:
        skew_s = quality.end_skew_s if quality.end_skew_s >= LEAST_S else 0.0
        share = "" if quality.matched_frac is None else f"{format_frac(quality.matched_frac)} of collectives matched, "
        drift_frac = max(abs(one.quality.clock_drift_frac or 0.0) for one in seen.inputs)
        clocks = f", once clocks that drift by up to {drift_frac * 1e6:.3g} us/s are one" if drift_frac > 1e-8 else ""
        out.print(Text(f"Ranks aligned: {share}their ends {format_time(skew_s)} apart{clocks}.", style="dim"))


def _said(beside: Beside) -> str:
    causes = beside.causes
    if beside.of_another_run:
        return "The operations measured are not those of the run described; no cause is named."
    if not causes:
        return "The step is not as predicted, and no single cause stands out."
    told = [f"{one.cause} ({format_time(one.seconds)})" for one in causes[:CHANGES] if one.seconds is not None]
    return f"{told[0][0].upper()}{', '.join(told)[1:]}."


def _parts(parts: Sequence[Part], step_s: float, predicted: bool, out: Console) -> None:
    rows: list[tuple[str | Text, ...]] = []
    for one in parts:
        mine, theirs = one.measured_s, one.predicted_s
        if max(mine or 0.0, theirs or 0.0) < SMALL_FRAC * step_s:
            continue
        row = [words(one.part), "-" if mine is None else format_time(mine)]
        if predicted:
            row += [
                "-" if theirs is None else format_time(theirs if theirs >= LEAST_S else 0.0),
                "" if one.difference_s is None else _signed(one.difference_s),
                "" if one.gap_share_frac is None else format_frac(one.gap_share_frac, 2),
            ]
        rows.append((*row, bar((mine or 0.0) / step_s), Text(one.evidence, style="dim")))
    columns = [("part", "left"), ("measured", "right")]
    if predicted:
        columns += [("predicted", "right"), ("difference", "right"), ("of the gap", "right")]
    indented(out, table([*columns, ("", "left"), ("", "line")], rows))


def _slowdowns(found: Slowdowns, out: Console) -> None:
    """All stages and replicas, and the operations that cost most."""
    ops = sorted(found.by_op.items(), key=lambda one: -one[1])[:ROWS]
    rows = [("everything", found.whole), *((f"stage {one}", value) for one, value in found.by_stage.items())]
    rows += [(f"replica {one}", value) for one, value in found.by_replica.items()] + ops
    shown = [(name, f"{value:.3f}", bar((value - 1.0) / max(1e-9, found.whole - 1.0))) for name, value in rows]
    indented(out, table([("as measured", "left"), ("slowdown", "right"), ("", "left")], shown))


def _changes(found: Sequence[Change], out: Console) -> None:
    rows = [
        (
            words(one.operation),
            *(format_time(seconds) for seconds in (one.before_s, one.after_s)),
            _signed(one.difference_s),
            *(format_time(seconds) for seconds in (one.captured_before_s, one.captured_after_s)),
        )
        for one in found[:ROWS]
    ]
    columns = [("operation", "line"), ("other run", "right"), ("this run", "right"), ("difference", "right")]
    indented(out, table([*columns, ("all: other", "right"), ("this", "right")], rows))


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else ''}{format_time(seconds)}"


def _stragglers(found: Sequence[Straggler], step_s: float, out: Console) -> None:
    rows = [
        (f"rank {one.rank}", one.kind, format_frac(one.steps_frac, 2), format_time(one.cost_s),
         format_frac(one.cost_s / step_s, 2), SLOW[one.why])
        for one in found[:ROWS]
    ]  # fmt: skip
    columns = [("slowest", "left"), ("pattern", "left"), ("in steps", "right"), ("costs", "right")]
    columns.append(("of the step", "right"))
    indented(out, table([*columns, ("because", "left")], rows))


def _collectives(seen: Measured, out: Console) -> None:
    if not seen.collectives:
        return
    more = len(seen.collectives) - ROWS
    heading(out, "Collectives", f"{more} more with --json" if more > 0 else "")
    rows = [
        (
            GROUPS.get(f"{one.group}_comm", one.group),
            one.op or "-",
            "-" if one.size_B is None else format_size(one.size_B),
            f"{one.count:,.3g}",
            "-" if one.busbw_Bps is None else format_bandwidth(one.busbw_Bps),
            "-" if one.predicted_busbw_Bps is None else format_bandwidth(one.predicted_busbw_Bps),
        )
        for one in seen.collectives[:ROWS]
    ]
    columns = [("group", "left"), ("collective", "left"), ("size", "right"), ("per step", "right")]
    columns += [("bus bandwidth", "right"), ("predicted", "right")]
    beside = any(one.predicted_busbw_Bps is not None for one in seen.collectives)
    indented(out, table(columns, rows) if beside else table(columns[:-1], [row[:-1] for row in rows]))


def _kernels(seen: Measured, out: Console) -> None:
    if not seen.kernels:
        return
    more = len(seen.kernels) - ROWS
    heading(out, "Kernels", f"{more} more of 1 % of the step or longer with --json" if more > 0 else "")
    rated = any(one.flops_per_s is not None for one in seen.kernels[:ROWS])
    rows = []
    for one in seen.kernels[:ROWS]:
        rate = ("-" if one.flops_per_s is None else format_flops(one.flops_per_s),) if rated else ()
        rows.append((one.kind, format_time(one.seconds), f"{one.count:,.4g}", *rate, one.name))
    columns = [("class", "left"), ("time", "right"), ("per step", "right")]
    indented(out, table([*columns, *([("rate", "right")] if rated else []), ("kernel", "line")], rows))


def _causes(causes: Sequence[Cause], out: Console) -> None:
    rows = [
        (
            one.cause,
            "-" if one.seconds is None else format_time(one.seconds),
            "-" if one.ceiling_mfu_frac is None else format_frac(one.ceiling_mfu_frac),
            one.change,
        )
        for one in [one for one in causes if one.change][:CHANGES]
    ]
    indented(out, table([("cause", "text"), ("costs", "right"), ("MFU", "right"), ("change", "text")], rows))


def plot_parts(seen: Measured, beside: Beside | None) -> Figure:
    """Parts of the step, measured and predicted."""
    parts = [
        one
        for one in (beside.parts if beside else seen.parts)
        if max(one.measured_s or 0.0, one.predicted_s or 0.0) >= SMALL_FRAC * seen.step_time_s
    ]

    def draw(axes: Axes) -> None:
        sides = [("measured", [one.measured_s or 0.0 for one in parts], PALETTE[4])]
        if beside is not None:
            sides.append(("predicted", [one.predicted_s or 0.0 for one in parts], PALETTE[0]))
        for number, (label, seconds, colour) in enumerate(sides):
            places = [place + 0.38 * number for place in range(len(parts))]
            axes.barh(places, [1e3 * one for one in seconds], 0.36, color=colour, label=label)
        axes.set_yticks(
            [place + 0.19 * (len(sides) - 1) for place in range(len(parts))], [words(p.part) for p in parts]
        )
        axes.invert_yaxis()
        axes.set_xlabel("milliseconds of a step")
        if beside is not None:
            axes.legend(frameon=False, fontsize=8)

    title = f"{format_time(seen.step_time_s)} per step as measured"
    return make_figure(title, draw, size=(8.0, 1.4 + 0.42 * len(parts)))
