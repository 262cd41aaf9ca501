"""`lockstep experts`: load, drops and all-to-all of a mixture-of-experts layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.units import format_count, format_frac, format_size, format_time
from lockstep.views.parts.command import Command
from lockstep.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from rich.console import Console

    from lockstep.parallel.expert import Load, MoeLayer


def render(found: MoeLayer, out: Console) -> None:
    """Prints the layer."""
    slow = f"all-to-all takes {found.imbalance_slowdown:.3g} times the balanced time"
    out.print(Text(f"{slow}; {format_frac(found.dropped_frac)} of assignments dropped", style="bold"))
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


COMMAND = Command(
    examples=(
        "lockstep experts --experts 64 --top-k 2 --tokens 64k --skew 0.6 --capacity-factor 1.25 --ranks 8 "
        "--latency 2us --bandwidth 300GB/s",
        "lockstep experts --experts 256 --top-k 8 --tokens 128k --ranks 64 -c dgx-h100:8 --placement balanced",
    ),
    render=render,
    figures=("all_to_all_s", "imbalance_slowdown", "dropped_frac", "load.max"),
)
