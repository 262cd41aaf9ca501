"""First operations of steps and what operations lost, on drawn streams that repeat."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lockstep.explain.classes import COMMUNICATION
from lockstep.explain.streams import refilled, streams_of
from lockstep.explain.trace import RankTrace, Spans

STEP_S, STEPS = 1.0, 4


def drawn(chance: random.Random) -> tuple[RankTrace, RankTrace, np.ndarray, list[float]]:
    """(a trace of one stream, the same without a fifth of its launches and groups, first operations, host's steps)."""
    period = chance.randint(1, 12)
    kinds = [chance.choice([0, COMMUNICATION]) for _ in range(period)]
    offsets = np.sort([chance.uniform(0.02, 0.6) for _ in range(period)])
    start = np.concatenate([step * STEP_S + offsets for step in range(STEPS)])
    kind = np.array(kinds * STEPS)
    group = np.where(kind == COMMUNICATION, np.tile([chance.randrange(2) for _ in kinds], STEPS), -1)
    called = start - chance.uniform(0.001, 0.02)
    place, none = np.tile(np.arange(period), STEPS), np.full(len(start), -1)
    size = np.where(kind == COMMUNICATION, 8.0 * (place + 1), 0.0)
    spans = Spans(start, start + 0.001, kind, place, none * 0, called, group, group, size, none, none)
    whole = RankTrace("", 0, 1, "", "", 0, tuple("abcdefghijklm"), spans)
    lost = np.array([chance.random() < 0.2 for _ in start])
    fewer = Spans(
        start, start + 0.001, kind, place, none * 0, np.where(lost, np.nan, called), np.where(lost, -1, group),
        np.where(lost, -1, group), np.where(lost, 0.0, size), none, none,
    )  # fmt: skip
    cut = RankTrace("", 0, 1, "", "", 0, whole.names, fewer)
    return whole, cut, np.arange(STEPS) * period, [step * STEP_S for step in range(STEPS)]


@pytest.mark.parametrize("seed", range(60))
def test_steps_identified_with_certainty_are_right(seed: int) -> None:
    """Where launches and repetition settle it; and then all that other steps say is found again."""
    whole, cut, first, begins_s = drawn(random.Random(seed))
    for stream in streams_of(cut, begins_s):
        np.testing.assert_array_equal(stream.first[stream.certain], first[stream.certain])
        if not stream.period:
            continue
        found = refilled(cut, begins_s).spans
        period, lost = stream.period, cut.spans.group < whole.spans.group
        said = np.array([not lost[i % period :: period].all() for i in range(len(lost))])
        for name in ("group", "op", "size_B", "peer"):
            np.testing.assert_array_equal(getattr(found, name)[said], getattr(whole.spans, name)[said])
        launched = np.isfinite(found.called_s)
        assert launched[said].all()
        np.testing.assert_allclose(found.called_s[launched], whole.spans.called_s[launched], rtol=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_lost_launches_are_placed_between_their_neighbours(seed: int) -> None:
    """A stream runs operations in the order of their launches, also where delays differ from step to step."""
    chance = random.Random(seed)
    _, cut, _, begins_s = drawn(chance)
    spans = cut.spans
    start_s = spans.start_s + np.array([chance.uniform(0.0, 0.015) for _ in spans.start_s])
    trace = replace(cut, spans=replace(spans, start_s=np.maximum.accumulate(start_s), end_s=start_s + 0.02))
    found, (low, high) = refilled(trace, begins_s).spans.called_s, trace.launched_s
    known = np.isfinite(found)
    assert ((low <= found) & (found <= high))[known].all()
    assert (found <= trace.spans.start_s)[known].all()


def test_most_streams_are_identified_with_certainty() -> None:
    """Of the same 60, with a fifth lost."""
    certain = []
    for seed in range(60):
        _, cut, _, begins_s = drawn(random.Random(seed))
        certain += [bool(stream.certain.all()) for stream in streams_of(cut, begins_s)]
    assert np.mean(certain) > 0.9


def test_non_repeating_steps_are_divided_at_the_longest_pause() -> None:
    """The longest pause settles what launches leave open."""
    start = np.array([0.1, 0.2, 0.3, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 2.3, 2.4, 2.5])
    called = np.floor(start) + 0.05
    called[[2, 3, 9]] = np.nan
    none, zero = np.full(12, -1), np.zeros(12)
    spans = Spans(start, start + 0.05, none * 0, none * 0, none * 0, called, none, none, zero, none, none)
    (stream,) = streams_of(RankTrace("", 0, 1, "", "", 0, ("a",), spans), [0.0, 1.0, 2.0])
    assert stream.first.tolist() == [0, 3, 9]
    assert stream.certain.tolist() == [True, False, False]
    assert stream.period == 0


def test_uninformative_streams_are_divided_at_their_pauses() -> None:
    """Of 40,000 operations with two known launches, any number per step would fit; steps take a time each to try."""
    start = np.concatenate([step + np.linspace(0.1, 0.6, 10_000) for step in range(4)])
    called = np.where(np.isin(np.arange(40_000), (0, 39_999)), start - 0.01, np.nan)
    none, zero = np.full(40_000, -1), np.zeros(40_000)
    spans = Spans(start, start + 1e-6, none * 0, none * 0, none * 0, called, none, none, zero, none, none)
    (stream,) = streams_of(RankTrace("", 0, 1, "", "", 0, ("a",), spans), [0.0, 1.0, 2.0, 3.0])
    assert stream.period == 0
    assert not stream.certain[1:].any()
    assert set(stream.first[1:].tolist()) <= {10_000, 20_000, 30_000}
