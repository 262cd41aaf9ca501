"""Routing that is not balanced: the busiest rank against drawn routers, and what it does to time and memory."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import share
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.kernels.layer import expert_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.layout import Job, Layout, Recipe, busiest_rank_frac, memory, natural_load
from lockstep.price.step import Clock, price_step
from lockstep.simulate.parallel.expert import route
from lockstep.simulate.parallel.expert.load import (
    Load,
    busiest_copies,
    busiest_frac,
    busiest_of,
    chosen_frac,
    copies_of,
)
from lockstep.simulate.parallel.expert.placed import placed_frac, popularities, spread_of
from lockstep.simulate.parallel.expert.routing import popularity
from lockstep.simulate.parallel.expert.spread import Choices, expected_units
from lockstep.simulate.parallel.expert.visited import visited_frac

CLUSTER = cluster("dgx-h100:4")
LAYOUT = Layout(dp=32, ep=8)


def job(routing: str = "balanced", **changes: object) -> Job:
    return Job(model("mixtral-8x7b"), Recipe(seq=4096, batch=128, routing=routing, **changes), 32)  # type: ignore[arg-type]


def drawn_busiest(choices: Choices, ranks: int, tokens: int, skew: float, times: int = 60) -> float:
    """Mean over seeds of the busiest rank's choices over the mean, by the router of `lockstep experts`."""
    found = []
    for seed in range(times):
        load = route(choices.experts, choices.top_k, tokens, skew=skew, seed=seed).load
        found.append(load.reshape(ranks, -1).sum(axis=1).max() * ranks / load.sum())
    return float(np.mean(found))


@pytest.mark.parametrize(("experts", "top_k", "ranks"), [(8, 2, 8), (64, 6, 8), (64, 6, 64), (256, 8, 32)])
@pytest.mark.parametrize("tokens", share([512, 4096], 2))
def test_natural_routing_is_that_of_drawn_tokens(experts: int, top_k: int, ranks: int, tokens: int) -> None:
    choices = Choices(experts, top_k)
    found, drawn = busiest_of(choices, ranks, tokens, 0.0), drawn_busiest(choices, ranks, tokens, 0.0)
    assert found - 1 == pytest.approx(drawn - 1, rel=0.2)


@pytest.mark.parametrize(("experts", "top_k", "ranks"), [(8, 2, 8), (64, 6, 8), (256, 8, 32)])
@pytest.mark.parametrize("skew", [0.3, 1.0])
def test_skewed_routing_is_that_of_drawn_tokens(experts: int, top_k: int, ranks: int, skew: float) -> None:
    choices = Choices(experts, top_k)
    found, drawn = busiest_of(choices, ranks, 4096, skew), drawn_busiest(choices, ranks, 4096, skew, 10)
    assert found == pytest.approx(drawn, rel=0.05)
    assert chosen_frac(experts, top_k, skew).sum() == pytest.approx(top_k, rel=1e-9)


def enumerated(choices: Choices, units: int, skew: float) -> np.ndarray:
    """Share of tokens with an expert on each unit, over all orders in which experts can be drawn."""
    rates, each = popularity(choices.experts, skew), choices.experts // units
    found = np.zeros(units)
    for order in permutations(range(choices.experts), choices.top_k):
        chance, left = 1.0, 1.0
        for expert in order:
            chance, left = chance * rates[expert] / left, left - rates[expert]
        found[list({expert // each for expert in order})] += chance
    return found


@pytest.mark.parametrize(
    ("experts", "top_k", "units"), [(6, 3, 3), (8, 2, 4), (6, 5, 2), (8, 3, 8), (6, 6, 2), (7, 4, 1)]
)
@pytest.mark.parametrize("skew", [0.0, 0.7, 5.0])
def test_visited_units_match_enumeration_of_all_orders(experts: int, top_k: int, units: int, skew: float) -> None:
    choices = Choices(experts, top_k)
    assert visited_frac(choices, units, skew) == pytest.approx(enumerated(choices, units, skew), rel=1e-10)


@given(st.sampled_from([(8, 2), (64, 6), (256, 8)]), st.sampled_from([1, 2, 8]), st.floats(0.0, 5.0))
def test_a_token_visits_as_many_experts_as_it_chooses(shape: tuple[int, int], units: int, skew: float) -> None:
    """Experts as units add up to k; fewer units are visited no more often, and skew gathers tokens."""
    choices = Choices(*shape)
    assert visited_frac(choices, choices.experts, skew).sum() == pytest.approx(choices.top_k, rel=1e-9)
    visited = visited_frac(choices, units, skew)
    assert np.all(visited <= 1.0 + 1e-9)
    assert visited.sum() <= expected_units(choices, units) * (1 + 1e-9)
    assert visited_frac(choices, units, 0.0).sum() == pytest.approx(expected_units(choices, units), rel=1e-9)


@pytest.mark.parametrize(("experts", "top_k", "units"), [(64, 6, 8), (256, 8, 4), (256, 8, 32)])
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.5])
def test_copies_on_the_busiest_unit_are_those_of_drawn_tokens(
    experts: int, top_k: int, units: int, skew: float
) -> None:
    found = []
    for seed in range(10):
        choice = route(experts, top_k, 2048, skew=skew, seed=seed).choice // (experts // units)
        found.append(max(np.count_nonzero((choice == unit).any(axis=1)) for unit in range(units)) * units / 2048)
    assert copies_of(Choices(experts, top_k), units, 2048, skew) == pytest.approx(float(np.mean(found)), rel=0.03)


def test_a_node_gets_no_token_twice_however_skewed() -> None:
    """All tokens may want the experts of one node: then it gets each once, where copies would get it all of them."""
    exchange_s = {
        (way, routing): float(price_step(job(routing, exchange=way), CLUSTER, LAYOUT.grid()).ep_comm_s)
        for way in ("copy", "node")
        for routing in ("balanced", "skew:5")
    }
    assert exchange_s["node", "skew:5"] > exchange_s["node", "balanced"]
    assert exchange_s["node", "skew:5"] < exchange_s["copy", "skew:5"]


def test_more_tokens_even_out_natural_routing_and_not_a_skew() -> None:
    choices = Choices(64, 6)
    natural, skewed = ([busiest_of(choices, 8, tokens, skew) - 1 for tokens in (1e3, 4e3, 1e12)] for skew in (0.0, 1.0))
    assert natural[0] / natural[1] == pytest.approx(2.0, rel=1e-3)
    assert natural[2] < 1e-4
    by_hand = chosen_frac(64, 6, 1.0)[:8].sum() * 8 / 6 - 1
    assert skewed[2] == pytest.approx(by_hand, rel=1e-3)


def test_one_rank_has_the_mean() -> None:
    assert busiest_frac(Choices(8, 2), np.array([1, 1]), np.array([10.0, 20.0]), Load(1.0)).tolist() == pytest.approx(
        [1, 1]
    )
    assert busiest_frac(Choices(8, 2), np.array([8]), 10.0, None) == 1.0


def test_forced_routing_is_balanced_routing() -> None:
    one, other = (price_step(job(how), CLUSTER, LAYOUT.grid()) for how in ("balanced", "forced"))
    assert one == other


def test_the_busiest_rank_computes_exchanges_and_keeps_more() -> None:
    """Products of routed experts, the exchange's bytes and kept rows grow by the same factor."""
    even, skewed = job(), job("skew:0.8")
    assert even.transformer
    assert even.transformer.experts
    tokens = 4096 * 8
    factor = busiest_of(Choices(8, 2), 8, tokens, 0.8)
    flops = []
    for one in (even, skewed):
        shard = Shard(model("mixtral-8x7b"), LAYOUT.grid(), one.recipe, Clock(CLUSTER.device, "bf16"))  # type: ignore[arg-type]
        flops.append(float(expert_work(shard).forward.flops))
    router = 2.0 * 4096 * 4096 * 8
    assert flops[1] - router == pytest.approx(factor * (flops[0] - router), rel=1e-9)
    link, passes = CLUSTER.link_per_device(0), 32 * 4 * 4
    latency_s = passes * (link.start_s + 7 * link.latency_s)
    moved = [float(price_step(one, CLUSTER, LAYOUT.grid()).ep_comm_s) - latency_s for one in (even, skewed)]
    assert moved[1] == pytest.approx(factor * moved[0], rel=1e-6)
    kept = [float(memory(one, CLUSTER, LAYOUT.grid()).activations_B) for one in (even, skewed)]
    # Of a Mixtral layer's kept bytes per token, the rows of two experts: input, and three times the inner width.
    rows_B = 32 * 4096 * 2 * (4096 + 3 * 14336) * 2.0
    assert kept[1] - kept[0] == pytest.approx((factor - 1) * rows_B, rel=1e-9)


def test_the_answer_states_the_assumed_routing() -> None:
    said = {how: " ".join(estimate(job(how), CLUSTER, LAYOUT).assumptions()) for how in ("balanced", "natural")}
    assert "experts are equally loaded" in said["balanced"]
    assert "routing natural: the busiest rank of experts has 1.09 times the mean" in said["natural"]
    assert "scattermoe" in said["natural"]
    assert "scattermoe" not in said["balanced"]
    adapted = job("balanced", train="lora:r=16")
    assert "--routing natural" in " ".join(estimate(adapted, CLUSTER, LAYOUT).assumptions())


@given(st.sampled_from([8, 60, 128, 256]), st.floats(0.01, 1.5))
def test_popularities_are_those_of_their_largest(experts: int, spread: float) -> None:
    popular = popularities(experts, spread)
    assert popular.mean() == pytest.approx(1.0)
    assert spread_of(experts, float(popular[-1])) == pytest.approx(spread, rel=1e-6)


def test_a_wide_law_has_the_spread_it_is_asked_for() -> None:
    assert popularities(100_000, 0.7).std() == pytest.approx(0.7, rel=1e-2)


@pytest.mark.parametrize("spread", [0.3, 1.1])
def test_two_experts_a_rank_have_the_mean_of_every_pairing(spread: float) -> None:
    """Eight experts on four ranks, all placements enumerated."""
    popular = popularities(8, spread)
    every = [max(popular[list(one)].reshape(4, 2).mean(axis=1)) for one in permutations(range(8))]
    assert placed_frac(8, 4, spread) == pytest.approx(float(np.mean(every)), rel=0.03)


def test_fewer_experts_on_a_rank_are_less_even() -> None:
    found = [placed_frac(64, ranks, 0.5) for ranks in (1, 2, 4, 8, 16, 32, 64)]
    assert found[0] == 1.0
    assert found == sorted(found)


def test_no_rank_gets_more_than_every_token() -> None:
    choices, most = Choices(8, 4), Load(spread=10.0)
    assert busiest_frac(choices, np.array([2]), np.array([1e6]), most)[0] <= 2.0
    assert busiest_copies(choices, np.array([2]), np.array([1e6]), most)[0] <= 2.0


def test_natural_routing_follows_what_was_measured_of_its_kind() -> None:
    """A released model of 128 experts on one expert a rank is as uneven as the one that was counted."""
    moe, ranks = model("qwen3-30b-a3b"), Layout(dp=128, ep=128)
    tuned, grid = Job(moe, Recipe(seq=4096, batch=128, train="lora", routing="natural"), 128), ranks.grid()
    assert float(np.asarray(busiest_rank_frac(moe.experts, tuned.recipe, grid))) == pytest.approx(7.19, rel=0.01)
    trained = replace(tuned.recipe, train="full")
    assert natural_load(moe.experts, trained).spread < natural_load(moe.experts, tuned.recipe).spread
    longer = replace(trained, seq=131_072)
    assert natural_load(moe.experts, longer).spread > natural_load(moe.experts, trained).spread


def test_natural_with_a_spread_is_that_of_the_word() -> None:
    named, even, random = (float(price_step(job(how), CLUSTER, LAYOUT.grid()).step_time_s) for how in
                           ("natural:0.8", "balanced", "natural:0"))  # fmt: skip
    assert named > random > even


@pytest.mark.parametrize(
    "wrong", ["skew", "skew:", "skew:-1", "skew:nan", "skew:9", "natural:", "natural:-1", "natural:nan", "even", ""]
)
def test_invalid_routing_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match="routing must be balanced, forced, natural, natural:C"):
        job(wrong)


def test_a_search_weighs_the_skew() -> None:
    """Wide expert groups lose by a skew what narrow ones do not: a rank with all experts has the mean."""
    grids = [replace(LAYOUT, ep=ep).grid() for ep in (1, 8)]
    longer = [
        float(price_step(job("skew:1"), CLUSTER, grid).step_time_s / price_step(job(), CLUSTER, grid).step_time_s)
        for grid in grids
    ]
    assert longer[0] == pytest.approx(1.0)
    assert longer[1] > 1.2
