"""Data-parallel steps: compute that is divided, an exchange that is not, and who pays for it.

seconds of n workers = A / n + b;   rho = b / A
"""

from __future__ import annotations

import numpy as np

from lockstep.campaigns import SpeedUp, amdahl
from lockstep.collectives import PlainLink
from lockstep.evidence.claims.deciders import Simulated, decides
from lockstep.failures.stragglers import StragglerCost, any_above_frac, asynchronous, balance, stragglers
from lockstep.parallel.data import Layers
from lockstep.parallel.data.buckets import price
from lockstep.parallel.group import Traffic, on_link
from lockstep.simulate import parse_law

ALIKE = 1e-4
"""Spread of the times of workers that are called equal; a law needs some."""
NUMBERS = 200_000
"""Random times drawn."""


def _waiting(workers: int, mean_s: float, comm_s: float, mitigation: str, cv: float, seed: int) -> StragglerCost:
    law = parse_law(f"normal:mean={mean_s},cv={cv}")
    return stragglers(workers, law, mitigation, comm_s=comm_s, numbers=NUMBERS, seed=seed)


def _step_s(workers: int, compute_s: float, exchange_s: float) -> float:
    """Seconds of a step, simulated: equal workers with their share of the computing, then the exchange."""
    return _waiting(workers, compute_s / workers, exchange_s, "none", ALIKE, 0).simulated_mean_s


@decides("simulated")
def speedup(workers: int, compute_s: float, exchange_s: float, alone_pays: bool = True) -> float:
    """Time of a step of one worker over that of `workers`; one worker pays for the exchange as well, or does not."""
    alone_s = compute_s + (exchange_s if alone_pays else 0.0)
    return round(alone_s / _step_s(workers, compute_s, exchange_s), 3)


@decides("simulated")
def faster(workers: int, more: int, compute_s: float, exchange_s: float) -> float:
    """Time of a step of `workers` over that of `more`."""
    return round(_step_s(workers, compute_s, exchange_s) / _step_s(more, compute_s, exchange_s), 3)


@decides("solved")
def slope(workers: int, compute_s: float, exchange_s: float) -> float:
    """Local power of the time of a step in the number of workers, by a difference quotient of the priced step.

    The exchange of a ring without latency is b (1 - 1 / n); b more seconds of computing make the step A / n + b.
    """
    step = SpeedUp(compute_s + exchange_s, exchange_s / 2, PlainLink(0.0, 1.0))
    near = workers * np.array([1 - 1e-3, 1 + 1e-3])
    return float(np.diff(np.log(step.time_s(near)))[0] / np.diff(np.log(near))[0])


@decides("solved")
def half_efficiency(rho: float) -> float:
    """Workers at which each is used to half of its time, when a single worker pays for the exchange too.

    By bisection of Amdahl's law with the serial share rho / (1 + rho).
    """
    low, high = 1.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float(amdahl(middle, rho / (1 + rho))) / middle > 0.5 else (low, middle)
    return low


@decides("solved")
def exchange_for(workers: int, wanted: float) -> float:
    """Exchange over compute of one worker at which `workers` are `wanted` times as fast as one that pays as well."""
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float(amdahl(workers, middle / (1 + middle))) > wanted else (low, middle)
    return low


@decides("simulated")
def compute_share(workers: int, local_steps: int, compute_s: float, exchange_s: float) -> float:
    """Share of a step in which workers compute, when they exchange every `local_steps` steps."""
    found = _waiting(workers, compute_s / workers, exchange_s, f"local:{local_steps}", ALIKE, 0)
    return round(compute_s / workers / found.simulated_mean_s, 3)


@decides("simulated")
def waiting(workers: int, cv: float, law: str = "normal", seed: int = 0) -> Simulated:
    """Mean time of the slowest of `workers` over the mean time of one, drawn from a law with that spread."""
    chosen = parse_law(f"{law}:mean=1,cv={cv}")
    found = stragglers(workers, chosen, numbers=4 * NUMBERS, seed=seed)
    steps = 4 * NUMBERS // workers
    low, high = found.ci95
    return Simulated(found.simulated_mean_s, (high - low) / 2 / 1.96, steps)


@decides("solved")
def expected_slowest(workers: int, cv: float, law: str = "normal") -> float:
    """Expected time of the slowest of `workers` over the mean time of one, by quadrature of the law."""
    return stragglers(workers, parse_law(f"{law}:mean=1,cv={cv}"), numbers=10_000).mean_step_s


@decides("priced")
def asynchronous_s(times_s: tuple[float, ...], slowest_delay: bool = False) -> float:
    """Seconds of as many updates as there are workers that never wait; or the delay of the slowest one."""
    found = asynchronous(times_s)
    return max(found.delays) if slowest_delay else found.batch_s


@decides("solved")
def any_above(workers: int, cv: float, above: float, law: str = "lognormal") -> float:
    """Probability that at least one of `workers` takes longer than `above` times the mean."""
    return any_above_frac(parse_law(f"{law}:mean=1,cv={cv}"), workers, above)


@decides("solved")
def best_period(penalty: float, exchange_over_compute: float) -> float:
    """Local steps between averages for the shortest run, when steps grow as 1 + penalty (K - 1); real numbers.

    By golden-section search of (1 + c (K - 1)) (1 + r / K).
    """
    low, high, ratio = 1.0, 1e6, (5**0.5 - 1) / 2

    def seconds(period: float) -> float:
        return (1 + penalty * (period - 1)) * (1 + exchange_over_compute / period)

    while high - low > 1e-9 * low:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if seconds(left) < seconds(right) else (left, high)
    return round((low + high) / 2, 4)


@decides("simulated")
def share_ratio(workers: int, other: int, per_step: int, compute_s: float, exchange_s: float) -> float:
    """Share of computing on `workers` over that on `other`, with a local step for every `per_step` workers."""
    shares = [compute_share(n, n // per_step, compute_s, exchange_s) for n in (workers, other)]
    return shares[0] / shares[1]


@decides("priced")
def overlapped_ms(layers: int, per_bucket: int) -> float:
    """Milliseconds of a backward pass whose buckets of gradients are reduced beside it.

    Layers of 5 ms, 700 MB of gradients in all, a ring of 256 workers at 25 GB/s and 10 us.
    """
    group = Traffic(on_link(256, PlainLink(1e-5, 25e9)), "ring")
    counts = [per_bucket] * (layers // per_bucket)
    return 1e3 * float(price(Layers.equal(layers, 0.005 * layers, 700e6, 0.0), group, counts).step_s)


DRAWS = 1000


@decides("simulated")
def balancing_gain(workers: int, spread: float = 0.0, cv: float = 0.0, seed: int = 0) -> Simulated:
    """Time of equal shares over that of shares by speed, for speeds drawn at random.

    Uniform within `spread` around 1, or log-normal with that coefficient of variation.
    """
    law = parse_law(f"uniform:low={1 - spread},high={1 + spread}" if spread else f"lognormal:mean=1,cv={cv}")
    speeds = law.draw(np.random.default_rng(seed), DRAWS * workers).reshape(DRAWS, workers)
    splits = [balance(row.tolist(), 4 * workers) for row in speeds]
    gains = [split.static_s / split.bound_s for split in splits]
    return Simulated(float(np.mean(gains)), float(np.std(gains, ddof=1) / np.sqrt(DRAWS)), DRAWS)


@decides("solved")
def workers_ratio(slower: float) -> float:
    """Workers at which half of the time is computing, for computing that is `slower`, over those before."""
    few, many = (
        SpeedUp(compute_s, 1.0, PlainLink(0.0, 10.0), most_workers=20_000) for compute_s in (100.0, 100.0 * slower)
    )
    return round(many.workers_at(0.5) / few.workers_at(0.5), 1)


@decides("solved")
def slowest_ms(workers: int, mean_ms: float, sd_ms: float) -> float:
    """Expected time of the slowest of workers with normal times, by quadrature."""
    return mean_ms * expected_slowest(workers, sd_ms / mean_ms)
