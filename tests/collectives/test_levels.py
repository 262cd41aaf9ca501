"""Groups that span levels: golden values, the program on two links, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collectives import PlainLink, best_on_levels, best_on_levels_time_s, get, times_on_levels
from lockstep.collectives.rounds import Rounds
from lockstep.errors import BadInput, UnknownName
from lockstep.simulate import simulate

from .conformance import links, quick


@dataclass(frozen=True)
class TwoLevels:
    """Ranks of one node of `node_ranks` talk over `inner`, all others over `outer`."""

    node_ranks: int
    inner: PlainLink
    outer: PlainLink

    def link_between(self, first: np.ndarray, second: np.ndarray) -> Any:
        inside = first // self.node_ranks == second // self.node_ranks
        return PlainLink(
            np.where(inside, self.inner.latency_s, self.outer.latency_s),
            np.where(inside, self.inner.bandwidth_Bps, self.outer.bandwidth_Bps),
        )


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
@given(node_ranks=st.integers(1, 6), nodes=st.integers(1, 6), elems=st.integers(1, 400), inner=links, outer=links)
def test_hierarchical_price_equals_simulation_on_two_links(
    node_ranks: int, nodes: int, elems: int, inner: PlainLink, outer: PlainLink
) -> None:
    inner, outer = (PlainLink(link.latency_s, link.bandwidth_Bps) for link in (inner, outer))
    ranks, size_B = node_ranks * nodes, float(elems * ranks_lcm(node_ranks, nodes))
    hierarchical = get("all-reduce", "hierarchical")
    simulated = [
        simulate(
            hierarchical.program(ranks, size_B, outer, levels=(node_ranks,), inner="ring", outer=name),
            TwoLevels(node_ranks, inner, outer),
        ).makespan_s
        for name in ("ring", "double-binary-tree")
    ]
    levels = [(node_ranks, inner.latency_s, inner.bandwidth_Bps), (nodes, outer.latency_s, outer.bandwidth_Bps)]
    assert best_on_levels("all-reduce", levels, size_B, ["hierarchical"]).time_s == pytest.approx(
        min(simulated), rel=1e-12
    )


def ranks_lcm(node_ranks: int, nodes: int) -> int:
    return node_ranks * nodes


@quick
@given(node_ranks=st.integers(1, 4), nodes=st.integers(1, 4), inner=links, outer=links)
def test_hierarchical_all_to_all_equals_simulation_on_two_links(
    node_ranks: int, nodes: int, inner: PlainLink, outer: PlainLink
) -> None:
    ranks, size_B = node_ranks * nodes, 4800.0
    program = get("all-to-all", "hierarchical").program(ranks, size_B, node_ranks=node_ranks)
    levels = [(node_ranks, inner.latency_s, inner.bandwidth_Bps), (nodes, outer.latency_s, outer.bandwidth_Bps)]
    assert times_on_levels("all-to-all", levels, size_B)["hierarchical"] == pytest.approx(
        simulate(program, TwoLevels(node_ranks, inner, outer)).makespan_s, rel=1e-12
    )


@quick
@given(node_ranks=st.integers(1, 4), nodes=st.integers(1, 4), inner=links, outer=links)
def test_direct_all_to_all_equals_simulation_on_two_ports(
    node_ranks: int, nodes: int, inner: PlainLink, outer: PlainLink
) -> None:
    """One port for the peers in the node, one for all others: what the price calls levels that work at once."""
    ranks = node_ranks * nodes
    rounds = Rounds(ranks, element_B=800.0)
    outside, rank = rounds.second_port(), np.arange(ranks)
    node, here = rank // node_ranks, rank % node_ranks
    for turn in range(nodes):
        for step in range(node_ranks):
            peer = (node + turn) % nodes * node_ranks + (here + step) % node_ranks
            if turn or step:
                (outside if turn else rounds).messages(rank, peer, peer, peer + 1, to_buffer="output", to_start=rank)
    levels = [(node_ranks, inner.latency_s, inner.bandwidth_Bps), (nodes, outer.latency_s, outer.bandwidth_Bps)]
    assert times_on_levels("all-to-all", levels, 800.0 * ranks)["direct"] == pytest.approx(
        simulate(rounds.build(), TwoLevels(node_ranks, inner, outer)).makespan_s, rel=1e-12
    )


@quick
@given(ranks=st.integers(1, 64), size_B=st.floats(1, 1e9), link=links)
def test_one_level_is_flat(ranks: int, size_B: float, link: PlainLink) -> None:
    level = (ranks, link.latency_s, link.bandwidth_Bps, link.reduce_s_per_B)
    for op in ("all-reduce", "all-gather", "reduce-scatter"):
        flat = get(op, "ring").price_time_s(ranks, size_B, link)
        for levels in ([level], [level, (1, 1.0, 1.0)], [(1, 1.0, 1.0, link.reduce_s_per_B), level]):
            assert times_on_levels(op, levels, size_B)["ring"] == pytest.approx(flat, rel=1e-12)
            assert times_on_levels(op, levels, size_B)["hierarchical"] <= flat * (1 + 1e-12)
    direct = get("all-to-all", "direct").price_time_s(ranks, size_B, link)
    for way, time_s in times_on_levels("all-to-all", [level, (1, 1.0, 1.0)], size_B).items():
        assert time_s == pytest.approx(direct, rel=1e-12), way


@quick
@given(node_ranks=st.integers(1, 16), nodes=st.integers(1, 64), size_B=st.floats(1, 1e9), inner=links, outer=links)
def test_no_way_beats_what_must_leave_a_node(
    node_ranks: int, nodes: int, size_B: float, inner: PlainLink, outer: PlainLink
) -> None:
    levels = [(node_ranks, inner.latency_s, inner.bandwidth_Bps), (nodes, outer.latency_s, outer.bandwidth_Bps)]
    egress_s = 2 * (nodes - 1) / nodes * size_B / (node_ranks * outer.bandwidth_Bps)
    for way, time_s in times_on_levels("all-reduce", levels, size_B).items():
        assert time_s >= egress_s * (1 - 1e-12), way


def test_arrays_equal_scalars_and_the_cheap_path() -> None:
    inside, nodes = np.array([1, 2, 8, 8, 4]), np.array([3, 1, 32, 2, 1])
    sizes = np.array([1e3, 1e6, 1e9, 1e5, 1e7])
    levels = [(inside, 2e-6, 300e9), (nodes, 5e-6, np.full(5, 12.5e9)), (2, 1e-5, 1e9)]
    for op in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "scatter", "gather"):
        many = best_on_levels(op, levels, sizes)
        np.testing.assert_array_equal(best_on_levels_time_s(op, levels, sizes), many.time_s)
        for i in range(5):
            scalars = [(int(inside[i]), 2e-6, 300e9), (int(nodes[i]), 5e-6, 12.5e9), (2, 1e-5, 1e9)]
            one = best_on_levels(op, scalars, float(sizes[i]))
            assert one.time_s == pytest.approx(many.time_s[i], rel=1e-12)
            assert one.algorithm == many.algorithm[i]


def test_bad_levels_teach() -> None:
    with pytest.raises(BadInput, match="empty"):
        best_on_levels("all-reduce", [], 1.0)
    with pytest.raises(UnknownName, match="way of all-reduce"):
        best_on_levels("all-reduce", [(2, 0.0, 1.0)], 1.0, ["rings"])
    with pytest.raises(UnknownName, match="collective over levels"):
        best_on_levels("allreduce", [(2, 0.0, 1.0)], 1.0)
