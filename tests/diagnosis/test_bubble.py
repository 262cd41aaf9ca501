"""The bubble in two against the closed form of 1F1B, and a message's speed factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lockstep.explain.bubble import IMBALANCE, SCHEDULE, WAITING, split_bubble
from lockstep.explain.factors import factors, predicted_seen, shown
from lockstep.explain.measure import mean_parts
from lockstep.explain.ranks import AllRanks, all_ranks
from lockstep.explain.replay import Factors, Replay, as_predicted, same
from lockstep.show.verbs.estimate import estimate

STAGES, MICRO_BATCHES = 4, 8


@pytest.fixture(scope="module")
def one() -> AllRanks:
    """Four stages on four devices."""
    found = estimate("gpt2-xl", "dgx-h100:1", pp=STAGES, micro_batch=1, batch=2 * MICRO_BATCHES, seq=1024)
    return all_ranks(found, range(found.layout.world))


def waiting(one: AllRanks, found: Factors) -> dict[str, float]:
    """Parts of the replayed step, the mean over ranks."""
    seen = shown(one, [Replay(one, found).timeline(found.names, 0)])
    return mean_parts([of for each in seen.parts() for of in each])


def closed_form_s(one: AllRanks, found: Factors) -> float:
    """Mean waiting for messages in 1F1B whose stages all take the mean f and b of a micro-batch.

    Of (p - 1) (f + b) of idle time, stage s has s b behind its last pass, where it waits for the update instead.
    """
    replay = Replay(one, found)
    seconds, label = replay.durations_s(found.names, 0)[0], one.program.label
    names = [one.program.name(int(i)) for i in label.tolist()]
    sums = {
        way: sum(s for s, part, name in zip(seconds, one.part, names, strict=True) if part != "pp" and name[:1] == way)
        / one.program.ranks / MICRO_BATCHES for way in "FB"
    }  # fmt: skip
    return (STAGES - 1) * (sums["F"] + sums["B"]) - (STAGES - 1) / 2 * sums["B"]


@pytest.mark.parametrize("last", [1.0, 1.3])
def test_the_schedule_bubble_matches_its_closed_form(one: AllRanks, last: float) -> None:
    """However long the last stage is, as the mean counts; what it adds is imbalance. Both add up exactly."""
    clean = same(one.program.ranks, STAGES)
    found = replace(clean, stages=np.array([1.0, 1.0, 1.0, last]))
    parts = waiting(one, found)
    split = split_bubble(parts, one, found)
    assert WAITING not in split
    assert split[SCHEDULE] + split[IMBALANCE] == parts[WAITING]
    assert sum(split.values()) == pytest.approx(sum(parts.values()), rel=1e-12)
    assert split[SCHEDULE] == pytest.approx(closed_form_s(one, found), rel=0.05)
    if last > 1:
        before = split_bubble(waiting(one, clean), one, clean)
        assert split[IMBALANCE] > before[IMBALANCE] + 0.1 * parts[WAITING]


def test_without_a_pipeline_the_bubble_is_not_divided(one: AllRanks) -> None:
    """And of one rank, whose waiting nobody knows, neither."""
    parts = {"compute.matmul": 1.0, "pp_comm": 0.5}
    assert split_bubble(parts, one, same(one.program.ranks, STAGES)) == parts


@pytest.mark.parametrize("times", [0.5, 30.0])
def test_slow_pipeline_messages_have_a_speed_factor(one: AllRanks, times: float) -> None:
    """What is put on the program comes out of its traces, and nothing else."""
    slowed = replace(same(one.program.ranks, STAGES), links={"pp": times})
    seen = shown(one, [Replay(one, slowed).timeline(slowed.names, 0)])
    found = factors(one, seen, predicted_seen(one, as_predicted(one)))
    assert found.links["pp"] == pytest.approx(times, rel=0.01)
    assert Replay(one, found).step_s(found.names) == pytest.approx(Replay(one, slowed).step_s(slowed.names), rel=0.002)
