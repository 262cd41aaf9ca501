"""Parts of a race without a rig: packets, common starts, how long it will take, where lines meet."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.run.rig import worker
from lockstep.run.rig.calibration import _huber, _least_squares, partners, slowed, trials
from lockstep.run.rig.experiment import expected_s, margin_s, protocol
from lockstep.run.rig.result import crossings, tie_B
from lockstep.simulate.play import flat_topology, simulate_packets, star_topology, uplinks_topology


@pytest.mark.parametrize("mtu_B", [1500, 9000])
def test_a_packet_has_headers_of_ip_tcp_and_timestamps(mtu_B: int) -> None:
    made = protocol(mtu_B)
    assert made.payload_B + made.header_B == mtu_B
    assert made.header_B == 20 + 20 + 12


@pytest.mark.parametrize(("ranks", "levels"), [(2, 1), (3, 2), (4, 2), (5, 3), (16, 4)])
def test_a_common_start_is_agreed_over_a_tree(ranks: int, levels: int) -> None:
    """A tree of so many levels and one more, each way once, and 20 ms that a busy machine may add."""
    topology = star_topology(ranks, 12.5e6, 5e-3)
    assert margin_s(topology, ranks) == pytest.approx(0.02 + 2 * (levels + 1) * topology.delay_s(0, 1))


@pytest.mark.parametrize(("repeats", "tries"), [(1, 5), (5, 5), (9, 9)])
def test_the_forecast_of_a_race_counts_programs_and_at_least_five_calibrations(repeats: int, tries: int) -> None:
    topology = star_topology(4, 12.5e6, 5e-3)
    around_s = 2 * margin_s(topology, 4)
    known = [simulate_packets(trial.program, topology).makespan_s + around_s for trial in trials(topology, 4)]
    (program,) = [trial.program for trial in trials(topology, 4)][:1]
    once_s = simulate_packets(program, topology).makespan_s + around_s
    for warm_up in (0, 2):
        found_s = expected_s(topology, 4, [program], repeats, warm_up)
        assert found_s == pytest.approx((tries + warm_up) * sum(known) + (repeats + warm_up) * once_s)


def lap(algorithm: str, size_B: int, predicted_s: float, measured_s: float) -> Any:
    return SimpleNamespace(algorithm=algorithm, size_B=size_B, predicted_s=predicted_s, measured_s=measured_s)


@pytest.mark.parametrize(
    ("leads_s", "tie"),
    [((-1, 1), 15), ((-1, 3), 12.5), ((3, -1), 17.5), ((1, 1), None), ((0, 1), None), ((-1, 0), None)],
)
def test_a_tie_is_interpolated_between_sizes_of_different_sign(leads_s: tuple[float, float], tie: float | None) -> None:
    assert tie_B([10, 20], leads_s) == tie
    assert tie_B([5, 10, 20, 40], [leads_s[0], *leads_s, -leads_s[1]]) == (tie or (30 if leads_s[1] else None))


def test_algorithms_within_half_a_percent_do_not_cross() -> None:
    """Predictions cross at 15; measurements too, which is noise where the predictions are equal."""
    for apart, found in ((0.004, 0), (0.006, 1)):
        laps = [
            lap("a", 10, 1.0, 1.0),
            lap("a", 20, 1.0, 1.1),
            lap("b", 10, 1 - apart, 1.1),
            lap("b", 20, 1 + apart, 1.0),
        ]
        ties = crossings(laps)
        assert len(ties) == found
        for tie in ties:
            assert (tie.first, tie.second) == ("a", "b")
            assert (tie.predicted_B, tie.measured_B) == (pytest.approx(15), pytest.approx(15))


def test_weights_of_outliers_fall_beyond_two_medians() -> None:
    """Of residuals with the median 1 all up to 2 weigh alike, those of 8 a quarter, by the square root of it."""
    assert _huber(np.array([0.5, -1.0, 1.0, -2.0, 8.0])).tolist() == pytest.approx([1, 1, 1, 1, 0.5])
    assert _huber(np.array([0.0, 0.0, 0.008])).tolist() == pytest.approx([1, 1, 0.5])


def test_no_overhead_is_below_zero_and_no_link_more_than_twice_as_fast() -> None:
    design = np.eye(4)
    assert _least_squares(design, np.array([1.0, 2.0, 3.0, -4.0])).tolist() == [1, 2, 3, -4]
    assert _least_squares(design, np.array([-1.0, 2.0, -3.0, 4.0])).tolist() == [0, 2, 0, 4]
    assert _least_squares(design, np.array([0.0, 0.0, 0.0, -90.0])).tolist() == [0, 0, 0, -50]


def test_partners_share_no_link_and_the_first_pair_has_the_longest_path() -> None:
    nodes = uplinks_topology([2, 2], 12.5e6, 5e-3, 125e6, 1e-4)
    (first,) = partners(nodes, 4)[:1]
    assert nodes.delay_s(*first) == max(nodes.delay_s(0, other) for other in range(1, 4))
    for topology, count in ((flat_topology(6, 1e6, 1e-3), 3), (star_topology(6, 1e6, 1e-3), 3), (nodes, 1)):
        ranks = 4 if topology is nodes else 6
        found = partners(topology, ranks)
        assert len(found) >= count
        links = [{*topology.paths[a][b], *topology.paths[b][a]} for a, b in found]
        assert sum(map(len, links)) == len(set.union(*links))
        assert len({rank for pair in found for rank in pair}) == 2 * len(found)


@pytest.mark.parametrize(("rate_Bps", "count"), [(12.5e6, 4), (1e6, 3), (262144 / 0.2, 3), (262145 / 0.2, 4), (1e4, 2)])
def test_slow_links_are_calibrated_on_short_messages_of_at_least_two_sizes(rate_Bps: float, count: int) -> None:
    found = trials(flat_topology(4, rate_Bps, 1e-3), 4)
    for pattern in ("exchange", "ping-pong"):
        sizes_B = [one.size_B for one in found if one.pattern == pattern]
        assert sizes_B == [4096, 32768, 131072, 262144][:count]
    assert [one.size_B for one in found if one.pattern == "burst"] == [512, 1024, 2048]


def test_slowed_links_change_only_their_rate() -> None:
    topology = star_topology(3, 1e6, 1e-3)
    half = slowed(topology, 0.5)
    assert [link.rate_Bps for link in half.links] == [link.rate_Bps / 2 for link in topology.links]
    assert slowed(half, 2.0) == topology


@pytest.mark.parametrize(("named_s", "slept_s"), [(107.5, 7.5), (99.0, 0.0)])
def test_ranks_sleep_until_the_start_chosen_by_rank_0(
    named_s: float, slept_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This rank's clock says 100 s when it hears it; a moment that has passed is no reason to sleep."""
    distributed = pytest.importorskip("torch.distributed")
    slept: list[float] = []
    monkeypatch.setattr(distributed, "barrier", lambda: None)
    monkeypatch.setattr(distributed, "broadcast", lambda moment, source: moment.fill_(named_s))
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: 100.0, sleep=slept.append))
    rank: Any = None
    worker._wait_for_common_start(rank, 2.0)
    assert slept == [slept_s]


@pytest.mark.parametrize(("repeats", "taken"), [(100, True), (101, False)])
def test_a_race_is_repeated_100_times_at_most(repeats: int, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.run.rig.expected_s", lambda *words: 1.0)
    topology: Any = None
    group: Any = SimpleNamespace(ranks=2)
    rig = import_module("lockstep.show.verbs.rig")
    if taken:
        assert rig._repeats(repeats, topology, group, []) == repeats
    else:
        with pytest.raises(BadInput, match="at most 100, got 101"):
            rig._repeats(repeats, topology, group, [])
