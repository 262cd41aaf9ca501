"""Shares of a gap as causes in words: which ones count, what they say, and what to change.

A gap inside the prediction's own interval is as predicted. Outside of it, rates and links that differ are causes. What
shows in the measured run alone, as ranks that differ, a late host or unfused attention, is a cause anyway, from 2 % of
the step on beyond what was predicted of it. The MFU of a cause is a ceiling: that of a step without its seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.answer import Cause, Straggler
from lockstep.explain.classes import FUSED_ATTENTION, SOFTMAX
from lockstep.explain.gap import REST, Share
from lockstep.explain.replay import Factors
from lockstep.explain.seen import Seen

COUNTS_FRAC = 0.02
MOST_CHANGES = 3
NAMES = {"tp": "tensor-parallel", "cp": "context-parallel", "ep": "expert", "dp": "data-parallel", "pp": "pipeline"}
WAYS = {"idle.input": "input", "idle.sync": "sync"}


@dataclass(frozen=True, slots=True)
class Facts:
    """The evidence from which causes are determined."""

    estimate: Estimate
    seen: Seen
    factors: Factors
    shares: Sequence[Share]
    stragglers: Sequence[Straggler]
    late_s: float
    """What the prediction expects ranks to wait for slower ones."""

    @property
    def measured_s(self) -> float:
        """The measured step."""
        return float(self.seen.step_s.mean())

    @property
    def inside(self) -> bool:
        """Whether the step is where it was predicted, the waiting that is predicted for slower ranks or without it."""
        found = self.estimate.interval
        return found.low - self.late_s <= self.measured_s <= found.high


@cache
def _texts() -> Json:
    return shipped_table(__package__, "causes.toml")


def causes(facts: Facts) -> tuple[Cause, ...]:
    """What explains the gap, the most expensive first; none where the step is as predicted."""
    found = []
    for share in facts.shares:
        name, words = _told(facts, share.factor)
        counts = _texts()[name].get("measured", False) or not facts.inside if name else False
        if not counts or share.seconds < COUNTS_FRAC * facts.measured_s + facts.late_s * (share.factor == "ranks"):
            continue
        text = _texts()[name]
        left_s = facts.measured_s - share.seconds
        ceiling = facts.estimate.mfu_frac * facts.estimate.step_time_s / left_s if left_s > 0 else None
        sure = "measured" if text.get("measured") else "replayed"
        found.append(
            Cause(text["says"].format(**words), share.seconds, ceiling, sure, text["change"].format(**words), name)
        )
    return tuple(sorted(found, key=lambda one: -(one.seconds or 0.0)))


def _told(facts: Facts, factor: str) -> tuple[str, Json]:
    """(key of the texts, what they are filled with); an empty key where nothing is to be told."""
    found = facts.factors
    if factor.endswith(" link"):
        kind = factor.split()[0]
        return "link", {"group": NAMES[kind], "times": found.links[kind]}
    if factor == "ranks":
        if len(facts.seen.traces) < 2:
            return "", {}
        first = facts.stragglers[0] if facts.stragglers else None
        if first is not None and first.kind == "stays":
            return "interrupted" if first.why == "interrupted" else "ranks", {"rank": first.rank}
        return ("rotating", {}) if first is not None else _slowest(facts)
    if factor == "experts":
        return "experts", {"rank": _rank(_most(found.experts, facts), facts)}
    if factor == "stages":
        stage = int(np.argmax(found.stages))
        others = np.delete(found.stages, stage)
        return "stages", {
            "stage": stage,
            "times": float(found.stages[stage] / np.median(others)) if len(others) else 1.0,
        }
    if factor == "overlap":
        return "overlap", {"group": " and ".join(NAMES[kind] for kind in found.not_hidden)}
    if factor == "host":
        return _idle(facts), {}
    if factor == "attention" and _unfused(facts):
        return "unfused", {}
    return ("", {}) if factor == REST else (factor, {"times": found.classes.get(factor, 1.0)})


def _slowest(facts: Facts) -> tuple[str, Json]:
    """Of ranks whose lateness delays no other rank."""
    ranks = facts.factors.ranks
    worst = {int(np.argmax(row)) for row in ranks}
    return ("ranks", {"rank": _rank(_most(ranks, facts), facts)}) if len(worst) == 1 else ("rotating", {})


def _rank(place: int, facts: Facts) -> int:
    """The rank at a place; of a lone trace that does not say its rank, 0."""
    rank = facts.seen.traces[place].rank
    return place if rank is None else rank


def _most(values: Floats, facts: Facts) -> int:
    """Place of the rank with most."""
    return min(int(np.argmax(values.mean(axis=0))), len(facts.seen.traces) - 1)


def _idle(facts: Facts) -> str:
    """What the host does when it is late."""
    total = dict.fromkeys(("idle.host", *WAYS), 0.0)
    for each in facts.seen.partitions:
        for one in each:
            for name in total:
                total[name] += one.idle_s.get(name, 0.0)
    return WAYS.get(max(total, key=lambda name: total[name]), "host")


def _unfused(facts: Facts) -> bool:
    """Whether attention was to be fused and no fused kernel ran, but softmax."""
    names = {trace.name(i) for trace in facts.seen.traces for i in np.unique(trace.spans.name).tolist()}
    fused = any(FUSED_ATTENTION.search(name) for name in names)
    return facts.estimate.job.recipe.flash_attention and not fused and any(SOFTMAX.search(name) for name in names)


def changes(found: Sequence[Cause]) -> tuple[Cause, ...]:
    """What to change first: at most three causes that say what to do."""
    return tuple(one for one in found if one.change)[:MOST_CHANGES]
