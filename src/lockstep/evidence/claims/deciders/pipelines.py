"""Bubbles, speed-ups and held micro-batches of pipeline schedules, replayed from their programs."""

from __future__ import annotations

from typing import Any

from lockstep.evidence.claims.deciders import decides
from lockstep.parallel.pipeline import Pipeline, pipeline
from lockstep.simulate import simulate

FORWARD_S, BACKWARD_S = 1.0, 2.0


def _step(stages: int, microbatches: int, chunks: int, schedule: str, **times: Any) -> Pipeline:
    name = schedule or ("interleaved" if chunks > 1 else "1f1b")
    return pipeline(name, stages, microbatches, chunks=chunks if chunks > 1 else None, **times)


@decides("simulated")
def bubble(stages: int, microbatches: int, chunks: int = 1, schedule: str = "") -> float:
    """Share of a step in which a device waits."""
    return _step(stages, microbatches, chunks, schedule).bubble_frac


@decides("simulated")
def busy(stages: int, microbatches: int, chunks: int = 1, schedule: str = "") -> float:
    """Share of a step in which a device computes."""
    return _step(stages, microbatches, chunks, schedule).utilization_frac


@decides("priced")
def busy_frac(stages: int, microbatches: int, chunks: int = 1) -> float:
    """Share of a step in which a device computes, by the closed form, also for numbers that no schedule runs."""
    return microbatches / (microbatches + (stages - 1) / chunks)


@decides("simulated")
def speedup(stages: int, microbatches: int, chunks: int = 1, schedule: str = "", recompute: float = 0.0) -> float:
    """Time of the same work on one device, which recomputes nothing, over that of the pipeline."""
    alone_s = microbatches * stages * (FORWARD_S + BACKWARD_S)
    found = _step(stages, microbatches, chunks, schedule, recompute_frac=recompute)
    return alone_s / found.makespan_s


@decides("simulated")
def makespan_s(
    stages: int, microbatches: int, forward_s: float, backward_s: float, schedule: str = "", chunks: int = 1
) -> float:
    """Seconds of a step."""
    return _step(stages, microbatches, chunks, schedule, forward_s=forward_s, backward_s=backward_s).makespan_s


@decides("simulated")
def idle_s(stages: int, microbatches: int, chunks: int = 1, stage: int = 0, schedule: str = "") -> float:
    """Seconds in which a stage waits; a micro-batch takes it 3 s forward and backward."""
    return float(simulate(_step(stages, microbatches, chunks, schedule).program).idle_s()[stage, "compute"])


@decides("counted")
def held(stages: int, microbatches: int, chunks: int = 1, schedule: str = "") -> float:
    """Micro-batches whose activations the first device holds at most, in units of all its layers."""
    return _step(stages, microbatches, chunks, schedule).peak_live_microbatches[0]


@decides("counted")
def sent_messages(stages: int, microbatches: int, chunks: int = 1) -> float:
    """Bytes that all devices send in a step whose messages are of one byte."""
    return float(sum(_step(stages, microbatches, chunks, "", message_B=1.0).sent_B))


@decides("solved")
def microbatches_for(stages: int, busy_share: float) -> int:
    """Fewest micro-batches with which devices compute for at least that share of a step, by trying them in turn."""
    found = 1
    while _step(stages, found, 1, "").utilization_frac < busy_share * (1 - 1e-12):
        found += 1
    return found


@decides("counted")
def held_over(stages: int, microbatches: int, chunks: int) -> float:
    """Micro-batches held by the first device with chunks over those of 1F1B."""
    return held(stages, microbatches, chunks) / held(stages, microbatches)


@decides("simulated")
def makespan_ratio(stages: int, microbatches: int, schedule: str, other: str) -> float:
    """Seconds of a step of one schedule over those of another."""
    return _step(stages, microbatches, 1, schedule).makespan_s / _step(stages, microbatches, 1, other).makespan_s


@decides("simulated")
def recompute_ratio(stages: int, microbatches: int) -> float:
    """Seconds of a step that recomputes all activations over those of one that keeps them."""
    plain_s = _step(stages, microbatches, 1, "").makespan_s
    return _step(stages, microbatches, 1, "", recompute_frac=1.0).makespan_s / plain_s


@decides("simulated")
def most_gain(stages: int, microbatches: int) -> float:
    """Gain of a step without any bubble over 1F1B."""
    return 1 / busy(stages, microbatches)


@decides("counted")
def messages_ratio(stages: int, microbatches: int, chunks: int) -> float:
    """Messages of a step with chunks over those without."""
    return sent_messages(stages, microbatches, chunks) / sent_messages(stages, microbatches)
