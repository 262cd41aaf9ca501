"""`recalibrate`: the cluster as one measured step and measured links show it, and the best layout on it.

The pace of kernels and host, and the links that the step tells of, are found by `calibrate`, as from a few steps of
one's own; a benchmark of collectives goes before what a step says of the same link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lockstep.errors import Infeasible
from lockstep.hardware import Cluster
from lockstep.measure.fit.cluster_file import paced_yaml, with_measured_link
from lockstep.planner import Estimate, estimate, plan
from lockstep.types.plain import Json, picked
from lockstep.validation.calibration import Calibration, Measured, calibrate


@dataclass(frozen=True, slots=True)
class Replanned:
    """The best layout on the cluster as it was measured, beside the one that ran."""

    best: Estimate
    own: Estimate
    """The layout that ran, on the same cluster."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "layout": self.best.layout.to_dict(),
            **picked(self.best, "step_time_s mfu_frac"),
            "memory_B": float(self.best.memory.total_B),
            "own_step_time_s": self.own.step_time_s,
        }


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """A cluster as its own run shows it."""

    found: Calibration
    replanned: Replanned | None
    """None where nobody asked, or nothing fits."""
    path: str | None = None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return self.found.to_dict() | picked(self, "replanned") | {"file": self.path}


def recalibrate(one: Estimate, step_s: float, links: Sequence[Path], replan: bool) -> Recalibrated:
    """The cluster of an estimate as a step of `step_s` seconds, and files with measured links, show it.

    Raises BadInput and Infeasible as reading a link does.
    """
    base = one.cluster
    for file in links:
        base = with_measured_link(base, file)
    found = calibrate(base, [Measured("this run", one.job, one.layout, step_s)])
    return Recalibrated(found, _replanned(one, paced(found)) if replan else None)


def paced(found: Calibration) -> Cluster:
    """The cluster with the pace that was found."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    device = found.cluster.device.paced(found.pace, found.error_frac, "lockstep diagnose", date)
    return replace(found.cluster, device=device)


def _replanned(one: Estimate, cluster: Cluster) -> Replanned | None:
    try:
        best = plan(one.job.model, cluster, one.job.recipe, top=1, objective="robust").best
    except Infeasible:
        return None
    return Replanned(best, estimate(one.job, cluster, one.layout))


def cluster_yaml(found: Calibration, name: str) -> str:
    """The cluster file for `plan` and every other verb that takes one. Raises BadInput where none can be written."""
    pace = {
        "factor": round(found.pace, 4),
        "error": round(found.error_frac, 4),
        "source": "lockstep diagnose on a measured step",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    return paced_yaml(found.cluster, name, pace)
