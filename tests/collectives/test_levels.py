"""Groups that span levels: every way's price equals its program's simulation, its program is right, golden values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.base.errors import BadInput, UnknownName
from lockstep.simulate.collectives import (
    PlainLink,
    best_on_levels,
    best_on_levels_time_s,
    get,
    program_on_levels,
    times_on_levels,
)
from lockstep.simulate.collectives.levels import WAYS
from lockstep.simulate.collectives.levels.ring import channels
from lockstep.simulate.play import simulate
from lockstep.simulate.program import contributions, execute, tokens

from .conformance import links, quick

every_way = pytest.mark.parametrize(("op", "way"), [(op, way) for op, ways in WAYS.items() for way in ways])


@st.composite
def hierarchies(draw: st.DrawFn, most: int = 4) -> list[tuple[Any, ...]]:
    """One to three levels of 1 to `most` children, with links of their own, with or without reductions and start."""
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=3))
    drawn = [(size, draw(links)) for size in sizes]
    names = ("latency_s", "bandwidth_Bps", "reduce_s_per_B", "switch", "start_s")
    return [(size, *(getattr(link, name) for name in names)) for size, link in drawn]


@every_way
@quick
@given(levels=hierarchies(), size_B=st.floats(1, 1e8))
def test_every_multilevel_price_equals_its_simulation(
    op: str, way: str, levels: list[tuple[Any, ...]], size_B: float
) -> None:
    program, network = program_on_levels(op, levels, size_B, way)
    price_s = times_on_levels(op, levels, size_B)[way]
    assert simulate(program, network).makespan_s == pytest.approx(price_s, rel=1e-12, abs=0)


@every_way
@pytest.mark.parametrize("sizes", [(1,), (5,), (2, 3), (4, 1, 2), (1, 3), (3, 2, 2), (2, 2, 3)])
def test_every_multilevel_program_computes_the_right_result(op: str, way: str, sizes: tuple[int, ...]) -> None:
    program, _ = program_on_levels(op, [(size, 1e-6, 1e9) for size in sizes], 1e6, way)
    ranks = int(np.prod(sizes))
    elems = int(program.chunk_stop.max(initial=1))
    before = contributions(ranks, elems) if op in ("all-reduce", "reduce", "reduce-scatter") else tokens(ranks, elems)
    after = execute(program, {"data": before})
    data = after["data"]
    if op == "all-to-all":
        block = elems // ranks
        for receiver in range(ranks if ranks > 1 else 0):
            expected = np.concatenate([before[s][receiver * block : (receiver + 1) * block] for s in range(ranks)])
            np.testing.assert_array_equal(after["output"][receiver], expected)
        return
    whole = {"all-reduce": range(ranks), "broadcast": range(ranks), "reduce": range(1)}
    if op in whole:
        expected = before[0] if op == "broadcast" else sum(before)
        for rank in whole[op]:
            np.testing.assert_array_equal(data[rank], expected)
        return
    held = _shares(op, way, sizes, elems)
    for rank, own in enumerate(held):
        match op:
            case "reduce-scatter":
                np.testing.assert_array_equal(data[rank][own], sum(before)[own])
            case "all-gather":
                for origin, share in enumerate(held):
                    np.testing.assert_array_equal(data[rank][share], before[origin][share])
            case "scatter":
                np.testing.assert_array_equal(data[rank][own], before[0][own])
            case "gather":
                np.testing.assert_array_equal(data[0][own], before[rank][own])


def _shares(op: str, way: str, sizes: tuple[int, ...], elems: int) -> list[np.ndarray]:
    """Elements that belong to each rank: by places, inner level first; outer first for rooted ones; per channel."""
    ranks = int(np.prod(sizes))
    index = np.arange(ranks)
    if way == "ring":
        orders = channels(sizes)
        parts = np.split(np.arange(elems), orders.size)
        held: list[list[np.ndarray]] = [[] for _ in index]
        for channel, order in enumerate(orders):
            for place, rank in enumerate(order):
                held[rank].append(parts[channel * ranks + place])
        return [np.concatenate(pieces) for pieces in held]
    if op in ("scatter", "gather"):
        return np.split(np.arange(elems), ranks)
    by_place = np.arange(ranks).reshape(sizes)
    below = np.cumprod([1, *sizes])[:-1]
    parts = np.split(np.arange(elems), ranks)
    return [parts[by_place[tuple(rank // below % np.array(sizes))]] for rank in index]


def test_ranks_share_the_channels_out_of_their_unit_evenly() -> None:
    program, network = program_on_levels("all-reduce", [(4, 0.0, 1e9), (3, 0.0, 1e9), (2, 0.0, 1e9)], 24e6, "ring")
    assert network.sharing == (9, 2, 1)
    crossing = (program.peer >= 0) & (program.rank // 12 != program.peer // 12)
    sent_B = np.bincount(program.rank[crossing], weights=program.size_B[crossing], minlength=24) / 2
    assert sent_B == pytest.approx(np.full(24, sent_B[0]), rel=1e-12)
    assert sent_B[0] * 12 == pytest.approx(2 * 23 / 24 * 24e6, rel=1e-12)


def test_golden_256_gpus_in_32_nodes() -> None:
    inside, size_B = (8, 0.0, 300e9), 100e6
    one_nic, eight_nics = (32, 0.0, 12.5e9 / 8), (32, 0.0, 12.5e9)
    across = best_on_levels("all-reduce", [(8, 0.0, 1e30), one_nic], size_B, ["hierarchical"]).time_s
    assert across == pytest.approx(15.5e-3, rel=1e-9)
    across = best_on_levels("all-reduce", [(8, 0.0, 1e30), eight_nics], size_B, ["hierarchical"]).time_s
    assert across == pytest.approx(1.9375e-3, rel=1e-9)
    times = times_on_levels("all-reduce", [inside, eight_nics], size_B)
    assert times["ring"] == pytest.approx(2 * 255 / 256 * 100e6 / 100e9, rel=1e-12)
    assert times["ring"] == pytest.approx(1.99e-3, rel=2e-3)
    assert times["hierarchical"] == pytest.approx(1.9375e-3 + 2 * 7 / 8 * 100e6 / 300e9, rel=1e-12)


def test_rounds_flat_against_hierarchical() -> None:
    ring = get("all-reduce", "ring").price(256, 0.0, PlainLink(1.0, 1.0))
    levels = get("all-reduce", "hierarchical").price(256, 0.0, PlainLink(1.0, 1.0), levels=(8,))
    assert (ring.latency_steps, levels.latency_steps) == (510, 76)
    assert get("all-reduce", "hierarchical").price(64, 0.0, PlainLink(1.0, 1.0), levels=(8,)).latency_steps == 28


@quick
@given(ranks=st.integers(1, 64), size_B=st.floats(1, 1e9), link=links)
def test_a_single_level_equals_the_flat_algorithm(ranks: int, size_B: float, link: PlainLink) -> None:
    level = (ranks, link.latency_s, link.bandwidth_Bps, link.reduce_s_per_B, None, link.start_s)
    for op in ("all-reduce", "all-gather", "reduce-scatter"):
        flat = get(op, "ring").price_time_s(ranks, size_B, link)
        for levels in ([level], [level, (1, 1.0, 1.0)], [(1, 1.0, 1.0, link.reduce_s_per_B), level]):
            assert times_on_levels(op, levels, size_B)["ring"] == pytest.approx(flat, rel=1e-12)
            # An all-reduce in phases is two collectives.
            assert times_on_levels(op, levels, size_B)["hierarchical"] <= (flat + link.start_s) * (1 + 1e-12)
    direct = get("all-to-all", "direct").price_time_s(ranks, size_B, link)
    for way, time_s in times_on_levels("all-to-all", [level, (1, 1.0, 1.0)], size_B).items():
        assert time_s == pytest.approx(direct, rel=1e-12), way


@quick
@given(node_ranks=st.integers(1, 16), nodes=st.integers(1, 64), size_B=st.floats(1, 1e9), inner=links, outer=links)
def test_no_algorithm_beats_the_egress_bound_of_a_node(
    node_ranks: int, nodes: int, size_B: float, inner: PlainLink, outer: PlainLink
) -> None:
    levels = [(node_ranks, inner.latency_s, inner.bandwidth_Bps), (nodes, outer.latency_s, outer.bandwidth_Bps)]
    egress_s = 2 * (nodes - 1) / nodes * size_B / (node_ranks * outer.bandwidth_Bps)
    for way, time_s in times_on_levels("all-reduce", levels, size_B).items():
        assert time_s >= egress_s * (1 - 1e-12), way


def test_array_prices_equal_scalar_prices_and_the_fast_path() -> None:
    inside, nodes = np.array([1, 2, 8, 8, 4]), np.array([3, 1, 32, 2, 1])
    sizes = np.array([1e3, 1e6, 1e9, 1e5, 1e7])
    levels = [(inside, 2e-6, 300e9), (nodes, 5e-6, np.full(5, 12.5e9)), (2, 1e-5, 1e9)]
    for op in WAYS:
        many = best_on_levels(op, levels, sizes)
        np.testing.assert_array_equal(best_on_levels_time_s(op, levels, sizes), many.time_s)
        for i in range(5):
            scalars = [(int(inside[i]), 2e-6, 300e9), (int(nodes[i]), 5e-6, 12.5e9), (2, 1e-5, 1e9)]
            one = best_on_levels(op, scalars, float(sizes[i]))
            assert one.time_s == pytest.approx(many.time_s[i], rel=1e-12)
            assert one.algorithm == many.algorithm[i]


def test_refusals_of_invalid_levels_explain_what_is_allowed() -> None:
    with pytest.raises(BadInput, match="empty"):
        best_on_levels("all-reduce", [], 1.0)
    with pytest.raises(UnknownName, match="way of all-reduce"):
        best_on_levels("all-reduce", [(2, 0.0, 1.0)], 1.0, ["rings"])
    with pytest.raises(UnknownName, match="collective over levels"):
        best_on_levels("allreduce", [(2, 0.0, 1.0)], 1.0)
