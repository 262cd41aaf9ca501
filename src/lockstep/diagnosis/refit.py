"""`refit`: the cluster as a measured run shows it: how much longer kernels take, and what links reach.

    pace    seconds of products, attention and elementwise kernels over those predicted, all ranks alike
    links   of every level of the cluster, the share of its wire reached: that of the catalog over how many times as
            long the transfers of its groups take; groups that share a level by their predicted seconds

Slow ranks, uneven stages and tokens and a late host are left out: they are faults of the run, not of the hardware. The
error of a number is its standard deviation over ranks and steps, and at least `LEAST_ERROR_FRAC`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from lockstep.diagnosis.replay import LINKS, Factors
from lockstep.hardware import Cluster
from lockstep.hardware.source import Source
from lockstep.layout import group_summary
from lockstep.planner import Estimate

KERNELS = ("matmul", "attention", "elementwise")
GROUPS = {"dp": "data", "tp": "tp", "cp": "cp", "ep": "ep"}
LEAST_ERROR_FRAC = 0.01
SAME_FRAC = 0.02
"""A link within so much of the prediction stays as it is."""


@dataclass(frozen=True, slots=True)
class Refit:
    """A cluster as a run shows it."""

    cluster: Cluster
    """With links as measured; its kernels are as before, `pace` times as slow."""
    pace: float
    error_frac: float
    links: Mapping[str, float]
    """Measured over predicted transfer, by level of the cluster."""
    reached_Bps: Mapping[str, float]
    """Bytes per second of one link, by level."""

    @property
    def paced(self) -> Cluster:
        """The cluster with its pace."""
        device = self.cluster.device.paced(self.pace, self.error_frac, SOURCE, _today())
        return replace(self.cluster, device=device)


SOURCE = "lockstep diagnose on traces of a run"


def refit(estimate: Estimate, found: Factors) -> Refit:
    """The cluster of an estimate as the run shows it."""
    weight = {name: found.compared[name][0] for name in KERNELS if name in found.classes}
    total = sum(weight.values())
    pace = sum(found.classes[name] * weight[name] for name in weight) / total if total else 1.0
    seen = found.ranks[found.ranks != 1.0]
    error = max(LEAST_ERROR_FRAC, float(np.std(seen)) if len(seen) else 0.0)
    factors = _levels(estimate, found)
    cluster, reached = estimate.cluster, {}
    for level in cluster.levels:
        factor = factors.get(level.name, 1.0)
        frac = min(1.0, level.link.achieved_frac / factor)
        reached[level.name] = level.link.bandwidth_Bps * frac
        if abs(factor - 1.0) > SAME_FRAC:
            source = Source("measured", SOURCE, _today())
            link = replace(
                level.link.reaching(frac), name=f"{level.link.name}-measured",
                provenance={**level.link.provenance, "achieved_frac": source},
            )  # fmt: skip
            levels = tuple(replace(one, link=link) if one.name == level.name else one for one in cluster.levels)
            cluster = replace(cluster, levels=levels)
    return Refit(cluster, pace, error, {name: factors[name] for name in sorted(factors)}, reached)


def _levels(estimate: Estimate, found: Factors) -> dict[str, float]:
    """Measured over predicted transfer by level."""
    summary = group_summary(estimate.layout, estimate.cluster)
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kind in LINKS:
        if kind in found.links and GROUPS[kind] in summary:
            predicted_s = found.compared[f"{kind} link"][0]
            rows[summary[GROUPS[kind]]["level"]].append((found.links[kind], predicted_s))
    return {
        level: sum(factor * weight for factor, weight in each) / sum(weight for _, weight in each)
        for level, each in rows.items()
        if sum(weight for _, weight in each) > 0
    }


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")
