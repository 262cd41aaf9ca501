"""The bubble of a pipeline in two: `split_bubble` tells what the schedule costs from what stages that differ do.

    bubble.schedule     what ranks wait for messages where all stages take the mean of their times, which no other cut
                        of the model avoids: the schedule simulated with the kernels, links and host that were measured
    bubble.imbalance    the rest: stages of unequal length, slow and late ranks

Both add up to the waiting for messages that was measured, or predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lockstep.explain.factors import shown
from lockstep.explain.measure import mean_parts
from lockstep.explain.ranks import SHARES, AllRanks
from lockstep.explain.replay import Factors, Replay

WAITING, SCHEDULE, IMBALANCE = "pp_comm.waiting", "bubble.schedule", "bubble.imbalance"


def split_bubble(parts: Mapping[str, float], one: AllRanks, found: Factors) -> dict[str, float]:
    """Parts of a step, in seconds, with the waiting for messages as the two bubbles.

    Args: `parts`: of the step; `found`: how it differs from the predicted one. Without a pipeline nothing changes.
    """
    split = dict(parts)
    waiting_s = split.pop(WAITING, 0.0)
    if waiting_s:
        split[SCHEDULE] = min(waiting_s, _schedule_s(one, found))
        split[IMBALANCE] = waiting_s - split[SCHEDULE]
    return split


def _schedule_s(one: AllRanks, found: Factors) -> float:
    """Seconds that ranks wait for messages where all stages take the mean of their times, the mean over ranks."""
    even = _evened(one, found)
    seen = shown(one, [Replay(one, even).timeline(even.names, 0)])
    return mean_parts([of for each in seen.parts() for of in each]).get(WAITING, 0.0)


def _evened(one: AllRanks, found: Factors) -> Factors:
    """The same kernels, links and host on average, with stages of equal length and no rank slower than others."""
    replay, stage = Replay(one, found), np.array(one.stages)
    updates = one.shares[:, SHARES.index("optimizer")] > 0
    computes = (replay.part == "compute") & ~updates
    classes = [name for name in found.names if name in found.classes]
    seconds = np.where(computes, replay.durations_s(classes, 0)[0], 0.0)
    own_s = np.bincount(one.program.rank, seconds, one.program.ranks)
    took_s = own_s * found.stages[stage] * found.ranks.mean(axis=0)
    by_stage = np.array([own_s[stage == at].mean() for at in range(len(found.stages))])
    alike = np.ones((1, one.program.ranks))
    return replace(
        found, stages=float(took_s.mean()) / by_stage, ranks=alike, experts=alike,
        host_s=alike * float(found.host_s.mean()),
    )  # fmt: skip
