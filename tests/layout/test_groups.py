"""Rank grid and process groups against brute force."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import UnknownName
from lockstep.describe.hardware import cluster
from lockstep.price.layout import AXES, Layout, coordinates, group_summary, process_groups, span

degrees = st.sampled_from([1, 2, 3, 4])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any degrees whose experts' grid covers the ranks of a stage, in any order that keeps stages the same."""
    tp, cp, dp, pp = (draw(degrees) for _ in range(4))
    pairs = [(ep, etp) for ep in range(1, 9) for etp in range(1, 9) if tp * cp * dp % (ep * etp) == 0]
    ep, etp = draw(st.sampled_from(pairs))
    order = tuple(draw(st.permutations(AXES[:4])))
    said = draw(st.sampled_from([0, etp])) if etp == tp else etp
    return Layout(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=said, order=(*order, "pp"))


def grids(layout: Layout) -> dict[str, dict[str, int]]:
    """Degrees of the dense and of the experts' grid, innermost first, as Megatron Core writes them down."""
    etp = layout.etp or layout.tp
    edp = layout.tp * layout.cp * layout.dp // (etp * layout.ep)
    dense = {"tp": layout.tp, "cp": layout.cp, "dp": layout.dp, "pp": layout.pp}
    experts = {"tp": etp, "ep": layout.ep, "dp": edp, "pp": layout.pp}
    named = {"tp": "etp", "dp": "edp"}
    return {
        "dense": {axis: dense[axis] for axis in layout.order if axis in dense},
        "experts": {named.get(axis, axis): experts[axis] for axis in layout.order if axis in experts},
    }


def by_hand(degrees_of: dict[str, int], apart: tuple[str, ...]) -> list[list[int]]:
    """Groups over the axes `apart` by counting through a grid, innermost axis fastest."""
    groups: dict[tuple[int, ...], list[int]] = {}
    axes = list(reversed(degrees_of))
    for rank, place in enumerate(product(*(range(degrees_of[axis]) for axis in axes))):
        same = tuple(digit for axis, digit in zip(axes, place, strict=True) if axis not in apart)
        groups.setdefault(same, []).append(rank)
    return sorted(groups.values())


GROUPS = {
    "tp": ("dense", ("tp",)), "cp": ("dense", ("cp",)), "dp": ("dense", ("dp",)), "data": ("dense", ("cp", "dp")),
    "pp": ("dense", ("pp",)), "etp": ("experts", ("etp",)), "ep": ("experts", ("ep",)),
    "expert_data": ("experts", ("edp",)),
}  # fmt: skip


@given(layouts(), st.sampled_from(list(GROUPS)))
def test_groups_differ_in_their_axes_only(layout: Layout, name: str) -> None:
    grid, apart = GROUPS[name]
    assert process_groups(layout, name) == by_hand(grids(layout)[grid], apart)


@given(layouts())
def test_dense_and_expert_grids_have_the_same_stages(layout: Layout) -> None:
    assert by_hand(grids(layout)["dense"], ("pp",)) == by_hand(grids(layout)["experts"], ("pp",))


@given(layouts(), st.booleans())
def test_coordinates_name_each_rank_once(layout: Layout, experts: bool) -> None:
    digits = coordinates(layout, experts)
    assert len(set(zip(*(one.tolist() for one in digits.values()), strict=True))) == layout.world


@given(layouts(), st.sampled_from(list(GROUPS)))
def test_members_per_unit_never_exceed_the_truth(layout: Layout, name: str) -> None:
    for unit in (1, 2, 4, 8):
        counts = [
            np.unique(np.array(group) // unit, return_counts=True)[1].max() for group in process_groups(layout, name)
        ]
        assert int(span(layout.grid(), GROUPS[name][1], [unit]).members[0]) <= max(counts)


@pytest.mark.parametrize("axis", ["tp", "pp"])
@pytest.mark.parametrize("unit", [3, 4, 6, 8])
def test_an_axis_that_is_not_split_may_stand_anywhere(axis: str, unit: int) -> None:
    others = [other for other in AXES if other != axis]
    for cp, dp in product(range(1, 7), repeat=2):
        one = Layout(cp=cp, dp=dp)
        placed = [replace(one, order=(*others[:at], axis, *others[at:])).grid() for at in range(len(AXES))]
        assert {int(span(grid, ("cp", "dp"), [unit]).members[0]) for grid in placed} == {np.gcd(unit, cp * dp)}


@pytest.mark.parametrize("unit", [1, 4, 8, 16])
@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("etp", [0, 1, 2])
def test_members_per_unit_are_exact_for_powers_of_two(unit: int, name: str, etp: int) -> None:
    layout = Layout(tp=4, cp=2, ep=4, dp=8, pp=2, etp=etp)
    for group in process_groups(layout, name):
        counts = np.unique(np.array(group) // unit, return_counts=True)[1]
        assert set(counts.tolist()) == {int(span(layout.grid(), GROUPS[name][1], [unit]).members[0])}


def test_experts_are_folded_over_the_ranks_of_a_stage() -> None:
    """Eight ranks of experts lie in a node, across tensor and context ranks, where these divide no replica."""
    layout = Layout(tp=2, cp=4, dp=4, ep=8, etp=1)
    assert process_groups(layout, "ep")[0] == list(range(8))
    assert process_groups(layout, "expert_data")[0] == [0, 8, 16, 24]
    cut = Layout(tp=2, cp=4, dp=4, ep=4)
    assert process_groups(cut, "ep")[0] == [0, 2, 4, 6]
    assert process_groups(cut, "etp") == process_groups(cut, "tp")


def test_hsdp_shards_are_consecutive_data_ranks() -> None:
    layout = Layout(dp=8, zero=3, shard=4)
    assert process_groups(layout, "shard") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert process_groups(layout, "copies") == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize("ep", [1, 2, 4])
def test_experts_have_as_many_copies_as_the_dense_layers(ep: int) -> None:
    """Ranks share an expert within the copy that they are of, and hold together what the copy holds of it."""
    layout = Layout(tp=2, cp=2, dp=4, pp=2, ep=ep, etp=1, zero=3, shard=4)
    copies = {rank: number // 2 for number, ranks in enumerate(process_groups(layout, "shard")) for rank in ranks}
    groups = process_groups(layout, "expert_shard")
    assert {len(ranks) for ranks in groups} == {4 * 2 // ep}
    assert {len({copies[rank] for rank in ranks}) for ranks in groups} == {1}


def test_unknown_group_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        process_groups(Layout(), "dpp")


def test_the_summary_names_the_level_that_each_group_crosses() -> None:
    found = group_summary(Layout(tp=4, cp=2, dp=4, ep=2, pp=2, zero=3, shard=4), cluster("dgx-h100:8"))
    assert {kind: (one["ranks"], one["groups"], one["level"]) for kind, one in found.items()} == {
        "tp": (4, 16, "node"),
        "cp": (2, 32, "node"),
        "ep": (2, 32, "node"),
        "dp": (4, 16, "fabric"),
        "copies": (2, 32, "fabric"),
        "pp": (2, 32, "fabric"),
        "data": (8, 8, "fabric"),
        "expert_data": (4, 16, "fabric"),
        "shard": (4, 16, "fabric"),
        "expert_shard": (2, 32, "fabric"),
    }
    assert found["cp"]["first"] == [0, 4]
