"""Rank grid and process groups against brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.errors import UnknownName
from lockstep.hardware import cluster
from lockstep.layout import AXES, Layout, coordinates, group_summary, process_groups, span

degrees = st.sampled_from([1, 2, 3, 4])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    ep = draw(st.sampled_from([1, 2]))
    return Layout(
        tp=draw(degrees), cp=draw(degrees), ep=ep, dp=ep * draw(degrees), pp=draw(degrees),
        order=tuple(draw(st.permutations(AXES))),
    )  # fmt: skip


def by_hand(layout: Layout) -> dict[tuple[int, ...], int]:
    """Rank of each coordinate (in the grid's order, outermost last) by counting, innermost axis fastest."""
    sizes = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep, "dp": layout.dp // layout.ep, "pp": layout.pp}
    ranges = [range(sizes[axis]) for axis in reversed(layout.order)]
    return {coordinate: rank for rank, coordinate in enumerate(product(*ranges))}


@given(layouts(), st.sampled_from(["tp", "cp", "ep", "pp"]))
def test_groups_differ_in_their_axis_only(layout: Layout, axis: str) -> None:
    ranks = by_hand(layout)
    place = list(reversed(layout.order)).index(axis)
    groups: dict[tuple[int, ...], list[int]] = {}
    for coordinate, rank in ranks.items():
        groups.setdefault(coordinate[:place] + coordinate[place + 1 :], []).append(rank)
    assert process_groups(layout, axis) == sorted(sorted(group) for group in groups.values())


@given(layouts(), st.sampled_from(["tp", "cp", "ep", "dp", "pp", "data", "expert_data"]))
def test_groups_partition_the_world(layout: Layout, group: str) -> None:
    sizes = {
        "dp": layout.dp, "data": layout.dp * layout.cp, "expert_data": layout.dp * layout.cp // layout.ep,
        "tp": layout.tp, "cp": layout.cp, "ep": layout.ep, "pp": layout.pp,
    }  # fmt: skip
    groups = process_groups(layout, group)
    assert sorted(rank for members in groups for rank in members) == list(range(layout.world))
    assert {len(members) for members in groups} == {sizes[group]}


@given(layouts())
def test_coordinates_name_each_rank_once(layout: Layout) -> None:
    digits = coordinates(layout)
    assert len(set(zip(*(digits[axis].tolist() for axis in AXES), strict=True))) == layout.world


@given(layouts(), st.sampled_from([("tp",), ("pp",), ("cp",), ("ep",), ("cp", "ep", "dp"), ("cp", "dp")]))
def test_members_per_unit_never_exceed_the_truth(layout: Layout, axes: tuple[str, ...]) -> None:
    name = {("cp", "ep", "dp"): "data", ("cp", "dp"): "expert_data"}.get(axes, axes[0])
    for unit in (1, 2, 4, 8):
        counts = [
            np.unique(np.array(group) // unit, return_counts=True)[1].max() for group in process_groups(layout, name)
        ]
        claimed = int(span(layout.grid(), axes, [unit]).members[0])
        assert claimed <= max(counts)


@pytest.mark.parametrize("unit", [1, 4, 8, 16])
@pytest.mark.parametrize("axes", [("tp",), ("pp",), ("cp", "ep", "dp"), ("cp", "dp")])
def test_members_per_unit_are_exact_for_powers_of_two(unit: int, axes: tuple[str, ...]) -> None:
    layout = Layout(tp=4, cp=2, ep=2, dp=8, pp=2)
    name = {("cp", "ep", "dp"): "data", ("cp", "dp"): "expert_data"}.get(axes, axes[0])
    for group in process_groups(layout, name):
        counts = np.unique(np.array(group) // unit, return_counts=True)[1]
        assert set(counts.tolist()) == {int(span(layout.grid(), axes, [unit]).members[0])}


def test_hsdp_shards_are_consecutive_data_ranks() -> None:
    layout = Layout(dp=8, zero=3, shard=4)
    assert process_groups(layout, "shard") == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_unknown_group_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        process_groups(Layout(), "dpp")


def test_the_summary_names_the_level_that_each_group_crosses() -> None:
    found = group_summary(Layout(tp=4, cp=2, dp=4, ep=2, pp=2, zero=3, shard=2), cluster("dgx-h100:8"))
    assert {kind: (one["ranks"], one["groups"], one["level"]) for kind, one in found.items()} == {
        "tp": (4, 16, "node"),
        "cp": (2, 32, "node"),
        "ep": (2, 32, "fabric"),
        "dp": (4, 16, "fabric"),
        "pp": (2, 32, "fabric"),
        "data": (8, 8, "fabric"),
        "expert_data": (4, 16, "fabric"),
        "shard": (2, 32, "node"),
    }
    assert found["cp"]["first"] == [0, 4]
