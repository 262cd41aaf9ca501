"""Long traces: what is held follows the events, not the number of steps among which they are divided."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from lockstep.explain.classes import COMMUNICATION
from lockstep.explain.measure import measure
from lockstep.explain.trace import Mark, RankTrace, Spans

EVENTS = 48_000
EACH_S = 1e-4


def run(steps: int) -> RankTrace:
    """One rank's kernels, every eighth a collective, with a pause after each, in `steps` steps of equal length."""
    start = np.arange(EVENTS) * EACH_S
    kind = np.where(np.arange(EVENTS) % 8 == 7, COMMUNICATION, 0)
    none = np.full(EVENTS, -1)
    group = np.where(kind == COMMUNICATION, 0, -1)
    spans = Spans(
        start, start + 0.8 * EACH_S, kind, np.ones_like(kind), np.full(EVENTS, 7), start - EACH_S, group, group,
        np.zeros(EVENTS), none, none,
    )  # fmt: skip
    long_s = EVENTS * EACH_S / steps
    marks = tuple(
        Mark(f"ProfilerStep#{i}", i * long_s - 1.5 * EACH_S, (i + 1) * long_s - 1.5 * EACH_S) for i in range(steps)
    )
    return RankTrace("", 0, 1, "", "", 0, ("dp", "gemm"), spans, marks)


def peak_B(trace: RankTrace) -> tuple[int, float]:
    """(most bytes held while the trace was measured, computing seconds of a step)."""
    tracemalloc.start()
    found = measure([trace])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, next(part.measured_s or 0.0 for part in found.parts if part.part == "compute.matmul")


def test_memory_depends_on_events_and_not_on_steps() -> None:
    """Twenty times as many steps of the same events: nearly as much is held, and each has a twentieth of the work."""
    peak_B(run(12))  # What is kept from the first call on is nobody's.
    (few_B, few_s), (many_B, many_s) = peak_B(run(12)), peak_B(run(240))
    assert many_s == pytest.approx(few_s / 20, rel=1e-6)
    assert many_B < 1.3 * few_B
