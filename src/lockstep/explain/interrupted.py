"""Slow, or interrupted: two ways in which the kernels of one rank take longer than those of its peers.

A slow clock makes all launches of a kernel longer alike. A rank whose core or device another process takes at times
runs most of them as fast as its peers, and a few, in which it was stopped, many times as long:

    interrupted = sum over kernels of   tail of the rank - (median of the rank / median of the peers) x tail of a peer
    tail        = what launches of more than `MANY` times their kernel's median take beyond it

Kernels of several shapes have such tails on every rank; the ratio of the medians makes them alike on a slow one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.arrays import Bools, Floats
from lockstep.explain.trace import RankTrace

if TYPE_CHECKING:
    from lockstep.explain.seen import Seen

MANY = 5.0
"""Times a kernel's median, beyond which a launch counts as stopped: assumed."""
MOST_FRAC = 0.5
"""Of the excess of kernels, from which on they are interrupted and not slow: assumed."""
HOST_TIMES = 2.0
"""Who stops a rank stops its host too: the excess of the host may be so many times that of the kernels (assumed)."""


def why(seen: Seen, place: int, others: Sequence[int], kernels_s: float, host_s: float) -> str:
    """What takes a rank longer than its peers: `interrupted`, `kernels` or `host`.

    Args: `place`, `others`: of the rank and its peers in `seen`; `kernels_s`, `host_s`: what it takes longer, in all
    steps together.
    """
    stopped_s = interrupted_s(seen, place, others) if host_s <= HOST_TIMES * kernels_s else 0.0
    if stopped_s > MOST_FRAC * kernels_s > 0:
        return "interrupted"
    return "host" if host_s > kernels_s else "kernels"


def interrupted_s(seen: Seen, place: int, others: Sequence[int]) -> float:
    """Seconds, in all steps together, that launches of a rank were stopped beyond those of its peers."""
    mine = _durations(seen, place)
    theirs = [_durations(seen, one) for one in others]
    found = 0.0
    for name, durations in mine.items():
        peers = [each[name] for each in theirs if name in each]
        usual_s = float(np.median(np.concatenate(peers))) if peers else 0.0
        if usual_s > 0:
            times = float(np.median(durations)) / usual_s
            found += _tail_s(durations) - times * sum(map(_tail_s, peers)) / len(peers)
    return found


def _tail_s(durations: Floats) -> float:
    usual_s = float(np.median(durations))
    return float((durations[durations > MANY * usual_s] - usual_s).sum())


def _durations(seen: Seen, place: int) -> dict[str, Floats]:
    """Of every launch that computes in the steps used, by kernel."""
    trace = seen.traces[place]
    spans = trace.spans.at(_used(trace, seen, place) & ~trace.spans.communicates)
    return {
        trace.name(name): (spans.end_s - spans.start_s)[spans.name == name] for name in np.unique(spans.name).tolist()
    }


def _used(trace: RankTrace, seen: Seen, place: int) -> Bools:
    start_s, windows = trace.spans.start_s, [one.window for one in seen.partitions[place]]
    return (start_s >= windows[0].start_s) & (start_s < windows[-1].end_s)
