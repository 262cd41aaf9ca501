"""The picture of ranks and their groups: what is lit is the library's group, and words stand for it."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from matplotlib.colors import to_hex

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import Estimate
from lockstep.price.layout.groups import GROUPS, group_summary, process_groups
from lockstep.show.views.parts.figure import PALETTE, save_figure
from lockstep.show.views.parts.groups import MOST_RANKS, NAMES, _places, groups_of, plot_groups

RUNS: dict[str, dict[str, Any]] = {
    "two nodes": {"model": "llama3-8b", "cluster": "dgx-h100:2", "tp": 2, "pp": 2, "batch": 64},
    "experts": {
        "model": "mixtral-8x7b",
        "cluster": "dgx-h100:8",
        "tp": 2,
        "ep": 8,
        "pp": 2,
        "cp": 2,
        "batch": 64,
        "sequence_parallel": True,
    },
    "a rack": {"model": "llama3-8b", "cluster": "gb200-nvl72:2", "tp": 4, "batch": 144},
    "many": {"model": "llama3-70b", "cluster": "dgx-h100:256", "tp": 8, "pp": 4, "batch": 2048},
}


@pytest.fixture(scope="module", params=RUNS)
def one(request: pytest.FixtureRequest) -> Estimate:
    return lockstep.estimate(**RUNS[request.param])


def lit(axes: Any, places: list[tuple[float, float]]) -> set[int]:
    """The ranks whose squares lie in blocks of the lit colour."""
    blue = next(one for one in axes.collections if to_hex(one.get_facecolor()[0]).upper() == PALETTE[0])
    boxes = [path.get_extents() for path in blue.get_paths()]
    return {rank for rank, (x, y) in enumerate(places) if any(one.contains(x + 0.4, y + 0.4) for one in boxes)}


def test_the_highlighted_ranks_are_the_group_of_rank_0(one: Estimate) -> None:
    kinds, panels = groups_of(one), [axes for axes in plot_groups(one).axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").partition(", over")[0] for axes in panels] == [kind.label for kind in kinds]
    places = _places(min(one.job.devices, MOST_RANKS), one.cluster.devices_per_unit(0))
    assert len(set(places)) == len(places)
    for kind, axes in zip(kinds, panels, strict=True):
        first = process_groups(one.layout, kind.name.replace(" ", "_"))[0]
        assert lit(axes, places) == {rank for rank in first if rank < MOST_RANKS}


def test_every_kind_that_has_several_ranks_is_shown_once(one: Estimate) -> None:
    """Kinds that are left out have the same groups as one that is shown."""
    known = {kind.name.replace(" ", "_") for kind in groups_of(one)}
    ways = {name: process_groups(one.layout, name) for name in group_summary(one.layout, one.cluster)}
    assert known <= set(ways) <= set(NAMES)
    assert all(ways[name] in [ways[other] for other in known] for name in ways)


def test_the_groups_plot_is_self_contained(one: Estimate) -> None:
    """Letters stay letters, words stand for it, colours have a dark form, and a report has room for it."""
    out = BytesIO()
    save_figure(plot_groups(one), out, ".svg")
    text = out.getvalue().decode()
    for kind in groups_of(one):
        assert f">{kind.label}, over {kind.level}</text>" in text
        assert kind.label in text[text.index("<desc") : text.index("</desc>")]
    assert "<title" in text
    assert "Ranks that work with rank 0" in text[: text.index("<desc")]
    assert "prefers-color-scheme: dark" in text
    assert len(text) < 300_000


@pytest.mark.parametrize("unit", [1, 4, 8, 72, 256])
def test_ranks_of_a_node_are_drawn_together(unit: int) -> None:
    """What touches sideways is of one node, and no two ranks lie in one place."""
    places = _places(min(20 * unit, MOST_RANKS), unit)
    at = {place: rank for rank, place in enumerate(places)}
    assert len(at) == len(places)
    beside = [(rank, at[x + 1, y]) for (x, y), rank in at.items() if (x + 1, y) in at]
    assert all(one // unit == other // unit for one, other in beside)
    assert len(beside) >= len(places) * (1 - 1 / min(unit, 16)) * 0.9


def test_one_rank_has_no_picture() -> None:
    with pytest.raises(BadInput, match="alone"):
        plot_groups(lockstep.estimate("gpt2", "h100-sxm:1", batch=8))


def test_every_kind_of_group_has_a_name() -> None:
    assert set(NAMES) == set(GROUPS)
