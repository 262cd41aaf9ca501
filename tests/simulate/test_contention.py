"""Max-min fair sharing: its defining property, analytic values on stars, rings and trees, networkx's maximum flow."""

from __future__ import annotations

import math
from types import SimpleNamespace

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.play import (
    Network,
    max_min_rates,
    ring_network,
    simulate,
    simulate_contended,
    star_network,
    tree_network,
)
from lockstep.simulate.play.fluid import Unlimited
from lockstep.simulate.program import Kind, Program, ProgramBuilder
from program.random_programs import Link, price, programs
from program.test_executor import ring_all_reduce


def messages(pairs: list[tuple[int, int]], size_B: float, ranks: int) -> Program:
    """Messages that may all move at once: each has lanes of its own."""
    builder = ProgramBuilder(ranks, tuple(f"lane {i}" for i in range(len(pairs))))
    for i, (source, target) in enumerate(pairs):
        builder.message(source, target, size_B, stream=f"lane {i}")
    return builder.build()


@st.composite
def allocations(draw: st.DrawFn) -> tuple[np.ndarray, list[list[int]]]:
    """Capacities and the resources of each flow."""
    number = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.floats(0.5, 100.0), min_size=number, max_size=number))
    route = st.lists(st.integers(0, number - 1), min_size=1, max_size=number, unique=True)
    return np.array(capacity), draw(st.lists(route, min_size=1, max_size=8))


def rates_of(capacity: np.ndarray, routes: list[list[int]]) -> np.ndarray:
    flow = np.repeat(np.arange(len(routes)), [len(route) for route in routes])
    return max_min_rates(capacity, flow, np.array([r for route in routes for r in route]), len(routes))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(allocations())
def test_every_flow_has_a_bottleneck(case: tuple[np.ndarray, list[list[int]]]) -> None:
    # Feasible, and each flow crosses a full resource on which nobody is faster: exactly max-min fairness.
    capacity, routes = case
    rate = rates_of(capacity, routes)
    load = np.zeros(len(capacity))
    for flow, route in enumerate(routes):
        load[route] += rate[flow]
    assert (load <= capacity * (1 + 1e-9)).all()
    for flow, route in enumerate(routes):
        assert any(
            load[r] >= capacity[r] * (1 - 1e-9)
            and rate[flow] >= max(rate[other] for other, path in enumerate(routes) if r in path) * (1 - 1e-9)
            for r in route
        )


def test_max_min_rates_match_the_textbook_line() -> None:
    # Bertsekas and Gallager: a long flow over two unit links, one short flow on each; capacities 1 and 2.
    assert rates_of(np.array([1.0, 2.0]), [[0, 1], [0], [1]]).tolist() == [0.5, 0.5, 1.5]
    assert max_min_rates(np.ones(1), np.zeros(0, dtype=int), np.zeros(0, dtype=int), 2).tolist() == [np.inf, np.inf]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(2, 6), st.lists(st.floats(0.5, 50.0), min_size=1, max_size=5))
def test_flows_of_one_pair_reach_the_maximum_flow(paths: int, capacities: list[float]) -> None:
    # All flows share one bottleneck chain: their sum is the maximum flow, whatever their number.
    graph = networkx.DiGraph()
    for i, value in enumerate(capacities):
        graph.add_edge(i, i + 1, capacity=value)
    total = rates_of(np.array(capacities), [list(range(len(capacities)))] * paths).sum()
    assert total == pytest.approx(networkx.maximum_flow_value(graph, 0, len(capacities)), rel=1e-9)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 7)), min_size=1, max_size=12, unique=True))
def test_star_against_maximum_flow(pairs: list[tuple[int, int]]) -> None:
    # Max-min fairness on single routes never beats the maximum flow, and meets it when all flows share one port.
    network = star_network(8, 10.0)
    rate = rates_of(network.capacity_Bps, [list(network.route(a, b)) for a, b in pairs])
    graph = networkx.DiGraph()
    for a, b in pairs:
        graph.add_edge("source", ("up", a), capacity=10.0)
        graph.add_edge(("up", a), ("down", b))
        graph.add_edge(("down", b), "sink", capacity=10.0)
    most = networkx.maximum_flow_value(graph, "source", "sink")
    assert rate.sum() <= most * (1 + 1e-9)
    if len({a for a, _ in pairs}) == 1 or len({b for _, b in pairs}) == 1:
        assert rate.sum() == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("senders", [1, 2, 7])
def test_incast_on_a_star(senders: int) -> None:
    # n senders to one receiver share its port: alpha + n S / rate.
    program = messages([(i, 7) for i in range(senders)], 100.0, 8)
    timeline = simulate_contended(program, star_network(8, 50.0, latency_s=3.0))
    assert timeline.end_s.tolist() == pytest.approx([3.0 + senders * 2.0] * 2 * senders, rel=1e-12)


def test_disjoint_pairs_do_not_share_links() -> None:
    timeline = simulate_contended(messages([(0, 1), (2, 3), (1, 0)], 100.0, 4), star_network(4, 50.0))
    assert timeline.end_s.tolist() == [2.0] * 6


def test_rates_change_when_a_flow_ends() -> None:
    # 100 B and 300 B share 50 B/s: 4 s together at 25 B/s, then 200 B alone at 50 B/s.
    builder = ProgramBuilder(3, ("a", "b"))
    builder.message(0, 2, 100.0, stream="a")
    builder.message(1, 2, 300.0, stream="b")
    timeline = simulate_contended(builder.build(), star_network(3, 50.0))
    assert timeline.end_s.tolist() == pytest.approx([4.0, 4.0, 8.0, 8.0], rel=1e-12)


@pytest.mark.parametrize("ranks", [4, 5, 8])
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_shifts_around_a_ring(ranks: int, shift: int) -> None:
    # Everybody sends `shift` to the right: min(shift, n - shift) messages per link, unless the two ways tie.
    hops = min(shift, ranks - shift)
    program = messages([(r, (r + shift) % ranks) for r in range(ranks)], 100.0, ranks)
    timeline = simulate_contended(program, ring_network(ranks, 50.0, latency_s=0.5))
    assert timeline.makespan_s == pytest.approx(hops * 0.5 + hops * 2.0, rel=1e-12)


def nodes(per_node: int, number: int, nics: int) -> SimpleNamespace:
    """Nodes with fast inner links and `nics` slow ones each."""
    levels = (
        SimpleNamespace(name="node", size=per_node, link=Link(1.0, 1000.0), links_per_child=1),
        SimpleNamespace(name="fabric", size=number, link=Link(2.0, 100.0), links_per_child=nics),
    )
    return SimpleNamespace(name="toy", levels=levels, num_devices=per_node * number)


@pytest.mark.parametrize(("nics", "sharing"), [(1, 8.0), (2, 4.0), (4, 2.0), (8, 1.0), (16, 0.5)])
def test_nics_of_a_node_are_shared(nics: int, sharing: float) -> None:
    # All 8 devices of node 0 send to node 1: each gets nics / 8 of a NIC's 100 B/s.
    program = messages([(r, 8 + r) for r in range(8)], 300.0, 16)
    timeline = simulate_contended(program, tree_network(nodes(8, 2, nics)))
    assert timeline.makespan_s == pytest.approx(2.0 + 3.0 * sharing, rel=1e-12)


def test_messages_inside_a_node_leave_the_nics_alone() -> None:
    program = messages([(0, 1), (2, 6), (5, 6)], 1000.0, 8)
    network = tree_network(nodes(4, 2, 1))
    timeline = simulate_contended(program, network)
    assert timeline.end_s[::2].tolist() == pytest.approx([2.0, 12.0, 2.0], rel=1e-12)
    assert len(network.names) == len(network.capacity_Bps) == 2 * 8 + 2 * 2
    assert [network.names[r] for r in network.route(2, 6)] == ["fabric 0 port 0 up", "fabric 1 port 0 down"]


def test_three_levels_cross_every_uplink() -> None:
    levels = tuple(
        SimpleNamespace(name=name, size=2, link=Link(0.0, rate), links_per_child=1)
        for name, rate in (("node", 80.0), ("rack", 40.0), ("spine", 10.0))
    )
    network = tree_network(SimpleNamespace(name="toy", levels=levels, num_devices=8))
    names = [network.names[r] for r in network.route(1, 7)]
    assert names == ["rack 0 port 0 up", "spine 0 port 0 up", "rack 3 port 0 down", "spine 1 port 0 down"]
    timeline = simulate_contended(messages([(0, 4), (2, 6)], 100.0, 8), network)
    assert timeline.makespan_s == pytest.approx(20.0)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(programs)
def test_without_sharing_contention_equals_the_exact_engine(program: Program) -> None:
    # Every pair its own link: nothing is shared unless two messages of one pair overlap, which FIFO lanes forbid here.
    link, ranks = Link(), program.ranks
    private = Network(
        ranks, np.full(ranks * ranks, link.bandwidth_Bps), tuple("" for _ in range(ranks * ranks)),
        lambda a, b: [a * ranks + b], lambda a, b: link.latency_s, link.reduce_s_per_B,
    )  # fmt: skip
    one = simulate(program, link, price=price)
    two = simulate_contended(program, private, price=price)
    np.testing.assert_allclose(two.end_s, one.end_s, rtol=1e-9, atol=1e-15)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs, st.floats(0.1, 1.0))
def test_contention_never_moves_more_than_the_capacity(program: Program, share: float) -> None:
    # Every port carries at most capacity x makespan bytes, and no message beats its own link.
    network = star_network(program.ranks, Link().bandwidth_Bps * share, Link().latency_s)
    timeline = simulate_contended(program, network, price=price)
    limit_B = network.capacity_Bps[0] * timeline.makespan_s * (1 + 1e-9)
    assert (program.sent_B() <= limit_B + 1e-6).all()
    assert (program.received_B() <= limit_B + 1e-6).all()
    sends = program.kind == Kind.SEND
    alone_s = Link().latency_s + program.size_B[sends] / network.capacity_Bps[0]
    assert (timeline.end_s[sends] - timeline.start_s[sends] >= alone_s * (1 - 1e-9) - 1e-15).all()


@settings(derandomize=True, max_examples=20, deadline=None)
@given(programs, st.sampled_from([0.5, 4.0]))
def test_units_scale_exactly(program: Program, factor: float) -> None:
    # Half the latency, twice every rate and half of every given time: half of every span.
    link = Link()
    columns = dict(program.columns) | {"duration_s": program.duration_s * factor}
    scaled = Program(
        program.ranks, program.streams, program.names, columns, program.match, program.after_start, program.after
    )
    one, two = (
        simulate_contended(
            given, star_network(program.ranks, link.bandwidth_Bps / by, link.latency_s * by, link.reduce_s_per_B * by),
            price=lambda *key, by=by: price(*key) * by,
        )
        for given, by in ((program, 1.0), (scaled, factor))
    )  # fmt: skip
    np.testing.assert_allclose(two.end_s, one.end_s * factor, rtol=1e-12)


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_a_ring_all_reduce_fits_a_ring_and_a_star(ranks: int) -> None:
    program, link = ring_all_reduce(ranks, 8 * ranks), Link()
    alone_s = simulate(program, link).makespan_s
    for make in (star_network, ring_network):
        network = make(ranks, link.bandwidth_Bps, link.latency_s, link.reduce_s_per_B)
        assert simulate_contended(program, network).makespan_s == pytest.approx(alone_s, rel=1e-9)


def test_a_network_with_too_few_hosts_is_refused() -> None:
    with pytest.raises(BadInput, match="8 ranks, the network only 4"):
        simulate_contended(messages([(0, 1)], 1.0, 8), star_network(4, 1.0))
    with pytest.raises(BadInput, match="capacities must be positive"):
        star_network(4, 0.0)


def test_unlimited_links_charge_only_their_reductions() -> None:
    first, second = np.array([0, 1, 2]), np.array([1, 2, 0])
    for unlimited, paid in (
        (Unlimited(), [0.0] * 3), (Unlimited(2.0), [2.0] * 3), (Unlimited(lambda a, b: a + 2.0 * b), [2.0, 5.0, 2.0]),
    ):  # fmt: skip
        links = unlimited.link_between(first, second)
        assert links.latency_s.tolist() == [0.0] * 3
        assert links.bandwidth_Bps.tolist() == [math.inf] * 3
        assert links.reduce_s_per_B.tolist() == paid
