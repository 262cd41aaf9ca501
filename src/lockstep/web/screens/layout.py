"""One layout: where its step goes, what fills the memory of each stage, and which ranks belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.layout.groups import group_summary, process_groups
from lockstep.layout.nodes import rank_coordinates
from lockstep.types.plain import Json
from lockstep.units import format_time
from lockstep.views import estimate as view
from lockstep.views.parts import ranks as shown
from lockstep.views.parts.layout_columns import layout_words as in_words
from lockstep.web.parts import memory_bar, step_figures, step_parts, with_best
from lockstep.web.screen import LAYOUT, QUESTION, RECIPE, Screen
from lockstep.web.sections import sections

if TYPE_CHECKING:
    from lockstep.planner import Estimate
    from lockstep.web.asked import Asked

MOST_RANKS = 1024
"""Ranks that the grid shows; of more, the first ones."""
GROUPS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "expert parallel",
    "etp": "expert tensor parallel",
    "dp": "data parallel",
    "pp": "pipeline stages",
    "data": "data and context parallel",
    "expert_data": "expert data parallel",
    "shard": "sharing one copy",
}


def data(one: Estimate, asked: Asked) -> Json:
    """Waterfall, memory and rank grid."""
    held = asked.ask("memory", with_best(asked))
    return {
        "title": f"{one.job.model.name} on {one.job.devices} x {one.cluster.device.name}",
        "layout": in_words(one.layout),
        "fits": bool(one.memory.fits),
        "figures": step_figures(one),
        "total": format_time(one.step_time_s),
        "parts": step_parts(one),
        "stages": [memory_bar(stage, f"stage {number}") for number, stage in enumerate(held.stages)],
        "fullest": f"stage {held.fullest}",
        "grid": grid(one),
        "ranks": {
            "kind": "table",
            "title": shown.TITLE,
            "note": shown.note(one),
            "columns": [{"title": title, "right": kind == "right"} for title, kind in shown.titles(one)],
            "rows": shown.rows(one),
        },
        "blocks": [block for block in sections(view.render, one) if block["kind"] == "list"],
    }


def grid(one: Estimate) -> Json:
    """Ranks in rows of a node, with the groups that each belongs to."""
    layout, ranks = one.layout, one.job.devices
    node = one.cluster.devices_per_unit(0)
    kinds = []
    for name, said in group_summary(layout, one.cluster).items():
        if name == "expert_data" and layout.ep == 1:
            # Without experts apart these are the groups of dense layers.
            continue
        of = [0] * ranks
        for number, members in enumerate(process_groups(layout, name)):
            for rank in members:
                of[rank] = number
        kinds.append(
            {
                "name": name.replace("_", " "),
                "label": f"{GROUPS[name]}: {said['groups']:,} groups of {said['ranks']:,} ranks",
                "level": said["level"],
                "of": of[:MOST_RANKS],
            }
        )
    return {
        "ranks": min(ranks, MOST_RANKS),
        "node": node,
        "kinds": kinds,
        "axes": {axis: digits[:MOST_RANKS].tolist() for axis, digits in rank_coordinates(layout).items()},
        "note": f"the first {MOST_RANKS:,} of {ranks:,} ranks" if ranks > MOST_RANKS else f"{ranks:,} ranks",
        "row": f"a row is a node of {node} devices",
    }


SCREEN = Screen(
    title="Layout",
    verb="estimate",
    fields=(*QUESTION, *LAYOUT, *RECIPE),
    words=with_best,
    data=data,
)
