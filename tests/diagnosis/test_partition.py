"""Parts of a step against a count of moments, one by one."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lockstep.explain.classes import CLASSES, COMMUNICATION
from lockstep.explain.partition import partition
from lockstep.explain.steps import Window
from lockstep.explain.trace import RankTrace, Spans, sorted_spans

TICK_S = 1e-4
TICKS = 120


def drawn(chance: random.Random) -> tuple[RankTrace, np.ndarray]:
    """A trace on a grid of moments, and when the last rank of each of its collectives arrived."""
    rows, arrived = [], []
    for _ in range(chance.randint(3, 25)):
        start = chance.randrange(-5, TICKS)
        end = start + chance.randint(1, 20)
        kind = chance.choice([0, 1, 3, COMMUNICATION, COMMUNICATION])
        rows.append((start, end, kind, chance.randrange(4), start - chance.choice([-3, 0, 1, 40])))
    start, end, kind, stream, called = (np.array(column) for column in zip(*rows, strict=True))
    none = np.full(len(rows), -1)
    group = np.where(kind == COMMUNICATION, 0, -1)
    spans = sorted_spans(
        Spans(
            start * TICK_S, end * TICK_S, kind, np.zeros_like(kind), stream, called * TICK_S, group, group,
            np.zeros(len(rows)), none, none,
        )
    )  # fmt: skip
    for i in range(len(spans)):
        late = chance.choice([0, 2, 5, 50, None])
        moment = np.nan if late is None else spans.start_s[i] + late * TICK_S
        arrived.append(moment if spans.kind[i] == COMMUNICATION else np.nan)
    trace = RankTrace("", 0, 1, "", "", 0, ("dp",), spans)
    return trace, np.array(arrived)


def counted(trace: RankTrace, arrived: np.ndarray) -> dict[str, float]:
    """The same by asking at every moment what runs."""
    spans, found = trace.spans, {"waiting": 0.0, "transfer": 0.0, "idle": 0.0}
    for tick in range(TICKS):
        at = (tick + 0.5) * TICK_S
        runs = [i for i in range(len(spans)) if spans.start_s[i] < at < spans.end_s[i]]
        computing = [int(spans.kind[i]) for i in runs if spans.kind[i] != COMMUNICATION]
        if computing:
            name = CLASSES[min(computing)]
        elif runs:
            # Of several the one that began first and has not ended, at equal starts the longest.
            first = min(runs)
            name = "waiting" if np.isfinite(arrived[first]) and at < arrived[first] else "transfer"
        else:
            name = "idle"
        found[name] = found.get(name, 0.0) + TICK_S
    return found


@pytest.mark.parametrize("seed", range(60))
def test_parts_of_a_step_match_a_moment_by_moment_count(seed: int) -> None:
    """Classes, waiting, transfer and idle time are what a count of moments gives, and add up."""
    trace, arrived = drawn(random.Random(seed))
    one = partition(trace, Window(0, 0.0, TICKS * TICK_S), arrived)
    expected = counted(trace, arrived)
    for name, seconds in one.compute_s.items():
        assert seconds == pytest.approx(expected.pop(name, 0.0), abs=1e-9)
    assert sum(one.idle_s.values()) == pytest.approx(expected.pop("idle"), abs=1e-9)
    transfer, waiting = float(one.exposed.transfer_s.sum()), float(np.nansum(one.exposed.waiting_s))
    assert transfer + waiting == pytest.approx(expected["transfer"] + expected["waiting"], abs=1e-9)
    parts = one.parts(trace, {"dp": "dp"})
    assert sum(parts.values()) == pytest.approx(TICKS * TICK_S, rel=1e-12)
    assert min(parts.values()) > 0


def one_gap(called_s: float, waits: tuple[float, float] = (0.0, 0.0), gap_s: float = 1e-3) -> dict[str, float]:
    """Idle time between two kernels, the second of which was launched at `called_s` after the first ended."""
    start = np.array([0.0, 1e-3 + gap_s])
    end = start + 1e-3
    none = np.full(2, -1)
    called = np.array([-1e-3, 1e-3 + called_s])
    zero = np.zeros(2)
    spans = Spans(start, end, none * 0, none * 0, none * 0, called, none, none, zero, none, none)
    host = np.array([1e-3 + waits[0]]), np.array([1e-3 + waits[1]])
    trace = RankTrace("", 0, 1, "", "", 0, ("gemm",), spans, waits=host if waits[1] else (np.zeros(0), np.zeros(0)))
    found = partition(trace, Window(0, 0.0, float(end[1])), np.full(2, np.nan)).idle_s
    return {name: seconds for name, seconds in found.items() if seconds}


def test_idle_time_is_attributed_to_its_causes() -> None:
    """By the launch of what ends it, and by what the host did until then."""
    assert one_gap(called_s=0.9e-3) == {"idle.host": pytest.approx(1e-3)}
    assert one_gap(called_s=0.9e-3, waits=(-0.5e-3, 0.8e-3)) == {"idle.sync": pytest.approx(1e-3)}
    assert one_gap(called_s=-0.2e-3) == {"idle.dependency": pytest.approx(1e-3)}
    assert one_gap(called_s=2e-6, gap_s=3e-6) == {"idle.gaps": pytest.approx(3e-6)}
    assert one_gap(called_s=float("nan")) == {"idle.unknown": pytest.approx(1e-3)}


@pytest.mark.parametrize(
    ("before_s", "after_s", "cause"),
    [(1.2e-3, 3e-3, "idle.host"), (-1e-3, 0.9e-3, "idle.dependency"), (-1e-3, 3e-3, "idle.unknown")],
)
def test_idle_time_is_attributed_with_lost_launches(before_s: float, after_s: float, cause: str) -> None:
    """Between 1 and 2 ms the device waits for a kernel whose launch is lost; its stream's kernels before and after it
    were launched at known times, so it was launched between them.
    """
    start, end = np.array([0.0, 2e-3, 3e-3]), np.array([1e-3, 3e-3, 4e-3])
    called, none = np.array([before_s, np.nan, after_s]), np.full(3, -1)
    spans = Spans(start, end, none * 0, none * 0, none * 0, called, none, none, np.zeros(3), none, none)
    trace = RankTrace("", 0, 1, "", "", 0, ("gemm",), spans)
    found = partition(trace, Window(0, 0.0, 4e-3), np.full(3, np.nan)).idle_s
    assert {name: seconds for name, seconds in found.items() if seconds} == {cause: pytest.approx(1e-3)}
    graphs = partition(replace(trace, graphs=True), Window(0, 0.0, 4e-3), np.full(3, np.nan)).idle_s
    assert graphs["idle.unknown"] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("ends_s", "kind", "starved_s", "disputed_s"),
    [(5e-3, "dp", 1.9e-3, 0.0), (2e-3, "dp", 0.0, 1e-3), (2e-3, "pp", 0.0, 0.0), (5e-3, "pp", 1.9e-3, 0.0)],
)
def test_a_launch_during_a_transfer_counts_as_late_by_when_the_transfer_ends(
    ends_s: float, kind: str, starved_s: float, disputed_s: float
) -> None:
    """A kernel that is launched while a transfer moves did not need it if it still moves when the kernel starts. If it
    has ended, that is open, and a message was needed.
    """
    start, end = np.array([0.0, 0.5e-3, 3e-3]), np.array([1e-3, ends_s, 6e-3])
    kinds, called = np.array([0, COMMUNICATION, 0]), np.array([-1e-3, -1e-3, 2.9e-3])
    none, group = np.full(3, -1), np.array([-1, 0, -1])
    spans = Spans(start, end, kinds, none * 0, none * 0, called, group, none, np.zeros(3), none, none)
    trace = RankTrace("", 0, 1, "", "", 0, ("group",), spans)
    one = partition(trace, Window(0, 0.0, 6e-3), start, {"group": kind})
    assert (one.starved_s, one.disputed_s) == (pytest.approx(starved_s), pytest.approx(disputed_s))
