"""Nodes and the coordinates of their ranks against plain loops."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.base.errors import BadInput
from lockstep.price.layout import Layout
from lockstep.price.layout.nodes import node_classes, rank_coordinates
from lockstep.show.views.parts import ranks as view

degrees = st.sampled_from([1, 2, 3, 4])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any degrees, experts over some of the data-parallel ranks."""
    tp, cp, dp, pp = (draw(degrees) for _ in range(4))
    ep = draw(st.sampled_from([one for one in range(1, 5) if cp * dp % one == 0]))
    return Layout(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep)


def counted(layout: Layout) -> list[dict[str, int]]:
    """Coordinates of every rank, counted up as an odometer, the innermost axis fastest."""
    degrees = {axis: getattr(layout, axis) for axis in layout.order if axis != "ep"}
    return [dict(zip(degrees, reversed(one), strict=True)) for one in product(*map(range, reversed(degrees.values())))]


@given(layouts(), st.integers(1, 20))
def test_every_rank_is_on_one_node_and_nodes_of_a_class_are_identical(layout: Layout, unit: int) -> None:
    classes = node_classes(layout, unit)
    nodes = [node for some in classes for node in some.nodes.tolist()]
    assert sorted(nodes) == list(range(-(-layout.world // unit)))
    every = rank_coordinates(layout)
    expected = counted(layout)
    for axis, digits in every.items():
        if axis in expected[0]:
            assert digits.tolist() == [one[axis] for one in expected]
    for some in classes:
        for node in some.nodes.tolist():
            here = [rank for rank in range(layout.world) if rank // unit == node]
            for axis, first in some.coordinates.items():
                apart = {int(every[axis][rank] - one) for rank, one in zip(here, first.tolist(), strict=True)}
                assert len(apart) == 1
                assert axis != "pp" or apart == {0}
    alone = node_classes(layout, unit, apart=True)
    assert [some.nodes.tolist() for some in alone] == [[node] for node in range(len(nodes))]
    assert [rank for some in alone for rank in some.ranks.tolist()] == list(range(layout.world))


@given(layouts())
def test_axes_that_are_not_split_have_no_column(layout: Layout) -> None:
    found = rank_coordinates(layout)
    assert {axis for axis in ("tp", "cp", "dp", "pp", "ep") if getattr(layout, axis) > 1} == found.keys() - {
        "edp",
        "etp",
    }
    if "ep" in found:
        assert sorted(set(found["ep"].tolist())) == list(range(layout.ep))


def test_nodes_without_devices_are_refused() -> None:
    with pytest.raises(BadInput):
        node_classes(Layout(dp=2), 0)


def plain(rows: list[list[str]]) -> list[list[str]]:
    return [[cell.replace(view.NO_BREAK, " ") for cell in row] for row in rows]


def test_rows_list_every_node_once() -> None:
    one = lockstep.estimate("llama3-70b", "dgx-h100:64", batch=512, tp=4, pp=4, zero=1)
    assert plain(view.rows(one)) == [
        [f"{16 * stage} to {16 * stage + 15}", "16", f"{128 * stage} to {128 * stage + 7}",
         "0 1 2 3 0 1 2 3", "0 0 0 0 1 1 1 1", str(stage)]
        for stage in range(4)
    ]  # fmt: skip
    few = lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, tp=2)
    assert [title for title, _ in view.titles(few)] == ["node", "ranks", "tp", "dp"]
    assert plain(view.rows(few))[1] == ["1", "8 to 15", "0 1 0 1 0 1 0 1", "4 4 5 5 6 6 7 7"]
    strided = lockstep.estimate("llama3-405b", "gb200-nvl72:16", batch=1152, tp=8, pp=9, zero=1)
    rows = plain(view.rows(strided))
    assert [row[0] for row in rows if " to " not in row[0]] == [row[0] for row in rows if row[1] == "1"]
    assert sum(int(row[1]) for row in rows) == 16
