"""One layout: where its step goes, what fills the memory of each stage, and which ranks belong together.

Of a captured step the first two, and what the program asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json, plain
from lockstep.base.units import format_frac, format_size, format_time
from lockstep.price.layout.nodes import rank_coordinates
from lockstep.show.verbs.capture import CapturedMemory
from lockstep.show.views import estimate as view
from lockstep.show.views.capture import plot_capture
from lockstep.show.views.memory import tight_words
from lockstep.show.views.parts import ranks as shown
from lockstep.show.views.parts.groups import MOST_RANKS, groups_of, plot_groups
from lockstep.show.views.parts.groups import shown as ranks_shown
from lockstep.show.web.captured import layout_data, taking_captures
from lockstep.show.web.parts import headed, memory_bar, step_figures, step_parts, with_best
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.show.verbs.memory import StageMemories
    from lockstep.show.web.asked import Asked


def data(one: Estimate, asked: Asked) -> Json:
    """Waterfall, memory and rank grid."""
    held = asked.ask("memory", with_best(asked))
    return {
        **headed(one, headline(one, held)),
        "fits": bool(one.memory.fits),
        "tight": tight_words(one.memory) if one.memory.tight else "",
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


def headline(one: Estimate, held: StageMemories) -> str:
    """How much of the step computes, and how full the fullest device is."""
    computes = format_frac(one.step.breakdown_s()["compute"] / one.step_time_s, 2)
    total, capacity = format_size(float(held.memory.total_B)), format_size(float(held.memory.capacity_B))
    return f"{computes} of the step computes; the fullest device holds {total} of {capacity}"


def grid(one: Estimate) -> Json:
    """Ranks in rows of a node, with the groups that each belongs to."""
    node, axes = one.cluster.devices_per_unit(0), rank_coordinates(one.layout)
    return {
        "ranks": min(one.job.devices, MOST_RANKS),
        "node": node,
        "kinds": plain(groups_of(one)),
        "axes": {axis: digits[:MOST_RANKS].tolist() for axis, digits in axes.items()},
        "note": ranks_shown(one),
        "row": f"a row is a node of {node} devices",
    }


def picture(one: Estimate | CapturedMemory) -> Figure:
    """Ranks that work together; of a captured step, what runs and what is held."""
    return plot_capture(one) if isinstance(one, CapturedMemory) else plot_groups(one)


SCREEN = taking_captures(
    Screen(
        title="Layout",
        verb="estimate",
        fields=(*QUESTION, *LAYOUT, *RECIPE),
        words=with_best,
        data=data,
        picture=picture,
    ),
    layout_data,
)
