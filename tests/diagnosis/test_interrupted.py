"""What takes one rank longer: kernels that are all slow alike, launches that something stops, or a late host."""

from __future__ import annotations

import numpy as np
import pytest

from lockstep.explain.classes import COMMUNICATION
from lockstep.explain.measure import measure
from lockstep.explain.trace import Mark, RankTrace, Spans

STEPS, KERNELS = 6, 20
USUAL_S = np.where(np.arange(KERNELS) % 5 == 4, 1e-2, 1e-3)
"""Of one name but two shapes, the larger ones ten times as long."""
REDUCE_S = 1e-3


def rank(number: int, took_s: list[np.ndarray], step_s: float, pause_s: float = 0.0) -> RankTrace:
    """Steps of kernels one after another, late by a pause, then a sum that ends when all ranks have come to it."""
    starts, ends, kinds = [], [], []
    for step, durations in enumerate(took_s):
        edges = step * step_s + pause_s + np.concatenate(([0.0], np.cumsum(durations)))
        end = (step + 1) * step_s
        starts += [*edges[:-1], edges[-1]]
        ends += [*edges[1:], end]
        kinds += [0] * KERNELS + [COMMUNICATION]
    kind, start = np.array(kinds), np.array(starts)
    sums = np.where(kind == COMMUNICATION, 0, -1)
    none, name = np.full(len(kind), -1), np.where(kind == COMMUNICATION, 1, 2)
    size = np.where(kind == COMMUNICATION, 1e6, 0.0)
    spans = Spans(start, np.array(ends), kind, name, np.full(len(kind), 7), start - 1e-6, sums, sums, size, none, none)
    marks = tuple(Mark(f"ProfilerStep#{i}", i * step_s - 1e-5, (i + 1) * step_s - 1e-5) for i in range(STEPS))
    return RankTrace(
        "", number, 2, "", "one", 0, ("all_reduce", "ring", "gemm"), spans, marks, groups={"all_reduce": (0, 1)}
    )


@pytest.mark.parametrize("why", ["kernels", "interrupted", "host"])
def test_slow_kernels_interruptions_and_late_hosts_are_distinguished(why: str) -> None:
    """A clock at 1 / 1.5, two launches of each step stopped for 30 ms, and a launch that comes 40 ms late."""
    usual = [USUAL_S] * STEPS
    stopped = USUAL_S + np.where(np.isin(np.arange(KERNELS), (3, 11)), 0.03, 0.0)
    took, pause_s = {
        "kernels": ([1.5 * USUAL_S] * STEPS, 0.0), "interrupted": ([stopped] * STEPS, 0.0), "host": (usual, 0.04)
    }[why]  # fmt: skip
    step_s = float(took[0].sum()) + pause_s + REDUCE_S
    found = measure([rank(0, usual, step_s), rank(1, took, step_s, pause_s)])
    (slow,) = found.stragglers
    assert (slow.rank, slow.kind, slow.why) == (1, "stays", why)
    assert slow.cost_s == pytest.approx(step_s - REDUCE_S - float(USUAL_S.sum()), rel=1e-6)
