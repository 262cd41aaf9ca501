"""1F1B (PipeDream-Flush): stage s warms up with p - s forward passes, then alternates one backward, one forward.

    makespan = (m + p - 1)(f + b) for equal stages: the bubble of GPipe
    peak live micro-batches = min(m, p - s): less memory than GPipe, not less bubble

With heavier ends (c_0 first, c_l last, c middle stage, f + b each; S = p c + extras) the makespan is the longest of

    S + (m - 1) c_l                       the last stage never waits after its first pass; alone when c_0 = c
    2 S + (m - 1 - p) c_0                 m > p: down and up, round the first stage, down and up again
    S + (m - q - 1) c_0 + q max(f_0, b_0) q = min(m, p) - 1: warm-up or cool-down spent on the first stage
    (m - 1) c_0 + c_0 + ... + c_e         e = max(0, p - m): the first stage never waits

exact for equal middle stages and ends not lighter than they are. For any stages the makespan of GPipe bounds it from
above, with equality when the last stage is the slowest of both passes.
Overlapped messages of d seconds: (m + p - 1)(f + b) + 2 d (m + p - 2 - ceil((m - 1) / p)), exact for equal stages:
every p micro-batches a chain of dependencies goes once round the whole pipeline, so delays are paid again and
again, unlike in GPipe.

p stages, m micro-batches, s stage; f, b seconds of a forward and a backward pass.

Source: Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training" (arXiv 2006.09503), section 2.2
(PipeDream-Flush). The unequal and delayed forms are longest paths derived here and held against the simulation.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.simulate.parallel.pipeline.schedule import Domain, Order, Schedule, register
from lockstep.simulate.parallel.pipeline.times import Times


def makespan_s(stages: Number, microbatches: Number, chunks: Number, times: Times) -> Number:
    """Seconds of a step."""
    p, m = stages, microbatches
    forward_s, backward_s = times.held(p)
    middle_s = forward_s + backward_s
    walk_s = p * middle_s + times.first_s + times.last_s
    last_s = middle_s + np.where(np.equal(p, 1), times.first_s + times.last_s, times.last_s)
    straight_s = np.maximum(walk_s + (m - 1) * last_s, _first_stage_paths_s(p, m, forward_s, backward_s, times))
    delay_s = times.delay_s(p)
    rounds, rest = np.divmod(m - 1, p)
    tail_s = np.where(rest > 0, (rest - 1) * (middle_s + 2 * delay_s) + last_s, 0.0)
    around_s = walk_s + 2 * (p - 1) * delay_s
    return np.maximum(straight_s + 2 * (p - 1) * delay_s, (rounds + 1) * around_s + tail_s)


def _first_stage_paths_s(p: Number, m: Number, forward_s: Number, backward_s: Number, times: Times) -> Number:
    """Longest path that spends its time on the first stage, in seconds."""
    middle_s = forward_s + backward_s
    walk_s = p * middle_s + times.first_s + times.last_s
    first_s = middle_s + times.first_s + np.where(np.equal(p, 1), times.last_s, 0.0)
    heavier_s = np.maximum(forward_s + times.first_forward_s, backward_s + times.first_backward_s)
    ends = np.minimum(m, p) - 1
    lane_s = walk_s + (m - 1 - ends) * first_s + ends * heavier_s
    round_s = np.where(m > p, 2 * walk_s + (m - 1 - p) * first_s, 0.0)
    stay_s = m * first_s + np.maximum(0, p - m) * middle_s
    longest_s: Number = np.maximum(np.maximum(lane_s, round_s), stay_s)
    return longest_s


def peak_live(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    """Micro-batches held at most by device `stage`."""
    return np.minimum(microbatches, stages - stage)


def order(stages: int, microbatches: int, chunks: int = 1) -> Order:
    """Warm-up of p - s forward passes on stage s, then B and F in turn."""
    return [alternating(microbatches, stages - s) for s in range(stages)]


def alternating(microbatches: int, warmup: int) -> list[tuple[str, int, int]]:
    """`warmup` forward passes, then one backward and one forward in turn, then the backward passes that are left."""
    ahead = min(warmup, microbatches)
    lane = [("F", i, 0) for i in range(ahead)]
    for i in range(microbatches):
        lane.append(("B", i, 0))
        if ahead + i < microbatches:
            lane.append(("F", ahead + i, 0))
    return lane


ONE_F_ONE_B = register(
    Schedule(
        name="1f1b",
        source="Narayanan et al. 2021 (arXiv 2006.09503), section 2.2",
        papers=("narayanan2021memory",),
        formula="(m + p - 1)(f + b); heavier last stage: sum c_s + (m - 1) c_last",
        exact="equal middle stages, heavier first and last stage, blocking messages; overlapped messages: equal stages",
        domain=Domain(ends=("first", "last"), error_frac=(-0.02, 0.0)),
        makespan=makespan_s,
        peak_live=peak_live,
        order=order,
    )
)
