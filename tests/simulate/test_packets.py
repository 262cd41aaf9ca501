"""Packets in FIFO queues: closed forms of one message, of rings, of incast; agreement with the postal engine."""

import math
from itertools import permutations

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.play import (
    FifoLink,
    FifoLinks,
    Protocol,
    flat_topology,
    simulate,
    simulate_packets,
    star_topology,
    uplinks_topology,
)
from lockstep.simulate.program import Kind, Program, ProgramBuilder

RATE_BPS, DELAY_S = 12.5e6, 5e-3
PURE = Protocol(header_B=0.0, notice_B=0.0, payload_B=1000.0)


def one_message(size_B: float, send_after_s: float = 0.0, recv_after_s: float = 0.0) -> Program:
    builder = ProgramBuilder(2)
    builder.send(0, 1, size_B, after=builder.compute(0, send_after_s))
    builder.recv(1, 0, size_B, after=builder.compute(1, recv_after_s))
    return builder.build()


def end_of(program: Program, kind: Kind, topology=None, protocol: Protocol = PURE) -> float:
    timeline = simulate_packets(program, topology or flat_topology(2, RATE_BPS, DELAY_S), protocol)
    return float(timeline.end_s[program.kind == kind].max())


def all_to_all(ranks: int, size_B: float, first: str) -> Program:
    """Everyone to everyone, receives posted at once; `first` is "same" (rank 0 first for all) or "own" (the next)."""
    builder = ProgramBuilder(ranks, ["send", *(f"recv {rank}" for rank in range(ranks))])
    for rank in range(ranks):
        order = range(ranks) if first == "same" else [(rank + step) % ranks for step in range(1, ranks)]
        for peer in order:
            if peer != rank:
                builder.send(rank, peer, size_B, stream="send")
    for rank, peer in permutations(range(ranks), 2):
        builder.recv(rank, peer, size_B, stream=f"recv {peer}")
    return builder.build()


@pytest.mark.parametrize("messages", [1, 2, 5])
def test_a_rank_posts_one_message_after_another(messages: int) -> None:
    """The last notice leaves after all postings; the sends, each posted once the one before has left, keep its pace."""
    builder = ProgramBuilder(2, ["send", *(f"recv {turn}" for turn in range(messages))])
    for turn in range(messages):
        builder.send(0, 1, 0, stream="send")
        builder.recv(1, 0, 0, stream=f"recv {turn}")
    posting_s = 1e-3
    protocol = Protocol(header_B=0.0, notice_B=0.0, posting_s=posting_s)
    found_s = end_of(builder.build(), Kind.RECV, protocol=protocol)
    assert found_s == pytest.approx(2 * DELAY_S + messages * posting_s)


@pytest.mark.parametrize("size_B", [0, 1, 1000, 123_456])
def test_a_rendezvous_costs_two_latencies_and_an_early_receive_one(size_B: int) -> None:
    wire_s = size_B / RATE_BPS
    assert end_of(one_message(size_B), Kind.RECV) == pytest.approx(2 * DELAY_S + wire_s)
    assert end_of(one_message(size_B, send_after_s=1.0), Kind.RECV) == pytest.approx(1.0 + DELAY_S + wire_s)
    assert end_of(one_message(size_B, recv_after_s=1.0), Kind.RECV) == pytest.approx(1.0 + 2 * DELAY_S + wire_s)
    half = end_of(one_message(size_B, send_after_s=DELAY_S / 2), Kind.RECV)
    assert half == pytest.approx(2 * DELAY_S + wire_s), "the notice was still on its way"


def test_an_eager_message_does_not_wait_for_its_receiver() -> None:
    eager = Protocol(mode="eager", header_B=0.0, notice_B=0.0)
    wire_s = 1e5 / RATE_BPS
    assert end_of(one_message(1e5), Kind.RECV, protocol=eager) == pytest.approx(DELAY_S + wire_s)
    late = one_message(1e5, recv_after_s=1.0)
    assert end_of(late, Kind.RECV, protocol=eager) == pytest.approx(1.0)
    assert end_of(late, Kind.SEND, protocol=eager) == 0.0


def test_a_send_is_over_when_the_receiver_is_known_to_be_ready() -> None:
    assert end_of(one_message(1e5), Kind.SEND) == pytest.approx(DELAY_S)
    assert end_of(one_message(1e5, recv_after_s=1.0), Kind.SEND) == pytest.approx(1.0 + DELAY_S)


def test_headers_notices_and_overheads_add_up() -> None:
    protocol = Protocol(payload_B=1000, header_B=50, notice_B=100, notice_overhead_s=1e-3, message_overhead_s=2e-3)
    notice_s = DELAY_S + 150 / RATE_BPS + 1e-3
    data_s = DELAY_S + (2500 + 100 + 3 * 50) / RATE_BPS + 2e-3
    assert end_of(one_message(2500), Kind.RECV, protocol=protocol) == pytest.approx(notice_s + data_s)


@pytest.mark.parametrize("size_B", [1, 999, 1000, 123_456, 10**7])
def test_packets_carry_the_whole_message(size_B: int) -> None:
    protocol = Protocol(payload_B=1000, header_B=50, notice_B=100)
    packets_B = protocol.packets_B(size_B)
    assert math.fsum(packets_B) == pytest.approx(size_B + 100 + 50 * math.ceil((size_B + 100) / 1000))
    assert min(packets_B) > 0
    assert len(packets_B) <= 512


def test_all_packets_of_a_message_but_the_last_are_full() -> None:
    """1000 B of payload and 50 of header; beyond 512 packets each stands for as many as it takes."""
    protocol = Protocol(payload_B=1000.0, header_B=50.0, notice_B=100.0)
    assert protocol.packets_B(0.0) == [150.0]
    assert protocol.packets_B(900.0) == [1050.0]
    assert protocol.packets_B(901.0) == [1050.0, 51.0]
    assert protocol.packets_B(2400.0) == [1050.0, 1050.0, 550.0]
    many = protocol.packets_B(1024 * 1000.0 - 100.0)
    assert many == pytest.approx([2 * 1050.0] * 512)


def test_a_second_link_stores_one_packet_before_it_forwards() -> None:
    star = star_topology(2, RATE_BPS, DELAY_S)
    for size_B in (1000, 2500, 50_000):
        expected_s = 2 * DELAY_S + (size_B + 1000) / RATE_BPS
        assert end_of(one_message(size_B), Kind.RECV, star) == pytest.approx(expected_s)


@pytest.mark.parametrize("algorithm", ["ring", "rabenseifner", "recursive-doubling"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_private_links_give_the_postal_model(algorithm: str, ranks: int) -> None:
    """Eager with one alpha, rendezvous with two, against the engine that knows neither packets nor queues."""
    program = get("all-reduce", algorithm).program(ranks, 2.0**18, element_B=4)
    flat = flat_topology(ranks, RATE_BPS, DELAY_S)
    for mode, latencies in (("eager", 1), ("rendezvous", 2)):
        protocol = Protocol(mode=mode, header_B=0.0, notice_B=0.0, reduce_s_per_B=1e-10)
        postal = simulate(program, PlainLink(latencies * DELAY_S, RATE_BPS, 1e-10))
        assert simulate_packets(program, flat, protocol).makespan_s == pytest.approx(postal.makespan_s, rel=1e-12)


def test_the_send_order_determines_incast() -> None:
    """Four ranks, n bytes to each other: the last rank has everything after 5 n beta, or 3 n beta when they rotate."""
    size_B = 1e6
    star = star_topology(4, RATE_BPS, 0.0)
    packet_s = 4 * 1e6 / 512 / RATE_BPS
    for first, transfers in (("same", 5), ("own", 3)):
        makespan_s = simulate_packets(all_to_all(4, size_B, first), star, PURE).makespan_s
        assert makespan_s == pytest.approx(transfers * size_B / RATE_BPS, abs=packet_s)
    flat = flat_topology(4, RATE_BPS, 0.0)
    for first in ("same", "own"):
        assert simulate_packets(all_to_all(4, size_B, first), flat, PURE).makespan_s == pytest.approx(size_B / RATE_BPS)


def test_a_notice_does_not_queue_behind_the_data_of_its_own_rank() -> None:
    """Recursive doubling on 3 ranks: 1 gives to 0 (2 D + w), 0 swaps with 2 (2 D + w) and gives back (D + w).

    Were the notice of the swap behind the swap's own data, it would be one w more.
    """
    size_B = 1e6
    program = get("all-reduce", "recursive-doubling").program(3, size_B)
    found = simulate_packets(program, flat_topology(3, RATE_BPS, DELAY_S), PURE)
    assert found.makespan_s == pytest.approx(5 * DELAY_S + 3 * size_B / RATE_BPS)


def test_random_link_behaviour_is_not_simulated() -> None:
    program = get("all-reduce", "ring").program(3, 1e5, element_B=4)
    for make in (flat_topology, star_topology):
        plain = simulate_packets(program, make(3, RATE_BPS, DELAY_S))
        shaky = simulate_packets(program, make(3, RATE_BPS, DELAY_S, jitter_s=0.01, loss_frac=0.3))
        assert shaky.end_s.tolist() == plain.end_s.tolist()
        assert make(3, RATE_BPS, DELAY_S, loss_frac=0.3).is_random
        assert not make(3, RATE_BPS, DELAY_S).is_random


def test_a_bad_rank_order_crosses_slow_links_twice_as_often() -> None:
    """Two nodes of two: the ring 0-1-2-3 leaves each node once a round, 0-2-1-3 twice, over the same uplink."""
    topology = uplinks_topology([2, 2], RATE_BPS, 0.0, math.inf, 0.0)
    ring = get("all-reduce", "ring")
    good, bad = (
        simulate_packets(ring.program(4, 4e6, element_B=4, order=order), topology, PURE).makespan_s
        for order in ([0, 1, 2, 3], [0, 2, 1, 3])
    )
    assert good == pytest.approx(6 * 1e6 / RATE_BPS, rel=0.01)
    assert bad == pytest.approx(2 * good, rel=0.01)


def test_barriers_and_computing_are_as_in_the_other_engines() -> None:
    builder = ProgramBuilder(3)
    for rank in range(3):
        builder.compute(rank, float(rank))
    last = [2] * 3
    builder.barrier(after=[0, 1, 2])
    for rank in range(3):
        builder.compute(rank, 1.0, after=3 + rank)
    program = builder.build()
    timeline = simulate_packets(program, flat_topology(3, RATE_BPS, 0.0))
    assert timeline.end_s.tolist() == simulate(program).end_s.tolist()
    assert timeline.start_s.tolist() == simulate(program).start_s.tolist()
    assert timeline.start_s[3:6].tolist() == last


def test_the_same_bytes_every_time() -> None:
    program = get("all-reduce", "direct").program(5, 1e5, element_B=4)
    star = star_topology(5, RATE_BPS, DELAY_S)
    first, second = (simulate_packets(program, star) for _ in range(2))
    assert first.end_s.tobytes() == second.end_s.tobytes()
    assert not np.isnan(first.end_s).any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: simulate_packets(one_message(1.0), flat_topology(1, 1.0, 0.0)), "at least 2 hosts"),
        (lambda: simulate_packets(all_to_all(4, 1.0, "own"), flat_topology(3, 1.0, 0.0)), "only 3 hosts"),
        (lambda: Protocol(mode="egaer"), "eager"),
        (lambda: Protocol(notice_overhead_s=-1.0), "notice_overhead_s"),
        (lambda: FifoLink("x", 0.0, 0.0), "rate_Bps"),
        (lambda: FifoLink("x", 1.0, -1.0), "delay_s"),
        (lambda: FifoLink("x", 1.0, 0.0, loss_frac=1.0), "loss_frac"),
        (lambda: FifoLink("x", 1.0, 0.0, queue_B=0.0), "queue_B"),
    ],
)
def test_invalid_topologies_and_protocols_are_refused(make, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        make()


def test_unexpanded_collectives_and_fixed_durations_are_refused() -> None:
    builder = ProgramBuilder(2)
    builder.collective([0, 1], "all-reduce", 1.0)
    with pytest.raises(BadInput, match="expand"):
        simulate_packets(builder.build(), flat_topology(2, 1.0, 0.0))
    builder = ProgramBuilder(2)
    builder.message(0, 1, 1.0, duration_s=1.0)
    with pytest.raises(BadInput, match="duration_s"):
        simulate_packets(builder.build(), flat_topology(2, 1.0, 0.0))


# The links alone.


def arrivals(links: FifoLinks) -> list[tuple[float, object]]:
    return list(links.advance(math.inf))


def test_a_link_serves_in_order_and_counts() -> None:
    links = FifoLinks([FifoLink("x", 100.0, 1.0)])
    for number, at in enumerate((0.0, 0.1, 5.0)):
        links.enter(number, 50.0, (0,), at)
    assert links.next_at == 1.5
    assert arrivals(links) == [(1.5, 0), (2.0, 1), (6.5, 2)]
    assert (links.counts[0].packets, links.counts[0].size_B) == (3, 150.0)
    assert links.next_at == math.inf


def test_a_full_queue_drops_the_newest() -> None:
    links = FifoLinks([FifoLink("x", 100.0, 0.0, queue_B=100.0)])
    for number in range(4):
        links.enter(number, 50.0, (0,), 0.0)
    links.enter(4, 50.0, (0,), 0.5)
    assert [packet for _, packet in arrivals(links)] == [0, 1, 4]
    assert (links.counts[0].dropped, links.counts[0].packets) == (2, 3)


def test_jitter_never_reorders_and_stays_below_its_bound() -> None:
    links = FifoLinks([FifoLink("x", math.inf, 1.0, jitter_s=0.5)], seed=3)
    for number in range(200):
        links.enter(number, 1.0, (0,), number / 100)
    found = arrivals(links)
    assert [packet for _, packet in found] == list(range(200))
    late_s = np.array([at - 1.0 - packet / 100 for at, packet in found])
    assert late_s.min() >= 0
    assert late_s.max() <= 0.5
    assert 0.2 < late_s.mean() < 0.5


def test_loss_takes_its_share_and_is_the_same_for_a_seed() -> None:
    def survivors(seed: int) -> list[object]:
        links = FifoLinks([FifoLink("x", math.inf, 0.0, loss_frac=0.2)], seed)
        for number in range(5000):
            links.enter(number, 1.0, (0,), 0.0)
        found = [packet for _, packet in arrivals(links)]
        assert len(found) + links.counts[0].lost == 5000
        return found

    assert survivors(1) == survivors(1) != survivors(2)
    # 5 standard deviations of a binomial with 5000 and 0.2.
    assert abs(len(survivors(1)) - 4000) < 5 * math.sqrt(5000 * 0.2 * 0.8)


def test_topologies_list_the_links_of_a_path() -> None:
    flat, star = flat_topology(3, 10.0, 4.0), star_topology(3, 10.0, 4.0)
    assert (len(flat.links), len(star.links)) == (6, 6)
    for topology, hops in ((flat, 1), (star, 2)):
        assert topology.hosts == 3
        for a, b in permutations(range(3), 2):
            assert (len(topology.path(a, b)), topology.delay_s(a, b), topology.rate_Bps(a, b)) == (hops, 4.0, 10.0)
        assert topology.path(1, 1) == []
    nodes = uplinks_topology([2, 1], 10.0, 4.0, 100.0, 1.0)
    assert [link.name for link in nodes.path(0, 1)] == ["0 -> 1"]
    assert [link.name for link in nodes.path(1, 2)] == ["node 0 up", "node 1 down"]
    assert (nodes.delay_s(0, 1), nodes.rate_Bps(0, 1), nodes.rate_Bps(2, 0)) == (1.0, 100.0, 10.0)
