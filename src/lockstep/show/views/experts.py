"""`lockstep experts`: load, drops and all-to-all of a mixture-of-experts layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_count, format_frac, format_size, format_time
from lockstep.show.views.parts import bars
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import INK, make_figure, times_on
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.simulate.parallel.expert import Load, MoeLayer


def render(found: MoeLayer, out: Console) -> None:
    """Prints the layer."""
    out.print(Text(_title(found), style="bold"))
    out.print(
        f"{found.experts} experts on {found.ranks} ranks, top-{found.top_k}, {format_count(found.tokens)} tokens; "
        f"balancing loss {found.balance_loss:.4g} (1 at balance)"
    )
    heading(out, "Load", "assignments")
    rows = [_load("per expert, routed", found.load), _load("per rank, after drops", found.rank_load)]
    titles = [("", "left"), ("mean", "right"), ("largest", "right"), ("largest / mean", "right"), ("cv", "right")]
    indented(out, table(titles, rows))
    heading(out, "Exchange", "one dispatch; a layer makes four per step")
    lines = [
        ("all-to-all", format_time(found.all_to_all_s)),
        ("if balanced", format_time(found.balanced_all_to_all_s)),
        *([("in two levels", format_time(found.hierarchical_s))] if found.hierarchical_s is not None else []),
        ("all four", format_time(found.layer_all_to_all_s)),
        ("due to imbalance", format_time(found.imbalance_comm_s)),
        ("sent per rank", format_size(found.sent_per_rank_B)),
        ("most received", format_size(found.most_received_B)),
        *([("between nodes", format_size(found.cross_node_B))] if found.cross_node_B is not None else []),
        ("busiest rank's work", f"{found.compute_slowdown:.3g} times the mean"),
    ]
    indented(out, table([("", "left"), ("", "right")], lines))
    small_print(out, "Assumptions", found.assumptions, len(found.assumptions))


def _load(name: str, load: Load) -> tuple[str, ...]:
    ratio = load.max / load.mean if load.mean else 1.0
    return name, format_count(load.mean), format_count(load.max), f"{ratio:.3g}", f"{load.cv:.3f}"


def _title(found: MoeLayer) -> str:
    slow = f"all-to-all takes {found.imbalance_slowdown:.3g} times the balanced time"
    return f"{slow}; {format_frac(found.dropped_frac)} of assignments dropped"


def plot_experts(found: MoeLayer) -> Figure:
    """The exchange with balanced and with real loads, and how uneven the loads are."""
    times = {
        "balanced": (found.balanced_all_to_all_s, bars.GREEN),
        "as routed, lower bound": (found.lower_bound_s, bars.GREY),
        "as routed": (found.all_to_all_s, bars.RED),
        **({} if found.hierarchical_s is None else {"in two levels": (found.hierarchical_s, bars.ORANGE)}),
    }
    loads = {
        "busiest expert, routed": found.load.max / (found.load.mean or 1.0),
        "busiest rank, after drops": found.rank_load.max / (found.rank_load.mean or 1.0),
        "busiest rank's work": found.compute_slowdown,
    }

    def exchange(axes: Axes) -> None:
        values, colours = zip(*times.values(), strict=True)
        bars.plain(axes, list(times), values, format_time, colours=colours)
        times_on(axes.xaxis)
        axes.set_xlabel("time of one of a layer's four exchanges")

    def load(axes: Axes) -> None:
        bars.plain(axes, list(loads), list(loads.values()), lambda value: f"{value:.3g}", colours=bars.BLUE)
        axes.axvline(1.0, color=INK, linestyle=":", linewidth=1)
        axes.set_xlabel("largest over mean; 1 is balanced")

    return make_figure(_title(found), exchange, load, size=(12.0, 2.8))


COMMAND = Command(
    examples=(
        "lockstep experts --experts 64 --top-k 2 --tokens 64k --skew 0.6 --capacity-factor 1.25 --ranks 8 "
        "--latency 2us --bandwidth 300GB/s",
        "lockstep experts --experts 256 --top-k 8 --tokens 128k --ranks 64 -c dgx-h100:8 --placement balanced",
    ),
    render=render,
    picture=plot_experts,
    figures=("all_to_all_s", "imbalance_slowdown", "dropped_frac", "load.max"),
)
