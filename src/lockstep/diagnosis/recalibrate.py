"""`recalibrate`: the cluster as a measured run shows it, and the best layout on it.

Traces tell how much longer kernels and each link take (`refit.py`). A single step, of a number or a log, tells the pace
of kernels and host, and of links what they cost in it, as `calibrate` finds from a few steps of one's own. A benchmark
of collectives goes before what a run says of the same link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lockstep.diagnosis.refit import Refit
from lockstep.documents.files import File
from lockstep.errors import Infeasible
from lockstep.hardware import Cluster
from lockstep.measure.fit.cluster_file import paced_yaml, with_measured_link
from lockstep.planner import Estimate, estimate, plan
from lockstep.types.plain import Json, picked
from lockstep.validation.calibration import LEFT_FRAC, Measured, calibrate

SIGMAS = 1.96
"""Half of a 95 % interval, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Found:
    """One factor: kernels and host take so many times as long, or a level reaches this share of its wire."""

    what: str
    value: float
    ci95: tuple[float, float] | None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


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

    cluster: Cluster
    """With measured links; its device predicts as before, kernels and host take `pace` times as long."""
    pace: float
    error_frac: float
    """To expect of other step times on it."""
    factors: tuple[Found, ...]
    source: str
    replanned: Replanned | None = None
    """None where nobody asked, or nothing fits."""
    path: str | None = None

    @property
    def paced(self) -> Cluster:
        """The cluster with its pace."""
        device = self.cluster.device.paced(self.pace, self.error_frac, self.source, _today())
        return replace(self.cluster, device=device)

    def yaml(self, name: str) -> str:
        """The cluster file for every verb that takes one. Raises BadInput where none can be written."""
        numbers = {"factor": round(self.pace, 4), "error": round(self.error_frac, 4)}
        return paced_yaml(self.cluster, name, {**numbers, "source": self.source, "date": _today()})

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "pace error_frac factors source replanned") | {"file": self.path}


def recalibrate(one: Estimate, step_s: float, refit: Refit | None, links: Sequence[File], replan: bool) -> Recalibrated:
    """The cluster of an estimate as traces, else a step of `step_s` seconds, and files with measured links show it.

    Raises BadInput and Infeasible as reading a link does.
    """
    made = _of_step(one, step_s, links) if refit is None else _of_traces(refit, links)
    return replace(made, replanned=_replanned(one, made.paced)) if replan else made


def _of_step(one: Estimate, step_s: float, links: Sequence[File]) -> Recalibrated:
    found = calibrate(_linked(one.cluster, links), [Measured("this run", one.job, one.layout, step_s)])
    factors = tuple(Found(each.what, each.value, each.ci95) for each in found.factors)
    return Recalibrated(found.cluster, found.pace, found.error_frac, factors, "lockstep diagnose on a measured step")


def _of_traces(refit: Refit, links: Sequence[File]) -> Recalibrated:
    off = SIGMAS * refit.error_frac
    factors = [Found("kernels", refit.pace, (refit.pace * (1 - off), refit.pace * (1 + off)))]
    for level in refit.cluster.levels:
        if level.name in refit.links:
            factors.append(Found(f"{level.name} ({level.link.name})", level.link.achieved_frac, None))
    cluster, error_frac = _linked(refit.cluster, links), max(LEFT_FRAC, refit.error_frac)
    return Recalibrated(cluster, refit.pace, error_frac, tuple(factors), "lockstep diagnose on traces of a run")


def _linked(cluster: Cluster, links: Sequence[File]) -> Cluster:
    for file in links:
        cluster = with_measured_link(cluster, file)
    return cluster


def _replanned(one: Estimate, cluster: Cluster) -> Replanned | None:
    try:
        best = plan(one.job.model, cluster, one.job.recipe, top=1, objective="robust").best
    except Infeasible:
        return None
    return Replanned(best, estimate(one.job, cluster, one.layout))


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")
