"""Latency and rate of links from the collectives of several ranks' traces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lockstep.describe.hardware import cluster as find_cluster
from lockstep.explain.link_times import fit_links
from lockstep.explain.read.kineto import read_kineto
from lockstep.explain.seen import Seen, see

RANKS = 8
LATENCY_S, RATE_BPS = 20e-6, 200e9
MIB = 1 << 20
SIZES_B = [MIB << i for i in range(9)]


def ring_s(size_B: float, rate_Bps: float) -> float:
    """An all-reduce by a ring over links of known latency and rate."""
    return 2 * (RANKS - 1) * (LATENCY_S + size_B / RANKS / rate_Bps)


def traces(folder: Path, sizes_B: list[int], noise: float = 0.0, rate_Bps: float = RATE_BPS) -> Seen:
    """Ranks that all-reduce buffers of these sizes three times, each rank arriving when it likes."""
    chance = np.random.default_rng(2)
    events: list[list[dict[str, object]]] = [[] for _ in range(RANKS)]
    clock_s = 1e-3
    for turn in range(3):
        began_s = clock_s
        for number, size_B in enumerate(sizes_B):
            arrived_s = clock_s + 1e-3 * chance.random(RANKS)
            end_s = float(arrived_s.max()) + ring_s(size_B, rate_Bps) * float(np.exp(noise * chance.standard_normal()))
            for rank in range(RANKS):
                args = {
                    "stream": 20, "device": 0, "correlation": 0, "Collective name": "allreduce",
                    "In msg nelems": size_B // 4, "Out msg nelems": size_B // 4, "dtype": "Float",
                    "Process Group Name": "0", "Process Group Ranks": str(list(range(RANKS))),
                }  # fmt: skip
                events[rank].append(
                    {
                        "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0,
                        "tid": 20, "ts": arrived_s[rank] * 1e6, "dur": (end_s - arrived_s[rank]) * 1e6, "args": args,
                    }
                )  # fmt: skip
            clock_s = end_s + 1e-4 * (number + 1)
        for rank in range(RANKS):
            mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{turn}", "pid": 1, "tid": 1}
            events[rank].append(mark | {"ts": began_s * 1e6, "dur": (clock_s - began_s) * 1e6})
    for rank, each in enumerate(events):
        head = {"traceEvents": each, "distributedInfo": {"rank": rank, "world_size": RANKS}}
        (folder / f"{rank}.json").write_text(json.dumps(head))
    return see([read_kineto(folder / f"{rank}.json") for rank in range(RANKS)])


def test_the_link_behind_the_times_is_recovered(tmp_path: Path) -> None:
    """Within its intervals, though ranks arrive up to a millisecond apart."""
    (found,), notes = fit_links(traces(tmp_path, SIZES_B, 0.01), find_cluster("dgx-h100:1"))
    assert not notes
    first, last = found.fit.segments[0], found.fit.segments[-1]
    assert first.latency_ci95_s[0] <= LATENCY_S <= first.latency_ci95_s[1]
    low, high = last.bandwidth_ci95_Bps
    assert high is not None
    assert low <= RATE_BPS <= high
    assert found.rate_Bps == pytest.approx(RATE_BPS, rel=0.03)


@pytest.mark.parametrize(
    ("sizes_B", "why"),
    [
        ([4 * MIB, 64 * MIB], "its collectives have 2 sizes, 3 are needed"),
        ([32 * MIB, 40 * MIB, 48 * MIB, 64 * MIB], "the largest must be 10 times the smallest"),
        ([4096 * MIB << i for i in range(6)], "its collectives, from 4 GiB on, are too large to determine the latency"),
    ],
    ids=["too few", "too close", "too large"],
)
def test_sizes_too_similar_to_fit_a_line_are_refused(sizes_B: list[int], why: str, tmp_path: Path) -> None:
    """A line through them would be made up."""
    found, (note,) = fit_links(traces(tmp_path, sizes_B, 0.02), find_cluster("dgx-h100:1"))
    assert not found
    assert why in note
    assert note.startswith("latency and rate of node are not told apart")


def test_times_that_do_not_lie_on_a_line_are_refused(tmp_path: Path) -> None:
    """As where something else decides how long they take."""
    found, (note,) = fit_links(traces(tmp_path, SIZES_B, 3.0), find_cluster("dgx-h100:1"))
    assert not found
    assert note


def test_a_rate_above_the_wire_is_refused(tmp_path: Path) -> None:
    """What was measured is not this cluster's link."""
    seen = traces(tmp_path, SIZES_B, rate_Bps=600e9)
    found, (note,) = fit_links(seen, find_cluster("dgx-h100:1"))
    assert not found
    assert "is above the 450 GB/s of the wire" in note
