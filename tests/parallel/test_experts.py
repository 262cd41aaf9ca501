"""Experts: routing laws, drops counted by hand, losses at balance, conservation, exchanges priced as simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.parallel.expert import (
    PLACEMENTS,
    Routing,
    assignments,
    balance_loss,
    capacities,
    capacity,
    exchange,
    experts,
    kept,
    loss_of,
    place,
    popularity,
    route,
)
from lockstep.simulate.play import simulate

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
links = st.builds(PlainLink, st.floats(0, 1e-4), st.floats(1e9, 1e11))
LINK = PlainLink(1e-6, 50e9)


def matrices(ranks: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    """Byte matrices with empty messages among them."""
    return st.tuples(ranks, st.integers(0, 2**31)).map(
        lambda given: np.random.default_rng(given[1]).integers(0, 5, (given[0], given[0])) * 1e5
    )


@EXAMPLES
@given(matrices(st.integers(1, 12)), links)
def test_flat_exchange_price_is_its_simulation(size_B: np.ndarray, link: PlainLink) -> None:
    program = exchange.program(exchange.flat(size_B, link))
    assert simulate(program).makespan_s == pytest.approx(exchange.time_s(exchange.flat(size_B, link)), rel=1e-12)
    assert (program.pair_B() == size_B * (1 - np.eye(len(size_B)))).all()


@EXAMPLES
@given(st.sampled_from([(1, 4), (2, 3), (3, 2), (4, 4), (5, 1)]), st.integers(0, 2**31), links, links)
def test_two_level_exchange_price_is_its_simulation(
    shape: tuple[int, int], seed: int, inner: PlainLink, outer: PlainLink
) -> None:
    nodes, local = shape
    size_B = np.random.default_rng(seed).integers(0, 5, (nodes * local,) * 2) * 1e5
    program = exchange.program(exchange.hierarchical(size_B, inner, outer, local))
    priced = exchange.time_s(exchange.hierarchical(size_B, inner, outer, local))
    assert simulate(program).makespan_s == pytest.approx(priced, rel=1e-12)
    # Every byte for another node crosses exactly once, between members of equal place.
    node = np.arange(nodes * local) // local
    crossing = node[:, np.newaxis] != node
    assert program.pair_B()[crossing].sum() == pytest.approx(size_B[crossing].sum())
    flat = exchange.flat(size_B, inner, outer, local)
    assert simulate(exchange.program(flat)).makespan_s == pytest.approx(exchange.time_s(flat), rel=1e-12)


@EXAMPLES
@given(st.integers(1, 16), st.floats(0, 1e9), links)
def test_equal_messages_cost_what_the_collective_costs(ranks: int, rank_B: float, link: PlainLink) -> None:
    even = np.full((ranks, ranks), rank_B / ranks)
    closed = float(get("all-to-all", "direct").price(ranks, rank_B, link).time_s)
    assert exchange.time_s(exchange.flat(even, link)) == pytest.approx(closed, rel=1e-12, abs=1e-300)


@EXAMPLES
@given(matrices(st.integers(2, 10)), links)
def test_no_exchange_beats_its_busiest_port(size_B: np.ndarray, link: PlainLink) -> None:
    crossing = size_B * (1 - np.eye(len(size_B)))
    busiest = max(crossing.sum(axis=0).max(), crossing.sum(axis=1).max())
    bound_s = (len(size_B) - 1) * link.latency_s + busiest / link.bandwidth_Bps
    assert exchange.time_s(exchange.flat(size_B, link)) >= bound_s * (1 - 1e-12)


def test_all_tokens_to_one_expert_fill_one_link() -> None:
    """(n - 1) d tokens arrive at one rank."""
    found = experts(8, 1, 8 * 1000, 8, PlainLink(0.0, 1e9), skew=50.0, noise=0.0, token_B=1e3)
    assert found.load.max == 8000
    assert found.most_received_B == 7 * 1000 * 1e3
    assert found.all_to_all_s == pytest.approx(7 * 1000 * 1e3 / 1e9)
    assert found.imbalance_slowdown == pytest.approx(8.0)
    assert found.balance_loss == pytest.approx(8.0)


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.2])
def test_first_choices_follow_zipf(skew: float) -> None:
    """Binomial deviations of every expert's load, five at most."""
    tokens, p = 40_000, popularity(16, skew)
    load = route(16, 1, tokens, skew=skew).load
    assert (np.abs(load - tokens * p) < 5 * np.sqrt(tokens * p * (1 - p))).all()


def test_more_choices_are_different_experts() -> None:
    choice = route(8, 3, 1000, skew=1.0).choice
    assert all(len(set(row)) == 3 for row in choice.tolist())
    # Plackett-Luce: the second choice given the first follows p without it.
    first = choice[choice[:, 0] == 0]
    p = popularity(8, 1.0)[1:] / popularity(8, 1.0)[1:].sum()
    found = np.bincount(first[:, 1], minlength=8)[1:] / len(first)
    assert np.abs(found - p).max() < 5 * np.sqrt(0.25 / len(first))


def test_temperature_flattens_and_no_noise_collapses() -> None:
    cv = [experts(16, 1, 20_000, 4, LINK, skew=1.0, temperature=t).load.cv for t in (0.5, 1.0, 4.0)]
    assert cv[0] > cv[1] > cv[2]
    assert set(map(tuple, route(16, 2, 50, skew=1.0, noise=0.0).choice.tolist())) == {(0, 1)}


def test_uniform_routing_is_not_balanced() -> None:
    """Largest load over the mean of 2048 tokens on 64 experts: multinomial, 1.44 and not 1."""
    found = [route(64, 1, 2048, seed=seed).load.max() / 32 for seed in range(40)]
    assert np.mean(found) == pytest.approx(1.44, abs=0.03)


@pytest.mark.parametrize(("factor", "percent", "within"), [(1.0, 7.0, 0.3), (1.25, 0.71, 0.15), (1.5, 0.02, 0.03)])
def test_drop_rates_of_uniform_routing(factor: float, percent: float, within: float) -> None:
    """2048 tokens of a rank, 64 experts, top-1: expected share above the capacity."""
    found = [experts(64, 1, 2048, 1, LINK, capacity_factor=factor, seed=s).dropped_frac for s in range(40)]
    assert 100 * np.mean(found) == pytest.approx(percent, abs=within)


@EXAMPLES
@given(st.integers(1, 12), st.data(), st.integers(1, 60), st.floats(0, 2), st.floats(0.3, 2.0))
def test_tokens_beyond_the_capacity_are_dropped(
    number: int, data: st.DataObject, tokens: int, skew: float, factor: float
) -> None:
    top_k = data.draw(st.integers(1, number))
    routing = route(number, top_k, tokens, skew=skew)
    most = capacity(tokens, top_k, number, factor)
    mask = kept(routing, most)
    assert mask.size - mask.sum() == np.maximum(routing.load - most, 0).sum()
    # One by one: first choices first, tokens in order.
    taken = np.zeros(number, dtype=int)
    for k in range(top_k):
        for token in range(tokens):
            expert = routing.choice[token, k]
            assert mask[token, k] == (taken[expert] < most)
            taken[expert] += 1


@EXAMPLES
@given(st.integers(1, 12), st.data(), st.integers(1, 7), st.integers(7, 60), st.floats(0, 2), st.floats(0.3, 2.0))
def test_every_rank_drops_of_its_own_tokens(
    number: int, data: st.DataObject, ranks: int, tokens: int, skew: float, factor: float
) -> None:
    """Rank by rank what a rank alone would drop; an expert takes what it takes of all of them."""
    top_k = data.draw(st.integers(1, number))
    routing = route(number, top_k, tokens, skew=skew)
    most = capacities(tokens, top_k, number, factor, ranks)
    alone = []
    for choice in np.array_split(routing.choice, ranks):
        limit = capacity(len(choice), top_k, number, factor)
        alone.append(kept(Routing(number, choice, routing.probability), limit))
    assert (kept(routing, most) == np.concatenate(alone)).all()
    found = experts(number * ranks, 1, tokens, ranks, LINK, skew=skew, capacity_factor=factor)
    assert found.capacity == capacities(tokens, 1, number * ranks, factor, ranks).sum()


def test_the_balance_loss_is_one_at_balance_and_larger_elsewhere() -> None:
    balanced = Routing(4, np.tile(np.arange(4), 5)[:, np.newaxis], np.full(4, 0.25))
    assert balance_loss(balanced) == 1.0


@EXAMPLES
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=10))
def test_the_balance_loss_of_equal_distributions_is_smallest_at_balance(weights: list[float]) -> None:
    p = np.array(weights) / np.sum(weights)
    assert loss_of(p, p) >= 1 - 1e-12
    assert loss_of(p, p) == pytest.approx(1 + len(p) * np.sum((p - 1 / len(p)) ** 2))
    # One of the two balanced is enough for exactly one: the loss is not a measure of imbalance.
    assert loss_of(p, np.full(len(p), 1 / len(p))) == pytest.approx(1.0)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_placements_fill_ranks_equally(name: str) -> None:
    load = np.random.default_rng(1).integers(0, 100, 24)
    assert np.bincount(place(name, load, 6)).tolist() == [4] * 6


def test_placement_by_load_helps() -> None:
    slow, fast = (experts(32, 2, 8192, 8, LINK, skew=0.8, placement=p) for p in ("contiguous", "balanced"))
    assert fast.rank_load.max < slow.rank_load.max
    assert fast.all_to_all_s < slow.all_to_all_s
    assert fast.load == slow.load


@EXAMPLES
@given(st.integers(1, 6), st.integers(1, 3), st.integers(6, 80), st.floats(0, 2))
def test_assignments_are_conserved(ranks: int, top_k: int, tokens: int, skew: float) -> None:
    found = experts(6 * ranks, top_k, tokens, ranks, LINK, skew=skew, capacity_factor=1.0, token_B=1.0)
    assert found.size_B.sum() == tokens * top_k - found.dropped
    shares = np.array([tokens // ranks + (i < tokens % ranks) for i in range(ranks)])
    assert (found.size_B.sum(axis=1) <= shares * top_k).all()
    free = experts(6 * ranks, top_k, tokens, ranks, LINK, skew=skew, token_B=1.0)
    assert (free.size_B.sum(axis=1) == shares * top_k).all()


def test_traffic_per_rank_is_flat_in_ranks_and_experts() -> None:
    """d k (n - 1) / n tokens leave a rank: 256 tokens each."""
    for ranks, leaving in ((8, 224.0), (64, 252.0)):
        found = experts(64, 1, 256 * ranks, ranks, LINK, token_B=1.0)
        assert found.sent_per_rank_B == pytest.approx(leaving, rel=0.03)


def test_shared_experts_add_the_same_work_everywhere() -> None:
    plain, shared = (experts(16, 2, 4096, 4, LINK, skew=1.0, shared=s) for s in (0, 2))
    mean = plain.rank_load.mean
    assert shared.compute_slowdown == pytest.approx((2 * 1024 + plain.rank_load.max) / (2 * 1024 + mean))
    assert shared.all_to_all_s == plain.all_to_all_s


def test_hierarchical_wins_on_a_slow_network_with_latency() -> None:
    outer = PlainLink(20e-6, 10e9)
    found = experts(64, 2, 64 * 16, 64, PlainLink(1e-6, 300e9), outer=outer, node_ranks=8, token_B=512.0)
    assert found.hierarchical_s is not None
    assert found.hierarchical_s < found.all_to_all_s
    crossing = assignments(np.zeros((4, 1), dtype=int), np.ones((4, 1), dtype=bool), 2)
    assert crossing.tolist() == [[2, 0], [2, 0]]


@pytest.mark.parametrize(
    "arguments",
    [
        {"experts": 0},
        {"top_k": 9},
        {"top_k": 0},
        {"tokens": 0},
        {"tokens": 3},
        {"ranks": 3},
        {"ranks": 0},
        {"skew": -1.0},
        {"noise": -1.0},
        {"temperature": 0.0},
        {"capacity_factor": 0.0},
        {"placement": "random"},
        {"shared": -1},
        {"node_ranks": 3, "outer": LINK},
        {"token_B": -1.0},
    ],
)
def test_invalid_routing_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        experts(**{"experts": 8, "top_k": 2, "tokens": 64, "ranks": 4, "link": LINK, **arguments})


def test_an_answer_names_its_links_and_the_cost_of_imbalance() -> None:
    found = experts(8, 2, 4096, 8, LINK, skew=0.8, token_B=4096.0, node_ranks=4, outer=PlainLink(5e-6, 10e9))
    told = " ".join(found.to_dict()["assumptions"])
    for part in ("4 to a node", "1 us and 50 GB/s inside a node", "5 us and 10 GB/s between nodes", "4 KiB"):
        assert part in told
    balanced_s = 4 * found.balanced_all_to_all_s
    assert found.to_dict()["imbalance_comm_s"] == pytest.approx(found.layer_all_to_all_s - balanced_s)
    assert found.imbalance_comm_s > 0


def test_an_infinite_capacity_is_refused() -> None:
    for factor in (1e308, float("inf"), float("nan"), 0.0, -1.0):
        with pytest.raises(BadInput, match="capacity factor must be above 0"):
            capacity(4096, 2, 8, factor)


def test_a_token_has_4096_elements_of_two_bytes_by_default() -> None:
    asked = {"experts": 8, "top_k": 2, "tokens": 1024, "ranks": 8, "link": LINK}
    usual, said, wide = experts(**asked), experts(**asked, token_B=8192.0), experts(**asked, token_B=16384.0)
    assert usual.to_dict() == said.to_dict() != wide.to_dict()
