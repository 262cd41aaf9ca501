"""A mixture-of-experts layer for a person: imbalance, drops, all-to-all."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.parallel.expert import Load, MoeLayer
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_count, format_frac, format_size, format_time


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
