"""Bubbles, speed-ups and held micro-batches of pipeline schedules, replayed from their programs.

`options` of a schedule: chunks, recompute_frac, and forward_s and backward_s of one micro-batch on a device, else 1 and
2 s.
"""

from __future__ import annotations

import math
from typing import Any

from lockstep.check.evidence.claims.deciders import decides
from lockstep.simulate.parallel.pipeline import pipeline
from lockstep.simulate.play import simulate

FORWARD_S, BACKWARD_S = 1.0, 2.0


@decides("simulated")
def bubble(stages: int, microbatches: int, schedule: str, **options: Any) -> float:
    """Share of a step in which a device waits."""
    return pipeline(schedule, stages, microbatches, **options).bubble_frac


@decides("simulated")
def busy(stages: int, microbatches: int, schedule: str, **options: Any) -> float:
    """Share of a step in which a device computes."""
    return pipeline(schedule, stages, microbatches, **options).utilization_frac


@decides("priced")
def busy_frac(stages: int, microbatches: int, chunks: int) -> float:
    """Share of a step in which a device computes, by the closed form, also for numbers that no schedule runs."""
    return microbatches / (microbatches + (stages - 1) / chunks)


@decides("simulated")
def speedup(stages: int, microbatches: int, schedule: str, **options: Any) -> float:
    """Time of the same work on one device, which recomputes nothing, over that of the pipeline."""
    alone_s = microbatches * stages * (FORWARD_S + BACKWARD_S)
    return alone_s / pipeline(schedule, stages, microbatches, **options).makespan_s


@decides("simulated")
def makespan_s(stages: int, microbatches: int, schedule: str, **options: Any) -> float:
    """Seconds of a step."""
    return pipeline(schedule, stages, microbatches, **options).makespan_s


@decides("simulated")
def idle_s(stages: int, microbatches: int, stage: int, schedule: str, **options: Any) -> float:
    """Seconds in which a stage waits."""
    found = pipeline(schedule, stages, microbatches, **options)
    return float(simulate(found.program).idle_s()[stage, "compute"])


@decides("counted")
def held(stages: int, microbatches: int, schedule: str, **options: Any) -> float:
    """Micro-batches whose activations the first device holds at most, in units of all its layers."""
    first, *_ = pipeline(schedule, stages, microbatches, **options).peak_live_microbatches
    return first


@decides("counted")
def held_over(stages: int, microbatches: int, chunks: int) -> float:
    """Micro-batches held by the first device with chunks over those of 1F1B."""
    return held(stages, microbatches, "interleaved", chunks=chunks) / held(stages, microbatches, "1f1b")


@decides("counted")
def sent_B(stages: int, microbatches: int, schedule: str, message_B: float, **options: Any) -> float:
    """Bytes that all devices send in a step whose messages are of `message_B`."""
    return float(sum(pipeline(schedule, stages, microbatches, message_B=message_B, **options).sent_B))


@decides("simulated")
def makespan_ratio(stages: int, microbatches: int, schedule: str, other: str) -> float:
    """Seconds of a step of one schedule over those of another."""
    return makespan_s(stages, microbatches, schedule) / makespan_s(stages, microbatches, other)


@decides("simulated")
def recompute_ratio(stages: int, microbatches: int) -> float:
    """Seconds of a step that recomputes all activations over those of one that keeps them."""
    again_s = makespan_s(stages, microbatches, "1f1b", recompute_frac=1.0)
    return again_s / makespan_s(stages, microbatches, "1f1b")


@decides("simulated")
def most_gain(stages: int, microbatches: int) -> float:
    """Gain of a step without any bubble over 1F1B."""
    return 1 / busy(stages, microbatches, "1f1b")


@decides("priced")
def checkpointed_growth(layers: int, times: int) -> float:
    """Activations held with `times` as many layers over those with `layers`, checkpoints spaced best."""
    return _checkpointed(times * layers) / _checkpointed(layers)


def _checkpointed(layers: int) -> int:
    """Inputs kept every sqrt(layers) layers, and the layers between two of them, which are computed again."""
    spacing = round(math.sqrt(layers))
    return math.ceil(layers / spacing) + spacing - 1
