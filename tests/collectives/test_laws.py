"""Laws between algorithms, and golden values that were worked out by hand from the papers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given

from effort import share
from lockstep import collectives
from lockstep.base.errors import BadInput, UnknownName
from lockstep.simulate.collectives import Cost, PlainLink, Terms, algorithms, best, best_time_s, get
from lockstep.simulate.collectives.all_reduce.hierarchical import INNER
from lockstep.simulate.collectives.bounds import lower_bound_s, lower_bound_terms
from lockstep.simulate.collectives.cost import Counts
from lockstep.simulate.collectives.gossip.ring import contraction, rounds_to_agree
from lockstep.simulate.collectives.shares import ceil_log2, floor_log2, square_divisor, sum_min_powers
from lockstep.simulate.program import contributions, execute

from .conformance import ELEMENT_B, elements, links, quick, ranks_up_to_64, simulated_s

NANOSECOND_FREE = PlainLink(0.0, 12.5e9)


def ms(op: str, algorithm: str, ranks: int, size_B: float, link: PlainLink) -> float:
    return float(get(op, algorithm).price_time_s(ranks, size_B, link)) * 1e3


def test_golden_ring_times() -> None:
    assert ms("all-reduce", "ring", 256, 100e6, NANOSECOND_FREE) == pytest.approx(15.9375, rel=1e-12)
    assert ms("all-reduce", "ring", 8, 200e6, NANOSECOND_FREE) == pytest.approx(28.0, rel=1e-12)
    for ranks, expected in ((8, 7.0), (32, 7.75), (128, 7.9375)):
        assert ms("all-reduce", "ring", ranks, 100e6, PlainLink(0.0, 25e9)) == pytest.approx(expected, rel=1e-12)
    assert ms("all-reduce", "ring", 1000, 0.0, PlainLink(10e-6, 25e9)) == pytest.approx(19.98, rel=1e-12)


def test_golden_ring_tree_halving_at_256_ranks() -> None:
    link = PlainLink(10e-6, 50e9)
    table = {
        1e6: (5.140, 0.480, 0.200),
        1e7: (5.498, 3.360, 0.558),
        1e8: (9.084, 32.16, 4.144),
        5e8: (25.02, 160.2, 20.08),
    }
    for size_B, (ring, tree, halving) in table.items():
        assert ms("all-reduce", "ring", 256, size_B, link) == pytest.approx(ring, rel=1e-3)
        assert ms("all-reduce", "tree", 256, size_B, link) == pytest.approx(tree, rel=1e-3)
        assert ms("all-reduce", "rabenseifner", 256, size_B, link) == pytest.approx(halving, rel=1e-3)


@pytest.mark.parametrize("ranks", [2, 4, 8, 64, 1024])
def test_textbook_forms_at_powers_of_two(ranks: int) -> None:
    alpha, beta, gamma, size_B = 3e-6, 1 / 2e10, 1e-11, 7e6
    link, rounds, rest = PlainLink(alpha, 1 / beta, gamma), math.log2(ranks), (ranks - 1) / ranks * size_B
    expected = {
        ("all-reduce", "recursive-doubling"): rounds * (alpha + size_B * (beta + gamma)),
        ("all-reduce", "rabenseifner"): 2 * rounds * alpha + rest * (2 * beta + gamma),
        ("all-reduce", "ring"): 2 * (ranks - 1) * alpha + rest * (2 * beta + gamma),
        ("all-reduce", "tree"): 2 * rounds * (alpha + size_B * beta) + rounds * size_B * gamma,
        ("all-gather", "bruck"): rounds * alpha + rest * beta,
        ("all-gather", "recursive-doubling"): rounds * alpha + rest * beta,
        ("reduce-scatter", "recursive-halving"): rounds * alpha + rest * (beta + gamma),
        ("broadcast", "binomial"): rounds * (alpha + size_B * beta),
        ("all-to-all", "bruck"): rounds * (alpha + size_B / 2 * beta),
        ("all-to-all", "direct"): (ranks - 1) * alpha + rest * beta,
    }
    for (op, name), time_s in expected.items():
        assert get(op, name).price_time_s(ranks, size_B, link) == pytest.approx(time_s, rel=1e-12)


@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_all_reduce_is_reduce_scatter_then_all_gather(ranks: int, elems: int, link: PlainLink) -> None:
    size_B = elems * ELEMENT_B
    for name in ("ring", "direct"):
        parts = [get(op, name).price(ranks, size_B, link, ELEMENT_B) for op in ("reduce-scatter", "all-gather")]
        whole = get("all-reduce", name).price(ranks, size_B, link, ELEMENT_B)
        together = parts[0] + parts[1]
        starts_s = link.start_s if ranks > 1 else 0.0
        assert together.time_s == pytest.approx(whole.time_s + starts_s, rel=1e-12, abs=0)
        for key in ("latency_steps", "critical_B", "messages", "total_B", "total_reduced_B"):
            assert getattr(together, key) == pytest.approx(getattr(whole, key), rel=1e-12, abs=0)


@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_a_hierarchy_of_one_node_equals_the_flat_algorithm(ranks: int, elems: int, link: PlainLink) -> None:
    size_B = elems * ELEMENT_B
    flat = get("all-reduce", "ring").price_time_s(ranks, size_B, link, ELEMENT_B)
    hierarchical = get("all-reduce", "hierarchical")
    for levels in ((ranks,), (1,), (1, ranks), (ranks, 1)):
        one = hierarchical.price_time_s(ranks, size_B, link, ELEMENT_B, levels=levels)
        assert one == pytest.approx(flat, rel=1e-12)
    flat = get("all-to-all", "direct").price_time_s(ranks, size_B, link, ELEMENT_B)
    for node_ranks in (1, ranks):
        one = get("all-to-all", "hierarchical").price_time_s(ranks, size_B, link, ELEMENT_B, node_ranks=node_ranks)
        assert one == pytest.approx(flat, rel=1e-12)


CHOICES = list(
    itertools.product(
        INNER,
        [
            name
            for name in algorithms("all-reduce")
            if not (get("all-reduce", name).ports > 1 or get("all-reduce", name).in_switch)
        ],
    )
)
SHAPES = ((12, (4,)), (18, (3, 2)), (15, (5,)), (24, (2, 3)))
"""Ranks and levels; two and three of them in turn."""


@pytest.mark.parametrize(
    ("inner", "outer", "ranks", "levels"),
    [(*choice, *shape) for i, choice in enumerate(CHOICES) for shape in share(SHAPES, 4, i)],
)
def test_every_inner_and_outer_choice_of_two_and_three_levels(
    inner: str, outer: str, ranks: int, levels: tuple[int, ...]
) -> None:
    hierarchical, link = get("all-reduce", "hierarchical"), PlainLink(2e-6, 1e10, 3e-11)
    choices = {"levels": levels, "inner": inner, "outer": outer}
    for elems in (1, 7, 101):
        price = hierarchical.price(ranks, 4.0 * elems, link, 4.0, **choices)
        program = hierarchical.program(ranks, 4.0 * elems, link, 4.0, **choices)
        assert simulated_s(program, link) == pytest.approx(price.time_s, rel=1e-12)
        assert program.num_messages == price.messages
        assert program.sent_B().sum() == pytest.approx(price.total_B, rel=1e-12)
        for result in execute(program, {"data": contributions(ranks, elems)})["data"]:
            assert (result == 1).all()


@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_best_number_of_segments_beats_every_other(ranks: int, elems: int, link: PlainLink) -> None:
    for name, element_B in itertools.product(("pipelined-tree", "double-binary-tree"), (0.0, ELEMENT_B)):
        tree = get("all-reduce", name)
        size_B = elems * ELEMENT_B
        best_s = tree.price_time_s(ranks, size_B, link, element_B)
        assert best_s <= tree.price_time_s(ranks, size_B, link, element_B, segments=1) * (1 + 1e-12)
        if element_B == 0.0:
            every = tree.price_time_s(ranks, size_B, link, segments=np.arange(1.0, 4097.0))
            assert best_s == pytest.approx(every.min(), rel=1e-12)


@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_algorithms_that_best_skips_are_never_faster(ranks: int, elems: int, link: PlainLink) -> None:
    for op in collectives.ops():
        for name in collectives.algorithms(op):
            algorithm = get(op, name)
            if algorithm.dominated_by:
                for element_B in (0.0, ELEMENT_B):
                    other = get(op, algorithm.dominated_by).price_time_s(ranks, elems * ELEMENT_B, link, element_B)
                    mine = algorithm.price_time_s(ranks, elems * ELEMENT_B, link, element_B)
                    assert mine >= other * (1 - 1e-12), (op, name)


def test_best_is_the_elementwise_minimum() -> None:
    link = PlainLink(1e-6, 1e10)
    ranks, sizes = np.array([1.0, 2.0, 3.0, 8.0, 100.0])[:, None], np.array([10.0, 1e5, 1e9])[None, :]
    for op in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce"):
        every = [get(op, name) for name in collectives.algorithms(op)]
        one_port = [a for a in every if a.ports == 1 and not a.in_switch]
        times = np.stack([np.broadcast_to(a.price_time_s(ranks, sizes, link), (5, 3)) for a in one_port])
        cost = best(op, ranks, sizes, link)
        np.testing.assert_allclose(cost.time_s, times.min(axis=0), rtol=1e-12)
        np.testing.assert_allclose(best_time_s(op, ranks, sizes, link), times.min(axis=0), rtol=1e-12)
        for i, j in np.ndindex(5, 3):
            named = get(op, str(cost.algorithm[i, j])).price(ranks[i, 0], sizes[0, j], link)
            assert named.time_s == cost.time_s[i, j]
            assert named.messages == cost.messages[i, j]


def test_only_bandwidth_optimal_algorithms_meet_the_bound_without_latency() -> None:
    link, size_B = PlainLink(0.0, 1e9), 840.0
    for name in ("ring", "direct", "rabenseifner", "torus-2d", "hierarchical"):
        cost = get("all-reduce", name).price(8, size_B, link)
        assert cost.time_s == pytest.approx(cost.lower_bound_s, rel=1e-12)
        assert cost.bytes_sent_per_rank_B == pytest.approx(2 * 7 / 8 * size_B)
    assert get("all-reduce", "tree").price(8, size_B, link).time_s > 3 * cost.lower_bound_s


@pytest.mark.parametrize("op", ["all-reduce", "reduce-scatter", "reduce", "all-gather", "broadcast", "all-to-all"])
def test_only_reducing_collectives_pay_for_additions(op: str) -> None:
    """(n - 1) S bytes of n ranks, on links so fast that only additions take time."""
    link = PlainLink(0.0, 1e30, reduce_s_per_B=1e-9)
    sums = op in ("all-reduce", "reduce-scatter", "reduce")
    assert lower_bound_s(op, 8, 800.0, link) == pytest.approx(700e-9 if sums else 0.0, abs=1e-20)


def test_bidirectional_ring_halves_the_bytes_on_two_ports() -> None:
    link = PlainLink(0.0, 1e9)
    one, two = (get("all-reduce", name).price(9, 3600.0, link) for name in ("ring", "bidirectional-ring"))
    assert two.time_s == pytest.approx(one.time_s / 2)
    assert two.lower_bound_s == pytest.approx(one.lower_bound_s / 2)


def test_colocated_shards_cost_what_the_ring_costs() -> None:
    link = PlainLink(0.0, 1e9)
    for workers in (2, 4, 16):
        dedicated = get("parameter-server", "synchronous").price_time_s(workers, 1e6, link, shards=workers)
        ring = get("all-reduce", "ring").price_time_s(workers, 1e6, link)
        # Dedicated servers carry n shards of S/n each way, workers on the servers keep one of n at home.
        assert ring / dedicated == pytest.approx((workers - 1) / workers)


def test_ratio_of_parameter_server_to_ring() -> None:
    workers, shards, link = 256, 16, PlainLink(0.0, 1e9)
    server = get("parameter-server", "synchronous").price_time_s(workers, 1e9, link, shards=shards)
    ring = get("all-reduce", "ring").price_time_s(workers, 1e9, link)
    assert server / ring == pytest.approx(workers**2 / (shards * (workers - 1)), rel=1e-12)


@pytest.mark.parametrize("ranks", range(1, 20))
def test_gossip_contraction_is_the_second_eigenvalue(ranks: int) -> None:
    weights = np.eye(ranks)
    for rank in range(ranks):
        for neighbour in {(rank + 1) % ranks, (rank - 1) % ranks} - {rank}:
            weights[rank, neighbour] = 1
    eigenvalues = np.sort(np.abs(np.linalg.eigvalsh(weights / weights.sum(axis=1)[0])))
    second = eigenvalues[-2] if ranks > 1 else 0.0
    assert contraction(ranks) == pytest.approx(second, abs=1e-12)
    rounds = int(rounds_to_agree(ranks, 1e-3))
    assert second**rounds <= 1e-3 * (1 + 1e-9) or ranks == 1
    assert rounds <= 1 or second ** (rounds - 1) > 1e-3


@pytest.mark.parametrize("ranks", [2, 3, 8, 1000])
def test_bus_bandwidth_is_that_of_nccl_tests(ranks: int) -> None:
    """doc/PERFORMANCE.md of nccl-tests: factors 2(n-1)/n, (n-1)/n and 1; a full ring then shows the link's rate."""
    own_share = ("all-gather", "reduce-scatter", "all-to-all", "scatter", "gather")
    factors = {"all-reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "reduce": 1.0}
    factors |= dict.fromkeys(own_share, (ranks - 1) / ranks)
    for op, factor in factors.items():
        assert collectives.bus_bandwidth_Bps(op, ranks, 8e9, 2.0) == pytest.approx(4e9 * factor, rel=1e-12)
    for op in ("all-reduce", "all-gather", "reduce-scatter"):
        time_s = get(op, "ring").price_time_s(ranks, 1e9, NANOSECOND_FREE)
        rate = collectives.bus_bandwidth_Bps(op, ranks, 1e9, time_s)
        assert rate == pytest.approx(NANOSECOND_FREE.bandwidth_Bps, rel=1e-12)


def test_logarithms_of_powers_are_exact_integers() -> None:
    counts = np.arange(1, 5000)
    np.testing.assert_array_equal(floor_log2(counts), [n.bit_length() - 1 for n in counts.tolist()])
    np.testing.assert_array_equal(ceil_log2(counts), [(n - 1).bit_length() for n in counts.tolist()])
    for n in range(1, 200):
        assert square_divisor(n) == max(d for d in range(1, n + 1) if n % d == 0 and d * d <= n)
        for cap in range(9):
            assert sum_min_powers(n % 9, cap) == sum(min(2**s, cap) for s in range(n % 9))


@pytest.mark.parametrize("ports", [1, 2, 3])
def test_latency_bound_is_the_exact_logarithm(ports: int) -> None:
    for ranks in range(1, 800):
        reached, steps = 1, 0
        while reached < ranks:
            reached, steps = reached * (1 + ports), steps + 1
        assert lower_bound_terms("broadcast", ranks, 1.0, ports).steps == steps


def test_costs_and_terms_add_up() -> None:
    link = PlainLink(1e-6, 1e9)
    ring = get("all-reduce", "ring").price(4, 100.0, link)
    total = ring + Cost()
    assert total == ring
    assert (ring + ring).time_s == 2 * ring.time_s
    assert (ring + ring).algorithm == "ring + ring"
    assert Terms(1, 2, 3) + Terms(1, 1, 1) == Terms(2, 3, 4)
    assert ring.to_dict()["algorithm"] == "ring"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((0, 1.0, PlainLink(0, 1)), "ranks"),
        ((2.5, 1.0, PlainLink(0, 1)), "ranks"),
        ((2, -1.0, PlainLink(0, 1)), "size_B"),
        ((2, math.nan, PlainLink(0, 1)), "size_B"),
        ((2, 1.0, PlainLink(-1, 1)), "latency_s"),
        ((2, 1.0, PlainLink(0, 0.0)), "bandwidth_Bps"),
        ((2, 1.0, PlainLink(0, math.inf)), "bandwidth_Bps"),
        ((2, 1.0, PlainLink(0, 1, -1.0)), "reduce_s_per_B"),
    ],
)
def test_invalid_arguments_are_refused_at_their_name(arguments: tuple[float, float, PlainLink], word: str) -> None:
    with pytest.raises(BadInput) as caught:
        get("all-reduce", "ring").price(*arguments)
    assert caught.value.where == word


def test_refusals_of_invalid_choices_list_the_valid_ones() -> None:
    link = PlainLink(1e-6, 1e9)
    with pytest.raises(UnknownName, match="did you mean rabenseifner"):
        get("all-reduce", "rabenseifer")
    with pytest.raises(UnknownName, match="did you mean all-reduce"):
        get("allreduce", "ring")
    with pytest.raises(UnknownName, match="choice"):
        get("all-reduce", "ring").price(4, 1.0, link, segments=3)
    with pytest.raises(BadInput, match="try one of 1, 2, 3, 4, 6, 12"):
        get("all-reduce", "hierarchical").price(12, 1.0, link, levels=(5,))
    with pytest.raises(UnknownName, match="inner algorithm"):
        get("all-reduce", "hierarchical").price(12, 1.0, link, levels=(3,), inner="tree")
    with pytest.raises(BadInput, match="two ports"):
        get("all-reduce", "hierarchical").price(12, 1.0, link, levels=(3,), outer="bidirectional-ring")
    with pytest.raises(BadInput, match="whole number of"):
        get("all-reduce", "ring").program(4, 10.0, element_B=4.0)
    with pytest.raises(BadInput, match="shards"):
        get("parameter-server", "synchronous").price(4, 1.0, link, shards=5)


def test_counts_of_concurrent_groups_are_multiples_of_one_group() -> None:
    one = Counts(3, 10.0, 7.0)
    assert one.times(1) == one
    assert one.times(2) == one + one
    assert one.times(4) == Counts(12, 40.0, 28.0)
    assert one.times(0) == Counts(0, 0.0, 0.0)


@pytest.mark.parametrize(("workers", "shards"), [(1, 1), (4, 1), (3, 2), (5, 5)])
def test_a_parameter_server_transfers_the_buffer_of_every_worker_in_both_directions(workers: int, shards: int) -> None:
    """600 bytes on each server; every worker sends and receives all of them, and every push is added."""
    algorithm, link, size_B = get("parameter-server", "synchronous"), PlainLink(1.0, 1.0, 1.0), 600.0 * shards
    price = algorithm.price(workers, size_B, link, shards=shards)
    assert (price.messages, price.total_B, price.total_reduced_B) == (
        workers * shards * 2, workers * size_B * 2, workers * size_B,
    )  # fmt: skip
    assert (price.latency_steps, price.critical_B) == (2 * workers, 2 * workers * 600.0)
    assert (price.critical_reduced_B, price.time_s) == (workers * 600.0, workers * (2 + 3 * 600.0))
    program = algorithm.program(workers, size_B, link, shards=shards)
    assert program.num_messages == price.messages
    assert program.sent_B().sum() == price.total_B
