"""`recalibrate`: the cluster as a measured run shows it, and the best layout on it.

Traces tell how much longer kernels of each class and each link take (`refit.py`), where shapes were recorded how fast
matrix products are by shape (`product_rates.py`), and where sizes differ enough latency and rate of links apart
(`link_times.py`). A single step, of a number or a log, tells the pace of kernels and host, and of links what they cost
in it, as `calibrate` finds from a few steps of one's own. A benchmark of collectives goes before what a run says of the
same link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.check.validation.calibration import KINDS, LEFT_FRAC, PRODUCTS, Measured, calibrate
from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.decide.planner.plan import plan
from lockstep.describe.hardware import Cluster
from lockstep.describe.hardware.pace import paced
from lockstep.describe.hardware.schema import PaceEntry
from lockstep.explain.late_host import host_factors
from lockstep.explain.link_times import FittedLink, fit_links, reached_frac
from lockstep.explain.product_rates import ProductFit, fit_products
from lockstep.explain.ranks import products_beside
from lockstep.explain.read.products import Product, read_products
from lockstep.explain.refit import SAME_FRAC, SIGMAS, SOURCE, Refit
from lockstep.explain.seen import Seen
from lockstep.run.fit.cluster_file import paced_yaml, with_measured_link

TIMES, PEAK, WIRE, BYTES, SECONDS = "times as long", "of the peak", "of the wire", "of the bytes", "s"
"""Units of what is found."""
CALLED = {
    "matmul": "matrix products",
    "attention": "attention",
    "elementwise": "norms, elementwise",
    "optimizer": "optimizer",
}
ENTRY = {"matmul": "matmul", "attention": "attention", "elementwise": "stream", "optimizer": "optimizer"}
MOST_READ = 4
"""Traces whose products are read; ranks multiply the same shapes."""
OTHER_WORK_FRAC = 0.1
"""From here on the products of a run are not those that its model needs."""


@dataclass(frozen=True, slots=True)
class Found:
    """One number of the cluster: how many times as long kernels take, the share of a wire that a level reaches, ..."""

    what: str
    value: float
    ci95: tuple[float, float] | None
    unit: str
    in_file: str | None = None
    """Where the cluster's file has it, as `pace.launch`; None of links, whose levels have names of their own."""

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
    """With measured links; its device predicts as before."""
    entry: PaceEntry
    """How slow its kernels and its host are."""
    pace: float
    """Of all kernels together."""
    factors: tuple[Found, ...]
    notes: tuple[str, ...] = ()
    """What the run does not tell, and why."""
    products: ProductFit | None = None
    """None where shapes were not recorded, or do not determine it."""
    replanned: Replanned | None = None
    """None where it was not requested, or nothing fits."""
    path: str | None = None

    @property
    def error_frac(self) -> float:
        """To expect of other step times on it."""
        return self.entry.error

    @property
    def source(self) -> str:
        """What it rests on."""
        return self.entry.source

    @property
    def paced(self) -> Cluster:
        """The cluster with its pace, as its file gives it."""
        return replace(self.cluster, device=paced(self.cluster.device, self.entry))

    def yaml(self, name: str) -> str:
        """The cluster file for every verb that takes one. Raises BadInput where none can be written."""
        return paced_yaml(self.cluster, name, self.entry.model_dump(exclude_none=True), "diagnose")

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "pace error_frac factors notes products source replanned") | {"file": self.path}


def recalibrate(
    one: Estimate,
    step_s: float,
    refit: Refit | None,
    *,
    seen: Seen | None = None,
    traces: Sequence[File] = (),
    links: Sequence[File] = (),
    replan: bool = False,
) -> Recalibrated:
    """The cluster of an estimate as a run shows it.

    Args: `refit`, `seen` and `traces`: of its traces, and their files; without them a step of `step_s` seconds tells.
    `links`: files of measured links. Raises BadInput and Infeasible as reading a link does.
    """
    if refit is None:
        made = _of_step(replace(one, cluster=_linked(one.cluster, links)), step_s)
    else:
        made = _of_traces(one, refit, seen, traces)
        made = replace(made, cluster=_linked(made.cluster, links))
    return replace(made, replanned=_replanned(one, made.paced)) if replan else made


def _of_step(one: Estimate, step_s: float) -> Recalibrated:
    found = calibrate(one.cluster, [Measured("this run", one.job, one.layout, step_s)])
    factors = tuple(
        Found(each.what, each.value, each.ci95, TIMES if each.what in (PRODUCTS, *KINDS) else WIRE)
        for each in found.factors
    )
    entry = found.entry("lockstep diagnose on a measured step", datetime.now(UTC).strftime("%Y-%m-%d"))
    return Recalibrated(found.cluster, entry, found.pace, factors)


def _linked(cluster: Cluster, links: Sequence[File]) -> Cluster:
    for file in links:
        cluster = with_measured_link(cluster, file)
    return cluster


def _of_traces(one: Estimate, refit: Refit, seen: Seen | None, traces: Sequence[File]) -> Recalibrated:
    fitted, notes = fit_links(seen, one.cluster) if seen is not None else ((), ())
    cluster, factors = refit.cluster, []
    for link in fitted:
        cluster = link.put(cluster, one.cluster)
        factors += _link_rows(cluster, link)
    told = {one.cluster.levels[link.index].name for link in fitted}
    for level in cluster.levels:
        if level.name in refit.links and level.name not in told:
            share = reached_frac(level)
            low, high = _ends(share, refit.links[level.name][1])
            factors.append(Found(f"{level.name} ({level.link.name})", share, (low, min(1.0, high)), WIRE))
    products, more = _products(one, refit, traces)
    classes = {name: each for name, each in refit.classes.items() if products is None or name != "matmul"}
    rows = [
        Found(CALLED[name], factor, _ends(factor, error), TIMES, f"pace.{ENTRY[name]}")
        for name, (factor, error) in classes.items()
    ]
    if products is not None:
        rows = [
            Found(
                "matrix products, unlimited size",
                products.max_frac,
                products.max_frac_ci95,
                PEAK,
                "pace.products.max_frac",
            ),
            Found(
                "matrix products, memory traffic not hidden",
                products.bytes_factor,
                products.bytes_factor_ci95,
                BYTES,
                "pace.products.bytes_factor",
            ),
            *rows,
        ]
    if abs(refit.host - 1.0) > SAME_FRAC:
        rows.append(Found("host", refit.host, None, TIMES, "pace.factor"))
    entry = _entry(refit.host, max(LEFT_FRAC, refit.error_frac), SOURCE, classes, products)
    if refit.late is not None and SIGMAS * refit.late.error_frac >= 1.0:
        more = (*more, "the host is late by so different times in different steps and ranks that its factors stay")
    else:
        entry = host_factors(one, cluster, entry, refit.late)
    rows += [
        Found(f"host, each {name}", of.factor, _ends(of.factor, of.error), TIMES, f"pace.{name}")
        for name, of in (("launch", entry.launch), ("step", entry.step))
        if of is not None
    ]
    entry = entry.model_copy(update={"source": f"{SOURCE}: {', '.join(_said(classes, products, entry))}"})
    return Recalibrated(cluster, entry, refit.pace, (*rows, *factors), (*notes, *more), products)


def _said(classes: Mapping[str, tuple[float, float]], products: ProductFit | None, entry: PaceEntry) -> Iterator[str]:
    """The evidence for the pace and its values, as plans that use it show them."""
    if products is not None:
        yield f"matrix products by {len(products.products)} shapes"
    for name, (times, _) in classes.items():
        yield f"{CALLED[name].replace(',', ' and')} x {times:.3g}"
    yield f"host x {entry.factor:.3g}"
    for name, of in (("launch", entry.launch), ("step", entry.step)):
        if of is not None:
            yield f"host at each {name} x {of.factor:.3g}"


def _entry(
    factor: float, error_frac: float, source: str, classes: Mapping[str, tuple[float, float]] | None = None,
    products: ProductFit | None = None,
) -> PaceEntry:  # fmt: skip
    """The pace as a cluster's file says it, in the digits that it has there."""
    words: dict[str, Any] = {"factor": round(factor, 4), "error": round(error_frac, 4)}
    for name, (times, error) in (classes or {}).items():
        words[ENTRY[name]] = {"factor": round(times, 4), "error": round(error, 4)}
    if products is not None:
        names = ("max_frac", "max_frac_ci95", "bytes_factor", "bytes_factor_ci95")
        words["products"] = {name: _rounded(getattr(products, name)) for name in names}
        words["products"]["shapes"] = len(products.products)
    return PaceEntry(**words, source=source, date=datetime.now(UTC).strftime("%Y-%m-%d"))


def _rounded(value: float | tuple[float, float]) -> float | tuple[float, ...]:
    return tuple(round(one, 4) for one in value) if isinstance(value, tuple) else round(value, 4)


def _ends(factor: float, error_frac: float) -> tuple[float, float]:
    return factor * max(0.0, 1 - SIGMAS * error_frac), factor * (1 + SIGMAS * error_frac)


def _link_rows(cluster: Cluster, link: FittedLink) -> list[Found]:
    """Rate and latency of a level of the cluster that has the link."""
    level, (latency, ends) = cluster.levels[link.index], link.start
    share, (low, high) = reached_frac(level), link.rate_ci95_frac
    return [
        Found(f"{level.name} ({level.link.name})", share, (low * share, min(1.0, high * share)), WIRE),
        Found(f"{level.name}, latency", latency, ends, SECONDS),
    ]


def _products(one: Estimate, refit: Refit, traces: Sequence[File]) -> tuple[ProductFit | None, tuple[str, ...]]:
    """The curve of products by recorded shapes, and what there is to say of it."""
    times: dict[tuple[int, int, int, int, str], tuple[float, ...]] = {}
    for path in traces[:: max(1, -(-len(traces) // MOST_READ))]:
        for each in read_products(path):
            key = each.m, each.n, each.k, each.count, each.dtype
            times[key] = times.get(key, ()) + each.times_s
    if not times:
        return None, ("shapes of matrix products were not recorded (record_shapes=True), so their curve stays",)
    try:
        products = [Product(*key, of) for key, of in times.items()]
        found = fit_products(products, one.cluster.device, products_beside(one))
    except BadInput as error:
        return None, (f"the curve of matrix products stays: {error.message}",)
    slow = tuple(
        f"{one.m} x {one.n} x {one.k} in {one.dtype} takes {times:.2g} times as long as the other products tell: "
        "it is left out of their curve"
        for one, times in found.left_out
    )
    return found, (*slow, *_other_work(found, refit))


def _other_work(found: ProductFit, refit: Refit) -> tuple[str, ...]:
    """Whether the run multiplies more than its model needs: seconds by class over those by shape."""
    if "matmul" not in refit.classes:
        return ()
    took_s = [sum(each.times_s) for each in found.products]
    usual_s = [seconds * (1 + off) for seconds, off in zip(took_s, found.before_frac, strict=True)]
    more = refit.classes["matmul"][0] * sum(usual_s) / sum(took_s)
    if more <= 1 + OTHER_WORK_FRAC:
        return ()
    return (
        f"matrix products take {more:.2f} times as long as those of the model described would at the rates of the "
        "recorded shapes: the run multiplies more than the model, or slower where no shapes were recorded",
    )


def _replanned(one: Estimate, cluster: Cluster) -> Replanned | None:
    try:
        best = plan(one.job.model, cluster, one.job.recipe, top=1, objective="robust").best
    except Infeasible:
        return None
    return Replanned(best, estimate(one.job, cluster, one.layout))
