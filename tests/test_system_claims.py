"""The page of claims about seconds, bytes and memory: every line of it is computed by the verb it names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scipy.integrate import quad
from scipy.stats import norm

import lockstep
from lockstep.campaigns.speedup import amdahl
from lockstep.errors import BadInput

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "system-claims.md"
ROWS = re.findall(r"^\| (.+?) \| (holds|false) \| `(.+?)` \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
Pairs = Iterator[tuple[float, float]]
"""(what Lockstep computes, what is right)."""


def _ring(ranks: int, size: Any, latency: Any = 0, bandwidth: Any = "25GB/s") -> Any:
    words = {"ranks": ranks, "size": size, "latency": latency, "bandwidth": bandwidth, "algorithm": "ring"}
    return lockstep.collective("all-reduce", **words).comparison.rows[0]


def _nodes(nodes: int, node: int, size: str) -> dict[str, Any]:
    """Rows of a ring and of a hierarchical all-reduce, by name."""
    words = {"ranks": nodes * node, "size": size, "cluster": f"dgx-h100:{nodes}", "algorithm": "ring,hierarchical"}
    return {row.algorithm: row for row in lockstep.collective("all-reduce", **words).comparison.rows}


def _pipeline(p: int, m: int, **words: Any) -> dict[str, Any]:
    return lockstep.pipeline(stages=p, microbatches=m, **words).to_dict()


def _speed_up(compute: str) -> Any:
    """A step without latency: A / n + b in the limit of many workers."""
    return lockstep.speedup(compute=compute, size="1GB", latency=0, bandwidth="10GB/s", workers=100_000)


def ring_time() -> Pairs:
    """100 MB at 25 GB/s and 10 us: equal parts at 400 workers."""
    whole = _ring(400, "100MB", "10us").time_s
    yield whole, 2 * 399 * (1e-5 + 100e6 / (400 * 25e9))
    yield whole, 2 * _ring(400, "100MB").time_s


def ring_bytes() -> Pairs:
    """28 GB on very many ranks at 640, 80 and 25 GB/s: 87 ms, 0.70 s, 2.2 s."""
    for n in (2, 7, 64):
        yield _ring(n, "1GB").bytes_sent_per_rank, 2 * (n - 1) / n * 1e9
    for rate, time_s in (("640GB/s", 0.0875), ("80GB/s", 0.70), ("25GB/s", 2.24)):
        yield round(_ring(1024, "28GB", bandwidth=rate).time_s / time_s, 2), 1.0


def ring_optimal() -> Pairs:
    for n in (2, 7, 64):
        ring = _ring(n, "1GB")
        yield ring.time_s, ring.lower_bound_s


def tree_latency() -> Pairs:
    """The size up to which a tree wins grows with the latency: 23.5 kB, 191 kB and 1.41 MB at 1 us and 12.5 GB/s."""
    for n, size_B in ((8, 23_529), (100, 191_348), (1024, 1_406_792)):
        for latency_us in (1, 5):
            words = {"latency": f"{latency_us}us", "bandwidth": "12.5GB/s", "between": "ring,tree"}
            found = lockstep.crossover("all-reduce", ranks=n, **words).to_dict()
            yield round(found["crossover_B"] / latency_us), size_B


def hierarchy_bytes() -> Pairs:
    """(n - 1) / (n - g); 800 MB on 8 nodes of 8, one adapter of 25 GB/s a node: 63 and 56 ms."""
    for nodes in (2, 4, 16):
        rows, n = _nodes(nodes, 8, "1GB"), 8 * nodes
        yield rows["ring"].cross_node_B / rows["hierarchical"].cross_node_B, (n - 1) / (n - 8)
    rows = _nodes(8, 8, "800MB")
    for name, milliseconds in (("ring", 63), ("hierarchical", 56)):
        yield rows[name].cross_node_B / 8 / 25e9 * 1000, milliseconds


def hierarchy_node_bytes() -> Pairs:
    """100 MB on 32 nodes: 193.75 MB leave each, not 6.25."""
    yield _nodes(32, 8, "100MB")["hierarchical"].cross_node_B / 32, 193.75e6


def hierarchy_steps() -> Pairs:
    for nodes, flat, steps in ((8, 126, 28), (32, 510, 76)):
        rows = _nodes(nodes, 8, "1GB")
        yield rows["ring"].latency_steps, flat
        yield rows["hierarchical"].latency_steps, steps


def server_bytes() -> Pairs:
    counted = {row.program: row for row in lockstep.messages(workers=8, params="25M").rows}
    yield counted["parameter-server"].total_elems, 2 * 8 * 25e6
    yield counted["ring"].total_elems, 2 * 7 * 25e6


def all_to_all() -> Pairs:
    for n, share in ((8, 224.0), (64, 252.0), (512, 255.5)):
        words = {"ranks": n, "size": 256, "latency": 0, "bandwidth": "1GB/s", "algorithm": "direct"}
        yield lockstep.collective("all-to-all", **words).comparison.rows[0].bytes_sent_per_rank, share


def experts_bytes() -> Pairs:
    """1,024 tokens a rank of 8, top-2: 7/8 of 2,048 leave, for 64 experts as for 256, within what routing draws."""
    words: dict[str, Any] = {"top_k": 2, "tokens": 8 * 1024, "ranks": 8, "latency": 0, "bandwidth": "1GB/s"}
    for number in (64, 256):
        found = lockstep.experts(experts=number, token_size=1, **words)
        yield round(found.sent_per_rank_B / (2 * 1024 * 7 / 8), 1), 1.0


def bubbles() -> Pairs:
    for p, m, v, percent in (
        (4, 8, 1, 27.3), (4, 8, 4, 8.6), (8, 32, 1, 17.9), (8, 32, 2, 9.9), (8, 32, 4, 5.2), (16, 32, 1, 31.9),
        (32, 4, 1, 88.6), (8, 4, 1, 63.6), (64, 128, 1, 33.0),
    ):  # fmt: skip
        bubble = _pipeline(p, m, chunks=v)["bubble_frac"]
        yield bubble, (p - 1) / (v * m + p - 1)
        yield round(100 * bubble, 1), percent


def first_stage() -> Pairs:
    """Forward 1 s and backward 2 s on four stages: each idles for 3 x 3 s."""
    idle_s = lockstep.pipeline(stages=4, microbatches=8).timeline.idle_s()
    for rank in range(4):
        yield idle_s[rank, "compute"], 9.0


def pipeline_speedup() -> Pairs:
    """Four micro-batches on four stages are 2.29 times as fast; half of eight devices' time is four times."""
    yield 4 * _pipeline(4, 4)["utilization_frac"], 16 / 7
    yield 8 * _pipeline(8, 7)["utilization_frac"], 4.0


def one_f_one_b() -> Pairs:
    for p, m in ((4, 8), (8, 5)):
        plain, early = (_pipeline(p, m, schedule=name) for name in ("gpipe", "1f1b"))
        yield early["makespan_s"], plain["makespan_s"]
        yield plain["peak_live_microbatches"][0], m
        yield from zip(early["peak_live_microbatches"], (min(p - stage, m) for stage in range(p)), strict=True)


def chunk_memory() -> Pairs:
    for v, held in ((2, 5.5), (4, 4.75)):
        yield _pipeline(4, 8, chunks=v)["peak_live_microbatches"][0], held
        yield held, 4 * (1 + 3 / (4 * v))


def many_chunks() -> Pairs:
    """Four chunks of two micro-batches run; a number of micro-batches that the stages do not divide does not."""
    yield _pipeline(2, 2, chunks=4)["bubble_frac"], 1 / 9
    with pytest.raises(BadInput):
        _pipeline(2, 3, chunks=4)


def recomputing() -> Pairs:
    yield _pipeline(4, 8, recompute=1)["makespan_s"] / _pipeline(4, 8)["makespan_s"], 4 / 3


def tensor_bytes() -> Pairs:
    """GPT-3 on eight devices, a sequence of 2,048: 96 layers x 4 all-reduces of 50 MB, 33.8 GB; four times for four."""
    for batch in (1, 4):
        words: dict[str, Any] = {"batch": batch, "micro_batch": batch, "seq": 2048, "tp": 8}
        node = lockstep.roofline("gpt3-175b", "dgx-a100-80gb", **words).levels[1]
        yield node.bytes_B, batch * 96 * 4 * 2 * 7 / 8 * 2048 * 12_288 * 2


def tensor_width() -> Pairs:
    """Widths of 4,096, 5,120 and 12,288: the share of the traffic falls from each to the next."""
    words: dict[str, Any] = {"batch": 1, "seq": 2048, "tp": 8}
    shares = [
        lockstep.roofline(name, "dgx-a100-80gb", **words).levels[1].share
        for name in ("gpt3-6b7", "gpt3-13b", "gpt3-175b")
    ]
    yield shares == sorted(shares, reverse=True), True
    yield shares[-1] < shares[0] / 2, True


def communication_bound() -> Pairs:
    """n = 8, rho = 0.1: 4.889, above 4.706; in the limit 1 + 1 / rho."""
    rho = 0.1
    yield float(amdahl(8, rho / (1 + rho))), 8 * (1 + rho) / (1 + 8 * rho)
    yield round(8 * (1 + rho) / (1 + 8 * rho), 3), 4.889
    yield 8 / (1 + 7 * rho) < 4.889, True
    yield round(float(amdahl(1e12, rho / (1 + rho))), 6), 1 + 1 / rho


def step_floor() -> Pairs:
    """A second of computing and 0.2 s of traffic: ever more workers end at 0.2 s, nowhere near 1 / sqrt(n)."""
    found = _speed_up("1s")
    yield round(float(found.time_s(100_000)), 4), 0.2
    yield round(float(found.time_s(10_000) / found.time_s(100_000)), 2), 1.0


def slower_computing() -> Pairs:
    few, many = (_speed_up(compute).workers_at(0.5) for compute in ("10s", "100s"))
    yield round(many / few), 10


def slowest_worker() -> Pairs:
    """Normal times with cv 0.1: 1 + cv times the expected largest of 16 and of 4,096 normal numbers, by quadrature."""
    for workers in (16, 4096):
        largest, _ = quad(lambda x, n=workers: x * n * norm.pdf(x) * norm.cdf(x) ** (n - 1), -10, 10, limit=200)
        found = lockstep.stragglers(workers=workers, law="normal:mean=1s,cv=0.1").to_dict()
        yield round((found["mean_step_s"] - 1) / 0.1 / largest, 3), 1.0


def geometric_mean() -> Pairs:
    found = lockstep.checkpoint(mtbf="21.387h", write="1.5min")
    yield found.young_s, math.sqrt(2) * math.sqrt(21.387 * 3600 * 90)


def exact_interval() -> Pairs:
    """A write of half the time between failures: 6.98 h, not 10 h; where writes are cheap the two meet."""
    found = lockstep.checkpoint(mtbf="10h", write="5h")
    yield found.young_s / 3600, 10.0
    yield round(found.exact_s / 3600, 3), 6.983
    cheap = lockstep.checkpoint(mtbf="10h", write="1ms")
    yield round(cheap.exact_s / cheap.young_s, 3), 1.0


CHECKS: dict[str, Callable[[], Pairs]] = {
    "A.3": ring_time, "A11-2": ring_bytes, "F43": ring_optimal, "B.4": tree_latency, "A.15": hierarchy_bytes,
    "B.12": hierarchy_node_bytes, "A15-2": hierarchy_steps, "A.11": server_bytes, "B.19": all_to_all,
    "F96": experts_bytes, "A.4": bubbles, "F52": first_stage, "F51": pipeline_speedup, "F55": one_f_one_b,
    "A.14": chunk_memory, "F80": many_chunks, "F57": recomputing, "A13-2": tensor_bytes, "A.13": tensor_width,
    "T5": communication_bound, "T10": step_floor, "F33": slower_computing, "B.9": slowest_worker,
    "B.15": geometric_mean, "F84": exact_interval,
}  # fmt: skip
"""First id of a line -> what decides it."""


@pytest.mark.parametrize("first", CHECKS)
def test_the_claim_is_decided(first: str) -> None:
    pairs = list(CHECKS[first]())
    assert pairs
    for computed, right in pairs:
        assert computed == pytest.approx(right, rel=1e-9)


def test_every_line_has_its_check_and_every_check_its_line() -> None:
    assert [ids.split()[0] for _, _, _, ids in ROWS] == list(CHECKS)
    named = [one for _, _, _, ids in ROWS for one in ids.split()]
    assert len(named) == len(set(named))
    table = PAGE.read_text(encoding="utf-8").split("|---|---|---|---|\n")[1].split("\n\n")[0]
    assert len(table.splitlines()) == len(ROWS)
