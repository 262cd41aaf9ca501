"""What a process group is for: `kinds_of` names each one dp, tp, pp, cp, ep or other.

What a program calls its groups counts first, then the layout's own rank grid: a group is of the kind whose groups hold
its ranks. A run whose only group is of all ranks is data-parallel, as far as it gathers and reduces. What fits several
kinds is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lockstep.explain.trace import RankTrace
from lockstep.price.layout import Layout, process_groups

WORDS = {
    "ep": r"(^|_|\b)ep(\d|_|$)|expert",
    "tp": r"(^|_|\b)tp(\d|_|$)|tensor|sequence_parallel|model_parallel",
    "pp": r"(^|_|\b)pp(\d|_|$)|pipeline|embedding",
    "cp": r"(^|_|\b)cp(\d|_|$)|context",
    "dp": r"(^|_|\b)(hs|fs|d)?dp(\d|_|$)|data|shard|replicate|zero",
    "other": r"world|gloo",
}
KINDS = {
    "tp": ("tp", "etp"), "dp": ("data", "dp", "shard", "copies", "expert_data", "expert_shard"), "pp": ("pp",),
    "cp": ("cp",), "ep": ("ep",),
}  # fmt: skip
GRADIENTS = ("all-reduce", "reduce-scatter", "all-gather")


def kinds_of(
    traces: Sequence[RankTrace], layout: Layout | None = None, given: Mapping[str, str] | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(kind of every group by name, what is not known). `given` names kinds, as the user says them."""
    names = {trace.name(int(group)) for trace in traces for group in set(trace.spans.group.tolist())}
    titles = {name: title for trace in traces for name, title in trace.titles.items()}
    ranks = {name: members for trace in traces for name, members in trace.groups.items() if members}
    found, notes = dict(given or {}), []
    for name in sorted(names - set(found)):
        title = titles.get(name, name).lower()
        kind = next((kind for kind, words in WORDS.items() if re.search(words, title)), "")
        if not kind and layout is not None and name in ranks:
            fitting = [kind for kind in KINDS if _holds(layout, kind, ranks[name])]
            kind = fitting[0] if fitting else "other"
            if len(fitting) > 1:
                notes.append(f"group {name} fits {' and '.join(fitting)}; it is taken for {kind}")
        found[name] = kind or "?"
    unknown = [name for name, kind in found.items() if kind == "?"]
    # A kernel that does not say its group belongs to the only one there is.
    named = {kind for kind in found.values() if kind != "?"}
    for name in unknown:
        alone = len(unknown) - ("" in unknown) <= 1 and not named
        found[name] = (
            "dp" if alone and _gathers(traces) else next(iter(named)) if name == "" and len(named) == 1 else "other"
        )
    return found, tuple(notes)


def _holds(layout: Layout, kind: str, members: tuple[int, ...]) -> bool:
    """Whether the ranks are a group of a kind in the layout."""
    if max(members) >= layout.world:
        return False
    return any(list(members) in process_groups(layout, group) for group in KINDS[kind])


def _gathers(traces: Sequence[RankTrace]) -> bool:
    """Whether the runs' collectives are those of gradients and parameters."""
    ops = {trace.name(int(op)) for trace in traces for op in set(trace.spans.op.tolist())}
    return bool(ops & set(GRADIENTS)) and "send-recv" not in ops and "all-to-all" not in ops
