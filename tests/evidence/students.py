"""Students: right answers by formulas of their own, and wrong ones as people get them wrong.

Every formula is written here from the text of an exercise; nothing of Lockstep computes an answer. A mistake is a
formula as well, with the words of which a grader should say at least one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace as Numbers

import numpy as np
from scipy.special import lambertw

Answers = dict[str, float]
Solve = Callable[..., Answers]


def c1(v: Numbers, ring: Callable[..., float] | None = None, step: Callable[..., float] | None = None) -> Answers:
    all_reduce = ring(v) if ring else 2 * (v.ranks - 1) * (v.latency + v.size / v.ranks / v.bandwidth)
    whole = step(v, all_reduce) if step else v.compute + all_reduce
    share = v.compute / whole
    return {"all_reduce": all_reduce, "step": whole, "efficiency": share, "speedup": share * v.ranks}


def c2(v: Numbers, workers: float | None = None, sigma: float | None = None) -> Answers:
    n, s = workers or v.workers, math.sqrt(math.log(1 + v.cv**2)) if sigma is None else sigma
    z = np.linspace(-9, 9 + 2 * s, 400_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(z))])
    largest = np.trapezoid(np.exp(s * z) * n * density * below ** (n - 1), z)
    slowest = v.mean / math.exp(math.log(1 + v.cv**2) / 2) * float(largest)
    return {"slowest": slowest, "efficiency": v.mean / slowest}


def c3(v: Numbers, factor: float = 1.0, delay: int | None = None) -> Answers:
    def slowest(step: float, tau: int) -> float:
        def root(x: float) -> float:
            return float(np.abs(np.roots([1.0, -1.0, *[0.0] * (tau - 1), x] if tau else [1.0, -1.0 + x])).max())

        return max(root(step), root(step / v.condition))

    def updates(tau: int) -> float:
        low, high = 0.0, 2 * math.sin(math.pi / (2 * (2 * tau + 1)))
        for _ in range(45):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if slowest(left, tau) < slowest(right, tau) else (left, high)
        return math.log(v.target) / math.log(slowest((low + high) / 2, tau))

    tau = int(v.delay) if delay is None else delay
    found = updates(tau)
    return {"updates": found * factor, "ratio": found / updates(0)}


def c4(v: Numbers, **wrong: Callable[[Numbers], float]) -> Answers:
    n, rounds = v.ranks, math.ceil(math.log2(v.ranks))
    right = {
        "ring": 2 * (n - 1) * (v.latency + v.size / n / v.bandwidth),
        "tree": 2 * rounds * (v.latency + v.size / v.bandwidth),
        "halving": 2 * rounds * v.latency + 2 * (n - 1) / n * v.size / v.bandwidth,
        "sent": 2 * (n - 1) / n * v.size,
    }
    return {name: wrong[name](v) if name in wrong else value for name, value in right.items()}


def c5(v: Numbers, **wrong: Callable[[Numbers], float]) -> Answers:
    p, m = v.stages, v.microbatches
    right = {"bubble": (p - 1) / (m + p - 1), "step": (m + p - 1) * (v.forward + v.backward), "held": min(p, m)}
    return {name: wrong[name](v) if name in wrong else value for name, value in right.items()}


def c6(v: Numbers, payload: Callable[[Numbers], float] | None = None, gathered: Callable[..., float] | None = None,
       dense: float = 4.0) -> Answers:  # fmt: skip
    sent = payload(v) if payload else 8 * v.kept * v.elements
    every = gathered(v, sent) if gathered else (v.ranks - 1) * sent
    ring = 2 * (v.ranks - 1) / v.ranks * dense * v.elements
    return {"payload": sent, "factor": dense * v.elements / sent, "gathered": every, "gain": ring / every}


def c7(
    v: Numbers, needed: Callable[[Numbers], float] | None = None, run: Callable[..., float] | None = None
) -> Answers:
    steps = needed(v) if needed else v.steps * (1 + v.penalty * (v.period - 1))
    seconds = run(v, steps) if run else steps * v.compute + steps / v.period * v.exchange
    return {"needed": steps, "run": seconds, "computing": steps * v.compute / seconds}


def c8(v: Numbers, equal: Callable[[Numbers], float] | None = None, samples: Callable[[Numbers], float] | None = None
       ) -> Answers:  # fmt: skip
    share = samples(v) if samples else v.batch * v.speed / sum(v.every_speed)
    alone = equal(v) if equal else v.batch / len(v.every_speed) / v.speed
    return {"equal": alone, "samples": round(share), "balanced": share / v.speed}


def c9(v: Numbers, least: float = 2.0**-24, times: float = 1.0) -> Answers:
    def beyond(edge: float) -> float:
        return math.erfc(edge / (v.deviation * 2.0**v.power) / math.sqrt(2)) * times

    zero, normal = beyond(least / 2), beyond(2.0**-14)
    return {"zero": times - zero, "subnormal": zero - normal, "overflow": beyond(65520.0)}


def c10(
    v: Numbers, bucket: Callable[[Numbers], float] | None = None, end: Callable[..., float] | None = None
) -> Answers:
    size = v.size * v.per_bucket / v.layers
    one = bucket(v) if bucket else 2 * (v.ranks - 1) * (v.latency + size / v.ranks / v.bandwidth)
    done = 0.0
    for number in range(1, round(v.layers / v.per_bucket) + 1):
        done = max(number * v.per_bucket * v.layer, done) + one
    done = end(v, one) if end else done
    return {"bucket": one, "step": done, "exposed": done - v.layers * v.layer}


def c11(v: Numbers, **wrong: Callable[[Numbers], float]) -> Answers:
    n = v.workers
    server = wrong.get("server", lambda v: 2 * n * v.size / v.shards / v.bandwidth)(v)
    ring = wrong.get("ring", lambda v: 2 * (n - 1) / n * v.size / v.bandwidth)(v)
    density = wrong.get("density", lambda v: v.shards * (n - 1) / (2 * n**2))(v)
    return {"server": server, "ring": ring, "ratio": server / ring, "density": density}


def c13(v: Numbers, edge: Callable[[Numbers], float] | None = None, weight: float = 1.0) -> Answers:
    limit = edge(v) if edge else 2 * math.sin(math.pi / (2 * (2 * v.delay + 1)))
    return {"edge": limit, "step": limit / v.curvature, "weighted": limit * (weight + v.delay)}


def c14(v: Numbers, mtbf: Callable[[Numbers], float] | None = None, young: Callable[..., float] | None = None,
        overhead: Callable[..., float] | None = None) -> Answers:  # fmt: skip
    mean = mtbf(v) if mtbf else v.node_mtbf / v.nodes
    first = young(v, mean) if young else math.sqrt(2 * v.write * mean)
    best = mean * (1 + float(lambertw(-math.exp(-1 - v.write / mean)).real))
    lost = overhead(v, mean, best) if overhead else mean * math.expm1((best + v.write) / mean) / best - 1
    return {"mtbf": mean, "young": first, "best": best, "overhead": lost}


def c15(v: Numbers, variance: Callable[..., float] | None = None) -> Answers:
    rates = {"linear": v.rate * v.batch, "root": v.rate * math.sqrt(v.batch)}
    wanted = variance or (lambda v, a: a * v.noise**2 / v.batch / (v.curvature * (2 - a * v.curvature)))
    return {**{f"{name}_rate": rate for name, rate in rates.items()},
            **{f"{name}_square": wanted(v, rate) for name, rate in rates.items()}}  # fmt: skip


def c16(
    v: Numbers, slow: float | None = None, more: float | None = None, half: float = 0.5, penalty: float | None = None
) -> Answers:  # fmt: skip
    waits = v.slowest if slow is None else slow
    local = v.steps * (1 + (v.penalty if penalty is None else penalty) * (v.period - 1))
    return {
        "synchronous": v.steps * (v.mean * waits + v.exchange),
        "asynchronous": v.steps * (v.more if more is None else more) * (v.mean + half * v.exchange),
        "local": local * (v.mean * waits + v.exchange / v.period),
    }


def c17(v: Numbers, reduces: float = 4, element_B: float = 2, share: Callable[..., float] | None = None,
        ring: Callable[[float], float] = lambda k: 2 * (k - 1) / k) -> Answers:  # fmt: skip
    elements = v.batch * v.seq * v.hidden
    layer = reduces * ring(v.ranks) * elements * element_B
    products = 3 * 2 * 12 * v.hidden**2 * v.batch * v.seq / v.ranks
    quotient = share(v, layer) if share else layer / v.bandwidth / (products / v.rate)
    return {"layer": layer, "model": layer * v.layers, "share": quotient}


def c18(v: Numbers, rings: Callable[[Numbers], float] | None = None, hierarchy: Callable[[Numbers], float] | None = None
        ) -> Answers:  # fmt: skip
    g, n, d = v.node, v.nodes, v.size
    inside = 2 * (g - 1) * (v.inner_latency + d / g / v.inner)
    outside = 2 * (n - 1) * (v.outer_latency + d / g / n / v.outer)
    flat = rings(v) if rings else rotated(v)
    tiered = hierarchy(v) if hierarchy else inside + outside
    return {"rings": flat, "hierarchy": tiered, "gain": flat / tiered}


def rotated(v: Numbers) -> float:
    """Rings over all ranks, one through each adapter: every round waits for the slowest hop, which leaves a node."""
    total = v.node * v.nodes
    return 2 * (total - 1) * (v.outer_latency + v.size / v.node / total / v.outer)


def c20(v: Numbers, flops: float = 6.0, used: float | None = None, gpus: float | None = None) -> Answers:
    rate = (gpus or v.gpus) * v.peak * (v.mfu if used is None else used)
    run = flops * v.parameters * v.tokens / rate
    hours = run / 3600 * v.gpus
    return {"run": run, "gpu_hours": hours, "cost": hours * v.price, "step": flops * v.parameters * v.batch / rate}


RIGHT: dict[str, Solve] = {
    "C.1": c1, "C.2": c2, "C.3": c3, "C.4": c4, "C.5": c5, "C.6": c6, "C.7": c7, "C.8": c8, "C.9": c9, "C.10": c10,
    "C.11": c11, "C.13": c13, "C.14": c14, "C.15": c15, "C.16": c16, "C.17": c17, "C.18": c18, "C.20": c20,
}  # fmt: skip


def but(v: Numbers, **changed: float) -> Numbers:
    """The numbers with some of them changed."""
    return Numbers(**{**vars(v), **changed})


def times(name: str, factor: float) -> Callable[[Answers], Answers]:
    return lambda answers: {**answers, name: answers[name] * factor}


Wrong = tuple[str, Callable[[Numbers], Answers]]
MISTAKES: dict[str, tuple[Wrong, ...]] = {
    "C.1": (
        ("latency.*forgotten|latency", lambda v: c1(but(v, latency=0.0))),
        ("direction|half", lambda v: c1(v, lambda v: (v.ranks - 1) * (v.latency + v.size / v.ranks / v.bandwidth))),
        ("for ranks - 1", lambda v: c1(v, lambda v: 2 * v.ranks * (v.latency + v.size / v.ranks / v.bandwidth))),
        ("bits", lambda v: c1(but(v, bandwidth=v.bandwidth / 8))),
        ("binary|MiB", lambda v: c1(but(v, size=v.size * 1.048576))),
        ("bandwidth.*forgotten|size.*forgotten", lambda v: c1(v, lambda v: 2 * (v.ranks - 1) * v.latency)),
        ("compute forgotten", lambda v: c1(v, step=lambda v, r: r)),
        ("hidden|larger of", lambda v: c1(v, step=lambda v, r: max(r, v.compute))),
        ("one latency", lambda v: c1(v, lambda v: v.latency + 2 * (v.ranks - 1) / v.ranks * v.size / v.bandwidth)),
        ("percent", lambda v: times("efficiency", 100)(c1(v))),
        ("1 less", lambda v: {**c1(v), "efficiency": 1 - c1(v)["efficiency"]}),
    ),
    "C.2": (
        ("normal law", lambda v: _slowest(v, v.mean * (1 + v.cv * math.sqrt(2 * math.log(v.workers))))),
        ("mean for the max", lambda v: _slowest(v, v.mean)),
        ("deviation of the log", lambda v: c2(v, sigma=v.cv)),
        ("1 less", lambda v: {**c2(v), "efficiency": 1 - c2(v)["efficiency"]}),
        ("upside|1 over", lambda v: {**c2(v), "efficiency": 1 / c2(v)["efficiency"]}),
        ("half of workers|workers", lambda v: c2(v, workers=v.workers / 2)),
        ("percent", lambda v: times("efficiency", 100)(c2(v))),
    ),
    "C.3": (
        ("base 10|log10|ln 10", lambda v: c3(v, factor=1 / math.log(10))),
        ("loss|half", lambda v: c3(v, factor=0.5)),
        ("delay - 1|delay", lambda v: c3(v, delay=int(v.delay) + 1)),
        ("proportion", lambda v: {"updates": c3(v, delay=0)["updates"] * (1 + v.delay), "ratio": 1 + v.delay}),
        ("upside|1 over", lambda v: {**c3(v), "ratio": 1 / c3(v)["ratio"]}),
    ),
    "C.4": (
        ("latency", lambda v: c4(but(v, latency=0.0))),
        ("direction|half|broadcast", lambda v: times("tree", 0.5)(c4(v))),
        ("direction|half", lambda v: times("ring", 0.5)(c4(v))),
        ("bits", lambda v: c4(but(v, bandwidth=v.bandwidth / 8))),
        ("binary|MiB|GiB", lambda v: c4(but(v, bandwidth=v.bandwidth * 1.073741824))),
        ("natural|ln 2", lambda v: c4(v, tree=lambda v: 2 * math.log(v.ranks) * (v.latency + v.size / v.bandwidth))),
        ("bandwidth|size", lambda v: c4(v, tree=lambda v: 2 * math.log2(v.ranks) * v.latency)),
        ("ms for s|units of time", lambda v: c4(but(v, latency=v.latency * 1e3))),
        ("log2.*rounds|log2", lambda v: c4(v, tree=lambda v: 2 * (v.latency + v.size / v.bandwidth))),
        ("one latency", lambda v: c4(v, ring=lambda v: v.latency + 2 * (v.ranks - 1) / v.ranks * v.size / v.bandwidth)),
        ("ranks|total", lambda v: times("sent", v.ranks)(c4(v))),
        ("prefix|10\\^3|units of time|MB for GB", lambda v: times("sent", 1e-3)(c4(v))),
    ),
    "C.5": (
        ("m for m \\+ p - 1", lambda v: c5(v, bubble=lambda v: (v.stages - 1) / v.microbatches)),
        ("warm-up", lambda v: c5(v, step=lambda v: v.microbatches * (v.forward + v.backward))),
        ("m \\+ p", lambda v: c5(v, step=lambda v: (v.microbatches + v.stages) * (v.forward + v.backward))),
        ("backward forgotten", lambda v: c5(v, step=lambda v: (v.microbatches + v.stages - 1) * v.forward)),
        ("forward forgotten", lambda v: c5(v, step=lambda v: (v.microbatches + v.stages - 1) * v.backward)),
        ("GPipe|all micro", lambda v: c5(v, held=lambda v: v.microbatches)),
        ("as many held", lambda v: c5(v, held=lambda v: v.stages)),
        ("stages", lambda v: c5(v, bubble=lambda v: v.stages / (v.microbatches + v.stages - 1))),
        ("1 less", lambda v: {**c5(v), "bubble": 1 - c5(v)["bubble"]}),
        ("percent", lambda v: times("bubble", 100)(c5(v))),
    ),
    "C.6": (
        ("ind", lambda v: c6(v, lambda v: 4 * v.kept * v.elements)),
        ("64 bits|indices of 64", lambda v: c6(v, lambda v: 12 * v.kept * v.elements)),
        ("ranks", lambda v: c6(v, gathered=lambda v, s: v.ranks * s)),
        ("summed in a ring|same ones", lambda v: c6(v, gathered=lambda v, s: 2 * (v.ranks - 1) / v.ranks * s)),
        ("upside", lambda v: {**c6(v), "factor": 1 / c6(v)["factor"]}),
        ("bits", lambda v: times("payload", 8)(c6(v))),
        ("binary|MiB", lambda v: times("gathered", 1 / 1.048576)(c6(v))),
    ),
    "C.7": (
        ("K for K - 1", lambda v: c7(v, lambda v: v.steps * (1 + v.penalty * v.period))),
        ("penalty", lambda v: c7(v, lambda v: v.steps)),
        ("exchange after every|every step", lambda v: c7(v, run=lambda v, n: n * (v.compute + v.exchange))),
        ("exchange forgotten|exchange", lambda v: c7(v, run=lambda v, n: n * v.compute)),
        ("compute forgotten|compute", lambda v: {**c7(v), "run": c7(v)["needed"] / v.period * v.exchange}),
        ("1 less", lambda v: {**c7(v), "computing": 1 - c7(v)["computing"]}),
        ("units of time|10\\^3", lambda v: times("run", 1e3)(c7(v))),
        ("minutes|60", lambda v: times("run", 1 / 60)(c7(v))),
    ),
    "C.8": (
        ("slowest", lambda v: c8(v, equal=lambda v: v.batch / len(v.every_speed) / min(v.every_speed))),
        ("mean", lambda v: c8(v, samples=lambda v: v.batch / len(v.every_speed))),
        ("times instead|proportion", lambda v: c8(v, samples=lambda v: v.batch / v.speed
                                                   / sum(1 / s for s in v.every_speed))),
        ("not divided", lambda v: c8(v, equal=lambda v: v.batch / v.speed)),
        ("units of time|10\\^3|prefix", lambda v: times("balanced", 1e3)(c8(v))),
    ),
    "C.9": (
        ("smallest normal|taken for zero", lambda v: {
            **c9(v), "zero": c9(v)["zero"] + c9(v)["subnormal"], "subnormal": 0.0}),
        ("half", lambda v: c9(v, times=0.5)),
        ("percent", lambda v: times("subnormal", 100)(c9(v))),
        ("power", lambda v: c9(but(v, power=v.power + 1))),
        ("deviation", lambda v: c9(but(v, deviation=v.deviation * 10))),
    ),
    "C.10": (
        ("perfect|larger", lambda v: c10(v, end=lambda v, t: max(v.layers * v.layer, t * v.layers / v.per_bucket))),
        ("no overlap|one after", lambda v: c10(v, end=lambda v, t: v.layers * v.layer + t * v.layers / v.per_bucket)),
        ("latency", lambda v: c10(but(v, latency=0.0))),
        ("direction|half", lambda v: c10(v, lambda v: (v.ranks - 1) * (
            v.latency + v.size * v.per_bucket / v.layers / v.ranks / v.bandwidth))),
        ("one latency|round", lambda v: c10(v, lambda v: v.latency + 2 * (v.ranks - 1) / v.ranks * v.size
                                      * v.per_bucket / v.layers / v.bandwidth)),
        ("one bucket after", lambda v: c10(v, end=lambda v, t: v.layers * v.layer + t)),
        ("bits", lambda v: c10(but(v, bandwidth=v.bandwidth / 8))),
    ),
    "C.11": (
        ("direction|half", lambda v: c11(v, server=lambda v: v.workers * v.size / v.shards / v.bandwidth)),
        ("shards", lambda v: c11(v, server=lambda v: 2 * v.workers * v.size / v.bandwidth)),
        ("indices|twice", lambda v: c11(v, density=lambda v: v.shards * (v.workers - 1) / v.workers**2)),
        ("upside", lambda v: {**c11(v), "ratio": 1 / c11(v)["ratio"]}),
        ("workers", lambda v: c11(v, server=lambda v: 2 * v.size / v.shards / v.bandwidth)),
        ("bits", lambda v: c11(but(v, bandwidth=v.bandwidth / 8))),
        ("direction|half", lambda v: c11(v, ring=lambda v: (v.workers - 1) / v.workers * v.size / v.bandwidth)),
    ),
    "C.13": (
        ("1 / delay", lambda v: c13(v, lambda v: 1 / v.delay if v.delay else 2.0)),
        ("degrees", lambda v: c13(v, lambda v: 2 * math.sin(math.radians(math.pi / (2 * (2 * v.delay + 1)))))),
        ("2 tau", lambda v: c13(v, lambda v: 2 * math.sin(math.pi / (4 * v.delay)) if v.delay else 2.0)),
        ("delay for 1", lambda v: c13(v, weight=0.0)),
        ("curvature", lambda v: {**c13(v), "step": c13(v)["edge"] * v.curvature}),
        ("half", lambda v: c13(v, lambda v: math.sin(math.pi / (2 * (2 * v.delay + 1))))),
        ("pi / 2|long delays", lambda v: c13(v, lambda v: math.pi / 2 / (v.delay + 0.5))),
    ),
    "C.14": (
        ("one node|nodes", lambda v: c14(v, mtbf=lambda v: v.node_mtbf)),
        ("root of 2|under the root", lambda v: c14(v, young=lambda v, m: math.sqrt(v.write * m))),
        ("first order", lambda v: c14(v, overhead=lambda v, m, i: v.write / i + i / 2 / m)),
        ("lost work|writes alone", lambda v: c14(v, overhead=lambda v, m, i: v.write / i)),
        ("without writes|lost work", lambda v: c14(v, overhead=lambda v, m, i: i / 2 / m)),
        ("whole interval", lambda v: c14(v, overhead=lambda v, m, i: v.write / i + i / m)),
        ("minutes|60", lambda v: times("best", 1 / 60)(c14(v))),
        ("Young", lambda v: {**c14(v), "best": c14(v)["young"] * 1.0}),
        ("percent", lambda v: times("overhead", 100)(c14(v))),
    ),
    "C.15": (
        ("one example", lambda v: c15(v, lambda v, a: a * v.noise**2 / (v.curvature * (2 - a * v.curvature)))),
        ("small", lambda v: c15(v, lambda v, a: a * v.noise**2 / v.batch / (2 * v.curvature))),
        ("not squared|noise", lambda v: c15(v, lambda v, a: a * v.noise / v.batch
                                            / (v.curvature * (2 - a * v.curvature)))),
        ("batch", lambda v: {**c15(v), "linear_rate": v.rate}),
        ("root", lambda v: {**c15(v), "root_rate": v.rate * v.batch}),
        ("exchanged", lambda v: {**c15(v), "linear_rate": c15(v)["root_rate"], "root_rate": c15(v)["linear_rate"]}),
    ),
    "C.16": (
        ("slowest|mean of all", lambda v: c16(v, slow=1.0)),
        ("larger number|more", lambda v: c16(v, more=1.0)),
        ("penalty", lambda v: c16(v, penalty=0.0)),
        ("exchange", lambda v: c16(but(v, exchange=0.0))),
        ("units of time|10\\^3", lambda v: times("local", 1e3)(c16(v))),
        ("minutes|60", lambda v: {name: one / 60 for name, one in c16(v).items()}),
    ),
    "C.17": (
        ("half|direction", lambda v: c17(v, reduces=2)),
        ("2 bytes for 4|twice|4 bytes", lambda v: c17(v, element_B=4)),
        ("ranks", lambda v: c17(v, ring=lambda k: 2.0)),
        ("half|direction", lambda v: c17(v, ring=lambda k: (k - 1) / k)),
        ("layers|one for all", lambda v: {**c17(v), "model": c17(v)["layer"]}),
        ("prefix|10\\^3", lambda v: times("model", 1e3)(c17(v))),
        ("factor of 3|backward|three times", lambda v: times("share", 3)(c17(v))),
        ("ranks", lambda v: times("share", 1 / v.ranks)(c17(v))),
    ),
    "C.18": (
        ("one adapter", lambda v: c18(v, hierarchy=lambda v: 2 * (v.node - 1)
                                      * (v.inner_latency + v.size / v.node / v.inner)
                                      + 2 * (v.nodes - 1) * (v.outer_latency + v.size / v.nodes / v.outer))),
        ("latency", lambda v: c18(but(v, outer_latency=0.0))),
        ("upside", lambda v: {**c18(v), "gain": 1 / c18(v)["gain"]}),
        ("half|direction", lambda v: times("rings", 0.5)(c18(v))),
        ("bits", lambda v: c18(but(v, outer=v.outer / 8))),
        ("node", lambda v: c18(v, rings=lambda v: rotated(but(v, outer=v.outer / v.node)))),
    ),
    "C.20": (
        ("2 FLOPs|backward|third", lambda v: c20(v, flops=2)),
        ("sixth|6", lambda v: c20(v, flops=1)),
        ("8 FLOPs", lambda v: c20(v, flops=8)),
        ("peak|mfu forgotten", lambda v: c20(v, used=1.0)),
        ("gpus", lambda v: times("gpu_hours", 1 / v.gpus)(c20(v))),
        ("gpus", lambda v: c20(v, gpus=1)),
        ("days|24", lambda v: times("run", 24)(c20(v))),
        ("prefix|10\\^3", lambda v: times("cost", 1e-3)(c20(v))),
    ),
}  # fmt: skip


def _slowest(v: Numbers, slowest: float) -> Answers:
    return {"slowest": slowest, "efficiency": v.mean / slowest}
