"""The fit finds what it was not told, from sends and receives alone; partners, entrants, ties."""

from __future__ import annotations

import inspect
from itertools import combinations

import numpy as np
import pytest

import lockstep
from effort import share
from lockstep.base.errors import UnknownName
from lockstep.base.units import parse_bandwidth_Bps, parse_time_s
from lockstep.run.rig import SPECIAL, Group, calibrate, entrant, entrants, tie_B, trials, usual_entrants
from lockstep.run.rig.calibration import ROUNDS, partners, slowed
from lockstep.simulate.collectives import among_ranks, ops
from lockstep.simulate.play import (
    Protocol,
    Topology,
    flat_topology,
    simulate_packets,
    star_topology,
    uplinks_topology,
)
from lockstep.simulate.program import execute

TOPOLOGIES = [
    flat_topology(5, 12.5e6, 5e-3),
    star_topology(5, 12.5e6, 5e-3),
    uplinks_topology([2, 2, 1], 6.25e6, 5e-3, 125e6, 1e-4),
]
TRUTHS = [(2e-4, 4e-4, 0.0, 0.98), (0.0, 1e-3, 1e-4, 1.0), (3e-4, 0.0, 2e-4, 0.8), (1e-4, 1e-4, 2e-4, 0.95)]
by_name = pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)


@pytest.mark.parametrize(
    ("topology", "notice_s", "message_s", "posting_s", "rate_frac"),
    [(one, *truth) for place, one in enumerate(TOPOLOGIES) for truth in share(TRUTHS, 2, place)],
)
def test_the_fit_finds_overheads_and_rate(
    topology: Topology, notice_s: float, message_s: float, posting_s: float, rate_frac: float
) -> None:
    truth = Protocol(notice_overhead_s=notice_s, message_overhead_s=message_s, posting_s=posting_s)
    known = trials(topology, 4)
    real = slowed(topology, rate_frac)
    measured_s = [simulate_packets(trial.program, real, truth).makespan_s for trial in known]
    found = calibrate(known, measured_s, topology, Protocol())
    # The slope is a finite difference of 1 % in the rate, so 1 % of a slowness of 25 % may be off.
    assert found.rate_frac == pytest.approx(rate_frac, rel=5e-3)
    assert found.protocol.notice_overhead_s == pytest.approx(notice_s, abs=3e-5)
    assert found.protocol.message_overhead_s == pytest.approx(message_s, abs=3e-5)
    assert found.protocol.posting_s == pytest.approx(posting_s, abs=3e-5)
    assert found.worst_frac < 0.005
    assert found.latency_s == pytest.approx(5e-3 + (notice_s + message_s + posting_s) / 2, rel=0.01)
    wire = 1 + truth.header_B / truth.payload_B
    assert found.bandwidth_Bps == pytest.approx(real.rate_Bps(0, 2) / wire, rel=5e-3)


@pytest.mark.parametrize("disturbed", [0, 1, 8, 9])
def test_one_disturbed_trial_hardly_moves_the_fit(disturbed: int) -> None:
    """Those on the smallest messages, on which the overheads rest."""
    topology = star_topology(4, 12.5e6, 5e-3)
    truth = Protocol(notice_overhead_s=4e-4, message_overhead_s=1e-4, posting_s=1.5e-4)
    known = trials(topology, 4)
    measured_s = [simulate_packets(trial.program, topology, truth).makespan_s for trial in known]
    measured_s[disturbed] *= 1.2
    found = calibrate(known, measured_s, topology, Protocol())
    assert found.rate_frac == pytest.approx(1, rel=0.01)
    assert found.latency_s == pytest.approx(5e-3 + 3.25e-4, rel=0.01)
    assert found.worst_frac > 0.1, "and is said to fit badly"


@by_name
def test_the_fit_never_makes_time_negative(topology: Topology) -> None:
    known = trials(topology, 4)
    faster_s = [0.9 * simulate_packets(trial.program, topology).makespan_s for trial in known]
    found = calibrate(known, faster_s, topology, Protocol())
    assert found.protocol.notice_overhead_s >= 0
    assert found.protocol.message_overhead_s >= 0
    assert found.rate_frac > 0


@by_name
def test_calibration_partners_share_no_link(topology: Topology) -> None:
    pairs = partners(topology, 4)
    assert topology.delay_s(*pairs[0]) == max(topology.delay_s(a, b) for a, b in combinations(range(4), 2))
    for one, other in combinations(pairs, 2):
        assert not set(one) & set(other)
        ways = [{*topology.paths[a][b], *topology.paths[b][a]} for a, b in (one, other)]
        assert not ways[0] & ways[1]


def test_trials_take_the_time_of_their_formula() -> None:
    """A private link: 2 delay + n beta a round of exchange; delay + n beta a message of ping-pong, and one notice;
    2 delay and all messages one after another for a burst."""
    flat = flat_topology(4, 12.5e6, 5e-3)
    bare = Protocol(header_B=0.0, notice_B=0.0)
    for trial in trials(flat, 4):
        wire_s = trial.size_B / 12.5e6
        delays = {"exchange": 2 * ROUNDS, "ping-pong": ROUNDS + 1, "burst": 2}[trial.pattern]
        expected_s = delays * 5e-3 + ROUNDS * wire_s
        assert simulate_packets(trial.program, flat, bare).makespan_s == pytest.approx(expected_s), trial.pattern


@pytest.mark.parametrize(
    ("rate_Bps", "largest"),
    [
        (262144 / 0.2 * 1.001, 262144),
        (262144 / 0.2, 131072),
        (131072 / 0.2 * 1.001, 131072),
        (131072 / 0.2 * 0.999, 32768),
        (1e4, 32768),
    ],
)
def test_slow_messages_are_calibrated_at_two_sizes_only(rate_Bps: float, largest: int) -> None:
    found = trials(flat_topology(2, rate_Bps, 5e-3), 2)
    for pattern in ("exchange", "ping-pong"):
        sizes_B = [trial.size_B for trial in found if trial.pattern == pattern]
        assert sizes_B == [size_B for size_B in (4096, 32768, 131072, 262144) if size_B <= largest]
    assert [trial.size_B for trial in found if trial.pattern == "burst"] == [512, 1024, 2048]


def test_without_a_topology_algorithms_are_chosen_for_the_default_links() -> None:
    usual = inspect.signature(lockstep.rig).parameters
    rate_Bps = parse_bandwidth_Bps(usual["rate"].default, "--rate")
    links = flat_topology(4, rate_Bps, parse_time_s(usual["delay"].default, "--delay"))
    assert (rate_Bps, links.delay_s(0, 1)) == (12.5e6, 5e-3)
    assert Group(4, 4).on(links) == Group(4, 4)


@pytest.mark.parametrize("name", [*usual_entrants("all-reduce", Group(4, 2)), "full-exchange", "torus-2d"])
@pytest.mark.parametrize("group", [Group(4, 4), Group(4, 2), Group(6, 3)])
def test_every_entrant_computes_the_right_sum(name: str, group: Group) -> None:
    elems = 7 * group.ranks
    program = entrant("all-reduce", name, group, 4 * elems)
    data = [np.arange(elems) * (rank < group.ranks) * (rank + 1) for rank in range(program.ranks)]
    found = execute(program, {"data": data})["data"]
    for rank in range(group.ranks):
        assert (found[rank] == sum(data)).all()


@pytest.mark.parametrize("name", SPECIAL["all-to-all"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_to_all_transposes_in_any_send_order(name: str, ranks: int) -> None:
    part = 5
    data = [np.arange(ranks * part) + 1000 * rank for rank in range(ranks)]
    program = entrant("all-to-all", name, Group(ranks, ranks), 4 * ranks * part)
    for seed in (None, 1, 2):
        found = execute(program, {"data": data}, order_seed=seed)["data"]
        for rank in range(ranks):
            expected = [one[rank * part : (rank + 1) * part] for one in data]
            assert (found[rank] == np.concatenate(expected)).all()


def test_the_order_of_sends_is_predicted_to_cost_two_thirds_more() -> None:
    """Of four ranks on a star: 5 parts on the last link against 3."""
    star, names = star_topology(4, 12.5e6, 0.0), ("same-first", "next-first")
    times_s = [simulate_packets(entrant("all-to-all", name, Group(4, 4), 2**22), star).makespan_s for name in names]
    assert times_s[0] / times_s[1] == pytest.approx(5 / 3, rel=0.02)


def test_a_scattered_ring_leaves_the_node_at_every_step() -> None:
    for group in (Group(4, 2), Group(8, 2), Group(6, 3)):
        order = group.scattered
        assert sorted(order) == list(range(group.ranks))
        nodes = [rank // group.node_ranks for rank in order]
        assert all(one != other for one, other in zip(nodes, nodes[1:] + nodes[:1], strict=True))
    assert "ring-scattered" not in usual_entrants("all-reduce", Group(4, 4))
    assert "ring-scattered" in usual_entrants("all-reduce", Group(4, 2))


def test_every_algorithm_of_every_collective_may_run() -> None:
    for op in ops():
        assert set(among_ranks(op)) <= set(entrants(op))
        assert set(usual_entrants(op, Group(4, 2))) <= set(entrants(op))
    with pytest.raises(UnknownName, match="did you mean ring"):
        entrant("all-reduce", "rnig", Group(4, 4), 4096)


def test_ties_are_found_on_straight_lines() -> None:
    sizes = [1.0, 10.0, 100.0]
    assert tie_B(sizes, [size - 40.0 for size in sizes]) == pytest.approx(40.0)
    assert tie_B(sizes, [3.0, 2.0, 1.0]) is None
    assert tie_B(sizes, [-1.0, 1.0, -1.0]) == pytest.approx(5.5)
    assert tie_B([1.0], [0.0]) is None
