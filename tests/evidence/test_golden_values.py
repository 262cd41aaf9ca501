"""Numbers that whoever judged the texts computed apart from this library: plain formulas have them, and so do deciders.

Digits are those of that judgement but for three: the best steps for delays of 5, 20 and 50, by which 3256.1, 12099.4
and 29800.0 updates do where a coarser search had 3256.5, 12107 and 29819, and the gradients that fp16 flushes, of which
0.0238 % is exact where a sample had 0.026 %. A row's value is computed here by arithmetic, quadrature, roots or a loop
that shares nothing with the library, and by the decider, the check of the lab or the arithmetic of a card.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from lockstep.check.evidence.claims.decide import Bench
from lockstep.check.evidence.claims.deciders.table import ARITHMETIC
from lockstep.check.evidence.claims.shelf import find_entries


def ring(size: float, rate: float, ranks: int = 256, wait: float = 1e-5) -> float:
    return 2e3 * (ranks - 1) * (wait + size / (ranks * rate))


def tree(size: float) -> float:
    return 16e3 * (1e-5 + size / 5e10)


def halving(size: float) -> float:
    return 16e3 * 1e-5 + ring(size, 5e10, wait=0.0)


def tie(wait: float, rate: float, ranks: int) -> float:
    levels = math.log2(ranks)
    return wait * rate * (ranks - 1 - levels) / (levels - (ranks - 1) / ranks) / 1e6


def slowest(quantile: Callable[[float], float], ranks: int) -> float:
    """Of so many draws: the integral of the quantile over the largest of as many uniform numbers."""
    return quad(lambda u: quantile(u ** (1 / ranks)), 0, 1, limit=500, epsabs=1e-9)[0]


def lognormal(cv: float, ranks: int = 256) -> float:
    width = math.sqrt(math.log(1 + cv * cv))
    return slowest(lambda u: math.exp(width * NormalDist().inv_cdf(min(u, 1 - 1e-16)) - width**2 / 2), ranks)


def largest_root(step: float, delay: int) -> float:
    return float(np.abs(np.roots([1, -1, *[0] * (delay - 1), step] if delay else [1, step - 1])).max())


def best(delay: int) -> float:
    """Updates to 1e-4 at the best step for curvatures 1 and 1/100."""
    edge = 2 * math.sin(math.pi / (4 * delay + 2))
    worst = lambda step: max(largest_root(step, delay), largest_root(step / 100, delay))  # noqa: E731
    step = minimize_scalar(worst, bounds=(0, edge), method="bounded", options={"xatol": 1e-13}).x
    return math.log(1e-4) / math.log(worst(step))


def settled(delay: int) -> float:
    """Updates until a path from 5 sqrt 2 at a lambda = 0.1 stays below 0.01."""
    path = [5 * math.sqrt(2)]
    for at in range(4000):
        path.append(path[-1] - 0.1 * path[max(at - delay, 0)])
    return max(at for at, x in enumerate(path) if abs(x) >= 0.01) + 1


def buckets(size: int) -> float:
    """Milliseconds of 96 layers of 5 ms with that many layers in a bucket, one stream of sums."""
    done, message = 0.0, ring(size / 96 * 700e6, 25e9)
    for last in range(size, 97, size):
        done = max(5.0 * last, done) + message
    return done


def wasted(minutes: float, write: float = 5.0, mtbf: float = 1260.0) -> float:
    return mtbf * math.expm1((minutes + write) / mtbf) / minutes - 1


def least_waste() -> float:
    return minimize_scalar(wasted, bounds=(20, 400), method="bounded", options={"xatol": 1e-9}).x


def dual(p: float) -> float:
    q = p / (p - 1)
    return -0.125 * sum(abs(g) ** q for g in (3, 4, 1)) ** (2 / q)


NETWORK = "network.time_s ranks=256 latency_s=1e-2"
UPDATES = "steps.updates curvature=1 step=0.1 start=7.0710678118654755 target=0.01 most=3000"
OVERLAP = "scaling.overlapped_s layers=96 layer_s=5 gradient_B=7e11 ranks=256 latency_s=1e-2 link_Bps=2.5e10"
HIERARCHY = "network.hierarchical_s node=8 nodes=32 size_B=7e11 inner_Bps=6e11 inner_s=1e-3 outer_s=1e-2"
ROWS: list[tuple[str, float, str]] = [
    ("60.881", ring(7e8, 25e9), f"{NETWORK} size_B=7e11 bandwidth_Bps=2.5e10"),
    ("32.991", ring(7e8, 50e9), f"{NETWORK} size_B=7e11 bandwidth_Bps=5e10"),
    ("17.633", tie(1e-5, 5e10, 256), "network.tie_B ranks=256 latency_s=1e-11 bandwidth_Bps=5e10"),
    ("8.817", tie(1e-5, 2.5e10, 256), "network.tie_B ranks=256 latency_s=1e-11 bandwidth_Bps=2.5e10"),
    ("5.682", tie(1e-5, 5e10, 64), "network.tie_B ranks=64 latency_s=1e-11 bandwidth_Bps=5e10"),
    ("56.272", tie(1e-5, 5e10, 1024), "network.tie_B ranks=1024 latency_s=1e-11 bandwidth_Bps=5e10"),
    (".5647", tie(1e-6, 3e11, 8), "network.tie_B ranks=8 latency_s=1e-12 bandwidth_Bps=3e11"),
    ("5.1398", ring(1e6, 5e10), f"{NETWORK} size_B=1e9 bandwidth_Bps=5e10"),
    (".4800", tree(1e6), f"{NETWORK} size_B=1e9 bandwidth_Bps=5e10 algorithm=tree"),
    (".1998", halving(1e6), f"{NETWORK} size_B=1e9 bandwidth_Bps=5e10 algorithm=rabenseifner"),
    ("9.0844", ring(1e8, 5e10), f"{NETWORK} size_B=1e11 bandwidth_Bps=5e10"),
    ("32.160", tree(1e8), f"{NETWORK} size_B=1e11 bandwidth_Bps=5e10 algorithm=tree"),
    ("4.1444", halving(1e8), f"{NETWORK} size_B=1e11 bandwidth_Bps=5e10 algorithm=rabenseifner"),
    ("44.944", ring(1e9, 5e10), f"{NETWORK} size_B=1e12 bandwidth_Bps=5e10"),
    ("320.16", tree(1e9), f"{NETWORK} size_B=1e12 bandwidth_Bps=5e10 algorithm=tree"),
    ("40.004", halving(1e9), f"{NETWORK} size_B=1e12 bandwidth_Bps=5e10 algorithm=rabenseifner"),
    *((said, lognormal(cv), f"scaling.slowest workers=256 law=lognormal:mean=1,cv={cv}")
      for said, cv in (("1.1505", 0.05), ("1.3202", 0.1), ("1.7217", 0.2), ("2.2113", 0.3), ("3.4616", 0.5))),
    *((said, lognormal(0.2, ranks), f"scaling.slowest workers={ranks} law=lognormal:mean=1,cv=0.2")
      for said, ranks in (("1.3096", 8), ("1.5661", 64), ("1.8704", 1024))),
    *((said, slowest(lambda u: NormalDist().inv_cdf(min(u, 1 - 1e-16)), ranks) / 100 + 1,
       f"scaling.slowest workers={ranks} law=normal:mean=1,cv=0.01")
      for said, ranks in (("1.028269", 256), ("1.032414", 1000))),
    *((said, best(delay), f"steps.best_updates delay={delay} condition=100 target=1e-4")
      for said, delay in (("460.5", 0), ("925.6", 1), ("3256.1", 5), ("6201.4", 10), ("12099.4", 20), ("29800.0", 50))),
    *((said, settled(delay), f"{UPDATES} delay={delay}") for said, delay in (
        ("63", 0), ("56", 1), ("47", 2), ("35", 3), ("34", 4), ("47", 5), ("129", 8), ("242", 10), ("509", 12),
        ("1690", 14))),
    ("15", max(d for d in range(1, 40) if 2 * math.sin(math.pi / (4 * d + 2)) > 0.1),
     "steps.longest_stable_delay curvature=1 step=0.1 start=1 steps=4000"),
    *((said, 7 / (m + 7), f"pipelines.bubble stages=8 microbatches={m} schedule=1f1b") for said, m in (
        (".875", 1), (".7778", 2), (".6364", 4), (".4667", 8), (".3043", 16), (".1795", 32), (".1000", 63))),
    ("2868903936", 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288), "tensors.held_B model=gpt3-175b batch=1 seq=2048"),
    *((said, buckets(size), f"{OVERLAP} per_bucket={size}") for said, size in (
        ("550.38", 1), ("486.26", 2), ("487.42", 4), ("494.40", 16), ("540.88", 96))),
    ("112", 2e3 * 256 * 7e8 / (16 * 2e11),
     "network.server_s workers=256 size_B=7e11 bandwidth_Bps=2e11 shards=16 latency_s=0"),
    (".06226", 2 * 16 * 255 / 256 / 256 / 2, "network.break_even_density workers=256 shards=16 index_frac=0"),
    (".03113", 16 * 255 / 256 / 256 / 2, "network.break_even_density workers=256 shards=16 index_frac=1"),
    ("112.25", math.sqrt(2 * 5 * 1260), "checkpoints.young_h mtbf_h=1260 write_h=5"),
    ("108.94", least_waste(), "checkpoints.exact_h mtbf_h=1260 write_h=5"),
    *((said, wasted(minutes), f"checkpoints.overhead mtbf_h=1260 write_h=5 interval_h={minutes}") for said, minutes in (
        (".1830", 30), (".1118", 60), (".09464", 108.94), (".1268", 240), (".2324", 480))),
    ("1018.2", math.sqrt(2 * 20 * 18 * 24 * 60),
     "checkpoints.young_h mtbf_h=25920 write_h=20"),
    ("324.3", math.sqrt(2 * 20 * 43.83 * 60), "checkpoints.young_h mtbf_h=2629.8 write_h=20"),
    ("9.457", 1e3 * (2 * 7 * (1e-6 + 7e8 / 8 / 6e11) + 2 * 31 * (1e-5 + 7e8 / 8 / 32 / 25e9)),
     f"{HIERARCHY} outer_Bps=2.5e10"),
    ("56.926", 1e3 * (2 * 7 * (1e-6 + 7e8 / 8 / 6e11) + 2 * 31 * (1e-5 + 7e8 / 32 / 25e9)),
     f"{HIERARCHY} outer_Bps=3.125e9"),
    ("352321536", 4 * 2 * 7 / 8 * 2048 * 12288 * 2, "tensors.layer_sent_B width=12288 ranks=8 batch=1 seq=2048"),
    (".82051", 32 / 39, "pipelines.busy stages=8 microbatches=32 schedule=1f1b"),
    *((said, dual(p), f"lab norm-steps: no lower value, lp, p = {p:g}") for said, p in (
        ("-2.5474", 1.5), ("-4.2967", 3.0), ("-4.9874", 4.0))),
    ("-3.25", dual(2.0), "lab norm-steps: no lower value, lp, gradient descent"),
    ("-8", -0.125 * (3 + 4 + 1) ** 2, "lab norm-steps: no lower value, linf, sign descent"),
    ("-2", -0.125 * 4**2, "lab norm-steps: no lower value, l1, greedy coordinate descent"),
    (".0238", 100 * math.erf(2**-25 / 1e-4 / math.sqrt(2)), "lab gradient-range: zero at scale 2^0"),
    ("45.8", 100 * (math.erf(2**-14 / 1e-4 / math.sqrt(2)) - math.erf(2**-25 / 1e-4 / math.sqrt(2))),
     "lab gradient-range: subnormal at scale 2^0"),
]  # fmt: skip
"""Digits as judged, the value by a formula, and what decides it. Seconds are counted in ms where a card does so."""
CARDS: dict[str, dict[str, float]] = {
    "G.8.2": {"112": 112, "38.5": 28 + 84 / 8, "26.25": 14 + 98 / 8, "14": 112 / 8, "31.41": 30 + 90 / 64,
              "16.64": 15 + 105 / 64, "1.875": 120 / 64},
    "G.11.3": {"10.254": 2 * 15 / 16 * 350 / 64},
    "G.8.6": {"1.5875": 3 * 127 / 128 / (2 * 15 / 16)},
    "G.6.2": {"3072": 6 * 2048 / 4},
    "G.6.3": {"2198.7": 989.4e12 / 450e9, "1040": 312e12 / 300e9},
    "G.6.7": {"19788": 989.4e12 / 50e9},
    "G.5.3": {"450000": 0.45e6, "37500": 37.5e3, "62500": 62.5e3, "625000": 625e3},
    "G.10.6": {"240.518": 2 * 7 * 512 * 2048 * 8192 * 2 / 1e9},
    "C.20": {"270.5": 8.4e23 / (256 * 312e12 * 0.45) / 86400, "0.435": 8.4e23 / (1_720_320 * 3600 * 312e12)},
    "G.12.2": {"0.477": 6 * 65.2e9 * 1.4e12 / (1_022_362 * 3600 * 312e12), "0.476": 6 * 65.2e9 * 380 / 312e12},
    "G.12.1": {"173.946": 12 * 96 * 12288**2 / 1e9, "174.589": (12 * 96 * 12288 + 52_305) * 12288 / 1e9},
    "G.11.2": {"72": 72, "79": 79, "69": 69, "93": 93, "13": 13, "109": 109},
    "C.8": {"1.362": slowest(lambda u: (1 + 7.5 * (1.3 / (1.3 - 0.6 * u) + 1)) / 16, 16)},
    "C.13": {"1.6441": 11 * 2 * math.sin(math.pi / 42)},
    "C.6": {"66": math.floor(8 / 0.12), "99": math.floor(8 / 0.08) - 1},
    "C.19": {"0": (1e30 + 1) - 1e30, "1": (1e30 - 1e30) + 1},
    "G.11.4": {"1": 1.0, "2": 2.0},
    "HW3": {"96": 12 * 8, "1024": 16 * 64, "896": 2 * 7 * 64},
}  # fmt: skip
"""Of a card, the digits of a right value and the value by a formula."""


def near(value: float, digits: str) -> bool:
    """Whether a value rounds to these digits, or is cut to them."""
    unit = 10.0 ** -len(digits.partition(".")[2])
    return abs(value - float(digits)) <= 0.5 * unit * (1 + 1e-9) + 1e-9 * abs(value)


@pytest.mark.parametrize(("digits", "value", "by"), ROWS, ids=[f"{row[2]} = {row[0]}" for row in ROWS])
def test_deciders_have_the_values_that_formulas_have(digits: str, value: float, by: str) -> None:
    scale = 100 if by.startswith("lab gradient-range") else 1
    found = Bench().find(by)
    assert near(value, digits)
    assert abs(scale * found.value - value) <= scale * found.error + 0.5 * 10.0 ** -len(digits.partition(".")[2])


@pytest.mark.parametrize("item", CARDS)
def test_cards_print_the_values_that_formulas_have(item: str) -> None:
    (entry,) = find_entries(item)
    for digits, value in CARDS[item].items():
        assert near(value, digits), (digits, value)
        held = [one for one in entry.every_check() if one.right.away(value) <= one.right.half_digit + 1e-9 * abs(value)]
        assert held, (item, digits)


def test_there_are_as_many_as_were_judged() -> None:
    assert len(ROWS) + sum(map(len, CARDS.values())) >= 48
    assert not any(row[2].startswith(ARITHMETIC) for row in ROWS)
