"""`lockstep collective`: price, simulate and compare the algorithms of one collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from lockstep.base.units import format_bandwidth, format_size, format_time
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure, sizes_on, times_on
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.arrays import Floats, Number
    from lockstep.show.verbs.collective import Collective
    from lockstep.simulate.collectives import Comparison, Row


_TITLES = [("algorithm", "left"), ("time", "right"), ("sent", "right"), ("bus", "right")]
_COUNTS = [("steps", "right"), ("messages", "right")]
ASKED = 12
"""Sizes at which a time is asked for, where a curve would have to be simulated."""


def render(found: Collective, out: Console) -> None:
    """Prints the comparison."""
    known = found.comparison
    ranked = sorted(known.rows, key=lambda row: row.time_s)
    best = next(row for row in ranked if row.algorithm == known.best)
    levels = found.network.spans_levels
    over = " over the cluster's levels" if levels and best.algorithm not in found.seconds_at else ""
    out.print(Text(f"{best.algorithm}{over}: {format_time(best.time_s)}", style="bold"))
    bound = format_time(best.lower_bound_s)
    ports = "port per level" if levels else "port" if best.ports == 1 else "ports"
    ports = f"{best.ports if best.ports > 1 else 'one'} {ports}"
    out.print(f"{known.op} of {format_size(known.size_B)} on {known.ranks} ranks; lower bound with {ports}: {bound}.")
    note = "; (2) needs two ports" if any(row.ports > 1 for row in ranked) else ""
    heading(out, "Algorithms", f"fastest first; bytes sent per rank{note}")
    simulated = any(row.simulated_s is not None for row in ranked)
    crossing = any(row.cross_node_B is not None for row in ranked)
    titles = [
        *_TITLES,
        *([("node to node", "right")] if crossing else _COUNTS),
        *([("simulated", "right")] * simulated),
    ]
    indented(out, table(titles, (_row(row, simulated, crossing) for row in ranked)))
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _row(row: Row, simulated: bool, crossing: bool) -> list[str]:
    cells = [
        row.algorithm + ("" if row.ports == 1 else f" ({row.ports})"),
        format_time(row.time_s),
        format_size(row.bytes_sent_per_rank),
        format_bandwidth(row.bus_bandwidth_Bps),
    ]
    if crossing:
        cells.append("-" if row.cross_node_B is None else format_size(row.cross_node_B))
    else:
        cells += [str(row.latency_steps), f"{row.messages:,}"]
    if simulated:
        cells.append("-" if row.simulated_s is None else format_time(row.simulated_s))
    return cells


def plot_sizes(found: Collective) -> Figure:
    """Sizes from 1 KiB to 4 GiB; dots mark the size asked for, a circle the fastest algorithm there."""
    if found.seconds_at:
        return _plot_asked(found)
    known = found.comparison
    sizes_B = np.geomspace(2.0**10, 2.0**32, 133)

    def draw(axes: Axes) -> None:
        times_s = {row.algorithm: _times_s(found, row.algorithm, sizes_B) for row in known.rows}
        table = np.stack([np.broadcast_to(one, sizes_B.shape) for one in times_s.values()])
        wins = {list(times_s)[at] for at in np.argmin(table, axis=0)} | {known.best}
        others = [row for row in known.rows if row.algorithm not in wins]
        for row, times in zip(known.rows, table, strict=True):
            if row.algorithm in wins:
                colour, width = PALETTE[sorted(wins).index(row.algorithm) % len(PALETTE)], 1.5
                label: str | None = row.algorithm + (f" ({row.ports} ports)" if row.ports > 1 else "")
            else:
                colour, width = "#BBBBBB", 0.8
                label = f"{len(others)} others, nowhere fastest" if row is others[0] else None
            order = 2 if row.algorithm in wins else 1
            axes.plot(sizes_B, times, color=colour, linewidth=width, zorder=order, label=label)
            axes.plot([known.size_B], [row.time_s], "o", color=colour, markersize=4, zorder=order)
        _mark_best(axes, known)
        bound_s = np.broadcast_to(_bound_s(found, sizes_B), sizes_B.shape)
        ports = "one port per level" if found.network.spans_levels else "one port"
        axes.fill_between(sizes_B, bound_s, np.min(bound_s) / 3, color="#DDDDDD", label=f"below the bound of {ports}")
        axes.set(xscale="log", yscale="log", xlabel="size", ylabel="time")
        sizes_on(axes.xaxis)
        times_on(axes.yaxis)
        axes.legend(fontsize=8, ncols=2, frameon=False)

    best = next(row for row in known.rows if row.algorithm == known.best)
    fastest = f"{best.algorithm} is fastest at {format_size(known.size_B)}: {format_time(best.time_s)}"
    return make_figure(f"{known.op} on {known.ranks} ranks: {fastest}", draw)


def _plot_asked(found: Collective) -> Figure:
    """Algorithms of which one is not priced but asked at each size: with shards, an order of ranks, or a slow link."""
    known, sizes_B = found.comparison, np.geomspace(2.0**10, 2.0**32, ASKED)

    def draw(axes: Axes) -> None:
        for row, colour in zip(known.rows, PALETTE, strict=False):
            at = found.seconds_at.get(row.algorithm)
            label = row.algorithm if at is None else f"{row.algorithm}: {found.assumptions[0].partition(';')[0]}"
            times_s = _times_s(found, row.algorithm, sizes_B) if at is None else [at(float(one)) for one in sizes_B]
            axes.plot(sizes_B, times_s, "o-", markersize=3, color=colour, label=label)
        _mark_best(axes, known)
        axes.set(xscale="log", yscale="log", xlabel="size", ylabel="time")
        sizes_on(axes.xaxis)
        times_on(axes.yaxis)
        axes.legend(fontsize=8, frameon=False)

    best = next(row for row in known.rows if row.algorithm == known.best)
    took = f"{format_time(best.time_s)} for {format_size(known.size_B)}"
    return make_figure(f"{known.op} on {known.ranks} ranks, {best.algorithm}: {took}", draw)


def _mark_best(axes: Axes, known: Comparison) -> None:
    best = next(row for row in known.rows if row.algorithm == known.best)
    label = f"{best.algorithm} at {format_size(known.size_B)}: {format_time(best.time_s)}"
    axes.plot([known.size_B], [best.time_s], "o", color="black", markersize=9, fillstyle="none", label=label)


def _times_s(found: Collective, name: str, sizes_B: Floats) -> Number:
    """Seconds of one algorithm at many sizes, on the network of the answer."""
    from lockstep.simulate.collectives import get, times_on_levels

    op, network = found.comparison.op, found.network
    if network.spans_levels:
        return times_on_levels(op, network.levels, sizes_B, [name])[name]
    return get(op, name).price(network.ranks, sizes_B, network.link).time_s


def _bound_s(found: Collective, sizes_B: Floats) -> Number:
    from lockstep.simulate.collectives import lower_bound_on_levels_s, lower_bound_s

    op, network = found.comparison.op, found.network
    if network.spans_levels:
        return lower_bound_on_levels_s(op, network.levels, sizes_B)
    return lower_bound_s(op, network.ranks, sizes_B, network.link)


COMMAND = Command(
    examples=(
        "lockstep collective all-reduce --ranks 64 --size 100MB --latency 5us --bandwidth 25GB/s --simulate",
        "lockstep collective all-to-all --ranks 32 --size 64MB -c dgx-h100:4 --plot all_to_all.svg",
    ),
    render=render,
    picture=plot_sizes,
    doing="counting every algorithm",
    series=("algorithm", "time_s"),
)
