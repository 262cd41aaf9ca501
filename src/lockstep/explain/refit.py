"""`refit`: the cluster as a measured run shows it: how much longer kernels take, and what links reach.

    host     seconds that the device waits for it over those predicted, at most 1
    classes  seconds of products, attention, elementwise kernels and the update over those predicted, all ranks alike
    links    of every level of the cluster, the share of its wire reached: that of the catalog over how many times as
             long the transfers of its groups take; groups that share a level by their predicted seconds

Slow ranks, uneven stages and tokens are left out: they are faults of the run, not of the hardware. A host that is later
than predicted on all ranks is its software's (`late_host.py`). The error of a number is its standard deviation over
ranks and steps, and at least `LEAST_ERROR_FRAC`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.decide.planner.estimate import Estimate
from lockstep.describe.hardware import Cluster, Link
from lockstep.describe.hardware.source import Source
from lockstep.explain.late_host import Lateness
from lockstep.explain.replay import LINKS, Factors
from lockstep.price.layout import group_summary

KERNELS = ("matmul", "attention", "elementwise")
UPDATE = "optimizer"
GROUPS = {"dp": "data", "tp": "tp", "cp": "cp", "ep": "ep"}
LEAST_ERROR_FRAC = 0.01
LEAST_HOST = 0.05
"""A host that is never late is still not free."""
SAME_FRAC = 0.02
"""A link within so much of the prediction stays as it is."""


@dataclass(frozen=True, slots=True)
class Refit:
    """A cluster as a run shows it."""

    cluster: Cluster
    """With links as measured; its kernels are as before."""
    pace: float
    """Of all kernels together."""
    host: float
    """Measured over predicted waiting for the host; 1 where it is later than predicted."""
    error_frac: float
    classes: Mapping[str, tuple[float, float]]
    """(measured over predicted seconds, error) of the classes of `KERNELS` and of the update that were compared."""
    links: Mapping[str, tuple[float, float]]
    """(measured over predicted transfer, error), by level of the cluster."""
    reached_Bps: Mapping[str, float]
    """Bytes per second of one link, by level."""
    late: Lateness | None = None
    """By how much the host is later than predicted; None where it is not, or this is unknown."""


SOURCE = "lockstep diagnose on traces of a run"
SIGMAS = 1.96
"""Half of a 95 % interval, in standard deviations."""


def refit(estimate: Estimate, found: Factors) -> Refit:
    """The cluster of an estimate as the run shows it."""
    weight = {name: found.compared[name][0] for name in KERNELS if name in found.classes}
    total = sum(weight.values())
    pace = sum(found.classes[name] * weight[name] for name in weight) / total if total else 1.0
    seen = found.ranks[found.ranks != 1.0]
    error = max(LEAST_ERROR_FRAC, float(np.std(seen)) if len(seen) else 0.0)
    host_s, waited_s = found.compared.get("host", (0.0, 0.0))
    host = min(1.0, max(LEAST_HOST, waited_s / host_s)) if host_s > 0 else 1.0
    classes = {name: (found.classes[name], _error(found, name)) for name in (*weight, UPDATE) if name in found.classes}
    factors = _levels(estimate, found)
    cluster, reached = estimate.cluster, {}
    for level in cluster.levels:
        factor, spread = factors.get(level.name, (1.0, 0.0))
        frac = min(1.0, level.link.achieved_frac / factor)
        reached[level.name] = level.link.bandwidth_Bps * frac
        if abs(factor - 1.0) > SAME_FRAC:
            cluster = with_link(cluster, level.name, measured_link(level.link, frac, spread))
    return Refit(cluster, pace, host, error, classes, {name: factors[name] for name in sorted(factors)}, reached)


def measured_link(link: Link, frac: float, error_frac: float) -> Link:
    """The link at the share of its wire that a run showed, with what 95 % of such runs would show as its range."""
    found = link.reaching(frac)
    low, high = frac * (1 - SIGMAS * error_frac), frac * (1 + SIGMAS * error_frac)
    source = Source("measured", SOURCE, _today())
    return replace(
        found, name=f"{link.name}-measured", lowest_frac=max(low, 0.01 * frac), highest_frac=min(high, 1.0),
        provenance={**link.provenance, "achieved_frac": source},
    )  # fmt: skip


def with_link(cluster: Cluster, level: str, link: Link) -> Cluster:
    """The cluster with another link at a level."""
    return replace(
        cluster, levels=tuple(replace(one, link=link) if one.name == level else one for one in cluster.levels)
    )


def _error(found: Factors, name: str) -> float:
    return max(LEAST_ERROR_FRAC, found.spread_frac.get(name, 0.0))


def _levels(estimate: Estimate, found: Factors) -> dict[str, tuple[float, float]]:
    """(measured over predicted transfer, error) by level."""
    summary = group_summary(estimate.layout, estimate.cluster)
    rows: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for kind in LINKS:
        if kind in found.links and GROUPS[kind] in summary:
            predicted_s = found.compared[f"{kind} link"][0]
            row = found.links[kind], _error(found, f"{kind} link"), predicted_s
            rows[summary[GROUPS[kind]]["level"]].append(row)
    means = {}
    for level, each in rows.items():
        if (total := sum(weight for *_, weight in each)) > 0:
            means[level] = (
                sum(factor * weight for factor, _, weight in each) / total,
                max(error for _, error, _ in each),
            )
    return means


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")
