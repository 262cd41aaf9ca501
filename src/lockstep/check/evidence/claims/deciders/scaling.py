"""Data-parallel steps: compute that is divided, an exchange that is not, and who pays for it.

seconds of n workers = A / n + b;   rho = b / A
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.failures.stragglers import Barrier, any_above_frac, asynchronous, balance, stragglers
from lockstep.simulate.parallel.data import Layers
from lockstep.simulate.parallel.data.buckets import price
from lockstep.simulate.parallel.group import Traffic, on_link
from lockstep.simulate.play import Constant, parse_law


def _step_s(workers: int, compute_s: float, exchange_s: float, mitigation: str = "none") -> float:
    """Seconds of a step, simulated: equal workers with their share of the computing, then the exchange."""
    law = Constant(compute_s / workers)
    return stragglers(workers, law, mitigation, comm_s=exchange_s, numbers=workers).simulated_mean_s


@decides("simulated")
def speedup(workers: int, compute_s: float, exchange_s: float, alone_pays: bool) -> float:
    """Time of a step of one worker over that of `workers`; one worker pays for the exchange as well, or does not."""
    alone_s = compute_s + exchange_s * alone_pays
    return alone_s / _step_s(workers, compute_s, exchange_s)


@decides("simulated")
def efficiency(workers: int, compute_s: float, exchange_s: float, alone_pays: bool) -> float:
    """Speed-up over the number of workers."""
    return speedup(workers, compute_s, exchange_s, alone_pays) / workers


@decides("simulated")
def faster(workers: int, more: int, compute_s: float, exchange_s: float) -> float:
    """Time of a step of `workers` over that of `more`."""
    return _step_s(workers, compute_s, exchange_s) / _step_s(more, compute_s, exchange_s)


@decides("simulated")
def slope(workers: int, compute_s: float, exchange_s: float) -> float:
    """Power of the time of a step in the number of workers, between `workers` and one more."""
    one_more = workers + 1
    return float(np.log(faster(workers, one_more, compute_s, exchange_s)) / np.log(workers / one_more))


@decides("priced")
def exchange_for(workers: int, wanted: float) -> float:
    """Exchange over compute of one worker at which `workers` are `wanted` times as fast as one that pays as well.

    From (1 + rho) / (1 / n + rho) = wanted.
    """
    return (1 - wanted / workers) / (wanted - 1)


@decides("simulated")
def compute_share(workers: int, local_steps: int, compute_s: float, exchange_s: float) -> float:
    """Share of a step in which workers compute, when they exchange every `local_steps` steps."""
    return compute_s / workers / _step_s(workers, compute_s, exchange_s, f"local:{local_steps}")


@decides("simulated")
def share_ratio(workers: int, other: int, per_step: int, compute_s: float, exchange_s: float) -> float:
    """Share of computing on `workers` over that on `other`, with a local step for every `per_step` workers."""
    many, few = (compute_share(n, n // per_step, compute_s, exchange_s) for n in (workers, other))
    return many / few


@decides("simulated")
def waiting(workers: int, law: str, draws: int, seed: int) -> Array:
    """Times of the slowest of `workers`, drawn from a law, in as many steps as `draws` times make."""
    generator = np.random.default_rng(seed)
    steps_s, _ = Barrier().steps_s(parse_law(law), np.ones(workers), 0.0, draws, generator)
    return steps_s


@decides("solved")
def slowest(workers: int, law: str) -> float:
    """Expected time of the slowest of `workers`, by quadrature of the law."""
    return stragglers(workers, parse_law(law), numbers=workers).mean_step_s


@decides("solved")
def waiting_efficiency(workers: int, law: str) -> float:
    """Mean time of a worker over the expected time of the slowest of `workers`, for a law whose mean is 1."""
    return 1 / slowest(workers, law)


@decides("simulated")
def synchronous_s(times_s: tuple[float, ...], seed: int) -> float:
    """Seconds of a step of workers that wait for one another, each with its own constant time."""
    generator = np.random.default_rng(seed)
    _, steps_s = Barrier().steps_s(Constant(1.0), np.array(times_s), 0.0, len(times_s), generator)
    return float(steps_s.mean())


@decides("priced")
def asynchronous_s(times_s: tuple[float, ...]) -> float:
    """Seconds of as many updates as there are workers that never wait."""
    return asynchronous(times_s).batch_s


@decides("priced")
def longest_delay(times_s: tuple[float, ...]) -> float:
    """Delay of the slowest of workers that never wait, in updates."""
    return max(asynchronous(times_s).delays)


@decides("solved")
def any_above(workers: int, law: str, above: float) -> float:
    """Probability that at least one of `workers` takes longer than `above`."""
    return any_above_frac(parse_law(law), workers, above)


@decides("solved")
def best_period(penalty: float, exchange_over_compute: float, most: int, parts: int) -> float:
    """Local steps between averages for the shortest run, when steps grow as 1 + penalty (K - 1).

    Tries all numbers up to `most` in steps of one over `parts`: (1 + c (K - 1)) (1 + r / K).
    """
    periods = np.arange(parts, most * parts) / parts
    seconds = (1 + penalty * (periods - 1)) * (1 + exchange_over_compute / periods)
    return float(periods[seconds.argmin()])


@decides("priced")
def overlapped_s(
    layers: int, layer_s: float, gradient_B: float, ranks: int, latency_s: float, link_Bps: float, per_bucket: int
) -> float:
    """Seconds of a backward pass whose buckets of gradients are reduced in a ring while it computes."""
    group = Traffic(on_link(ranks, PlainLink(latency_s, link_Bps)), "ring")
    counts = [per_bucket] * (layers // per_bucket)
    return float(price(Layers.equal(layers, layers * layer_s, gradient_B, 0.0), group, counts).step_s)


@decides("simulated")
def balancing_gain(workers: int, law: str, batch: int, draws: int, seed: int) -> Array:
    """Times of equal shares over those of shares by speed, for `draws` sets of speeds from a law."""
    speeds = parse_law(law).draw(np.random.default_rng(seed), draws * workers).reshape(draws, workers)
    splits = [balance(row.tolist(), batch) for row in speeds]
    return np.array([split.static_s / split.bound_s for split in splits])
