"""What figures draw of simulated steps: curves, as rows of x and y, and fields of an answer."""

from __future__ import annotations

from functools import cache
from operator import attrgetter

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.failures.stragglers import Barrier, balance, stragglers
from lockstep.simulate.parallel.data import Layers
from lockstep.simulate.parallel.data.buckets import price
from lockstep.simulate.parallel.expert import experts, route
from lockstep.simulate.parallel.group import Traffic, on_link
from lockstep.simulate.parallel.pipeline import pareto, points
from lockstep.simulate.play import Empirical, Law, parse_law


@cache
def _law(text: str) -> Law:
    """A law by its text; `trace` is a list of 100 times around 50 ms, two of which are late."""
    if text != "trace":
        return parse_law(text)
    usual = parse_law("lognormal:mean=50ms,cv=0.1")
    return Empirical((*(usual.quantile_s((place + 0.5) / 98) for place in range(98)), 0.12, 0.2))


def step_times(law: str, workers: int, steps: int, low_s: float, high_s: float, bins: int, seed: int = 0) -> Array:
    """Share of steps by their time, in bins of equal ratio: those of the slowest of `workers`, drawn from a law."""
    generator = np.random.default_rng(seed)
    times_s, _ = Barrier().steps_s(_law(law), np.ones(workers), 0.0, steps * workers, generator)
    edges = np.geomspace(low_s, high_s, bins + 1)
    counts, _ = np.histogram(times_s, edges)
    return np.stack([np.sqrt(edges[1:] * edges[:-1]), counts / len(times_s)])


def straggler(
    key: str, workers: int, law: str, mitigation: str = "none", slow: int = 0, factor: float = 1.0, numbers: int = 0
) -> float:  # fmt: skip
    """A field of the cost of stragglers: `slow` of the workers are always `factor` times as slow."""
    slowdown = [factor] * slow + [1.0] * (workers - slow) if slow else []
    found = stragglers(workers, _law(law), mitigation, slowdown=slowdown, numbers=numbers or workers)
    return float(getattr(found, key))


def schedules(
    stages: int, microbatches: tuple[float, ...], layers: int, layer_B: float, front: bool = False
) -> Array:  # fmt: skip
    """GB of activations of the fullest device, and share of computing, of every schedule and number of micro-batches.

    `front`: only those that no other beats in both.
    """
    found = points([stages], [int(one) for one in microbatches])
    chosen = pareto(found) if front else found
    return np.array([(one.live_models * layers * layer_B / 1e9, one.utilization_frac) for one in chosen]).T


@cache
def _speeds(law: str, workers: int, seed: int) -> tuple[float, ...]:
    return tuple(parse_law(law).draw(np.random.default_rng(seed), workers).tolist())


def split_times(law: str, workers: int, batch: int, balanced: bool, seed: int = 0) -> Array:
    """Time of every worker, fastest first, for shares by speed or for equal ones, whose fastest possible time is 1."""
    speeds = sorted(_speeds(law, workers, seed), reverse=True)
    found = balance(speeds, batch)
    shares = np.array(found.shares if balanced else found.static_shares)
    return np.stack([np.arange(1.0, workers + 1), shares / np.array(speeds) / found.bound_s])


def capped_gain(law: str, workers: int, batch: int, most: int, seed: int = 0) -> float:
    """Gain of shares by speed where memory holds at most `most` samples of a worker."""
    found = balance(_speeds(law, workers, seed), batch, most=[most] * workers)
    return balance(_speeds(law, workers, seed), batch).static_s / found.balanced_s


def bucketed(key: str, layers: int, layer_s: float, gradient_B: float, ranks: int, latency_s: float, link_Bps: float,
             per_bucket: int, overlap: bool = True) -> float:  # fmt: skip
    """A field of a backward pass whose buckets of gradients are reduced in a ring, beside it or after it."""
    group = Traffic(on_link(ranks, PlainLink(latency_s, link_Bps)), "ring")
    counts = [per_bucket] * (layers // per_bucket)
    found = price(Layers.equal(layers, layers * layer_s, gradient_B, 0.0), group, counts, overlap=overlap)
    return float(getattr(found, key))


@cache
def expert(key: str, number: int, top_k: int, tokens: int, ranks: int, skew: float, factor: float = 0.0) -> float:
    """A field of a layer of experts, a dot between the parts of its name; links of 25 GB/s, 1 us, 8 KiB a token."""
    link = PlainLink(1e-6, 25e9)
    found = experts(number, top_k, tokens, ranks, link, skew=skew, token_B=8192.0, capacity_factor=factor or None)
    return float(attrgetter(key)(found))


def expert_tokens(number: int, tokens: int, skew: float, seed: int = 0) -> Array:
    """Tokens of every expert over the mean, the busiest first."""
    load = np.sort(route(number, 1, tokens, skew=skew, seed=seed).load)[::-1]
    return np.stack([np.arange(1.0, number + 1), load / load.mean()])


def sent_to(rank: int, number: int, top_k: int, tokens: int, ranks: int, skew: float) -> Array:
    """Megabytes that each rank sends to one of them with the tokens of its experts, of 8 KiB each."""
    found = experts(number, top_k, tokens, ranks, PlainLink(1e-6, 25e9), skew=skew, token_B=8192.0)
    return np.stack([np.arange(float(ranks)), found.size_B[:, rank] / 1e6])


def random_load(number: int, each: int, times: int, seed: int = 0) -> Array:
    """Largest loads over the mean of experts that get `each` tokens on average, at random."""
    loads = (route(number, 1, number * each, seed=seed + more).load for more in range(times))
    return np.array([load.max() / load.mean() for load in loads])
