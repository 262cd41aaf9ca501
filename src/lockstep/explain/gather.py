"""`gather`: the files of a run by what they give; what logs, snapshots and measured links say beside a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.base.units import format_count
from lockstep.decide.planner.estimate import Estimate
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Transformer, models
from lockstep.describe.workload import model as find_model
from lockstep.explain.answer import Held, Input
from lockstep.explain.read import HANG, LINKS, LOG, MEMORY, SHAPES, TABLE, TRACE, Known, find
from lockstep.explain.read.execution_trace import Shapes, with_shapes
from lockstep.explain.read.flight_recorder import Recorded
from lockstep.explain.read.logs.log import PER_DEVICE_TOKENS, SAMPLES, Log
from lockstep.explain.read.snapshot import Snapshot
from lockstep.explain.stated import MFU, RATE, TIME_S, TOKENS, Stated
from lockstep.explain.trace import RankTrace
from lockstep.explain.watch.run import Told
from lockstep.price.layout import Job
from lockstep.run.fit import fit_link, link_rate_Bps, measured_level
from lockstep.run.fit.points import Points
from lockstep.simulate.collectives.bounds import bus_bandwidth_Bps

OPERATIONS = (TRACE, TABLE)
MEMORY_CATEGORIES = ("parameters", "gradients", "optimizer", "activations", "buffers")


@dataclass(frozen=True, slots=True)
class Gathered:
    """Files by what they give, each with what was read."""

    known: tuple[Known, ...]
    traces: tuple[RankTrace, ...]
    """Of files with operations: traces of ranks, tables of all of them."""
    logs: tuple[Log, ...]
    tables: tuple[RankTrace, ...]
    """Those of `traces` that come from tables of operations."""
    snapshots: tuple[Snapshot, ...]
    links: tuple[Points, ...]
    dumps: tuple[Recorded, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What was read beside operations."""
        return tuple(Input(str(one.path), one.kind.name) for one in self.known if one.kind.gives not in OPERATIONS)

    @property
    def log_files(self) -> list[File]:
        """Those that are logs of training programs."""
        return [one.path for one in self.known if one.kind.gives == LOG]

    def named(self, inputs: Sequence[Input], step_s: float) -> Iterator[Input]:
        """Inputs with the kinds of their files, and by how much a traced step of `step_s` is slower than the log's."""
        kinds = {str(one.path): one.kind.name for one in self.known}
        logged = [value for log in self.logs if (value := log.steady(TIME_S))]
        slower = step_s / logged[0] - 1 if logged else None
        for one in inputs:
            quality = replace(one.quality, profiler_slowdown_frac=slower)
            yield replace(one, kind=kinds.get(one.path, one.kind), quality=quality)


def gather(given: Sequence[str | Path | Known]) -> Gathered:
    """Reads the files in `given`, and those in its folders. Raises BadInput, also for a file given twice."""
    known = find(given)
    places = [one.path.resolve() if isinstance(one.path, Path) else id(one) for one in known]
    for number, one in enumerate(known):
        if places[number] in places[:number]:
            raise BadInput("is passed twice", str(one.path))
    found: dict[str, list[object]] = {LOG: [], MEMORY: [], LINKS: [], HANG: [], TRACE: [], TABLE: [], SHAPES: []}
    for one in known:
        value = one.read()
        found[one.kind.gives] += value if isinstance(value, list | tuple) else [value]
    operations = [one for name in OPERATIONS for one in found[name] if isinstance(one, RankTrace)]
    return Gathered(
        tuple(known),
        tuple(with_shapes(operations, [one for one in found[SHAPES] if isinstance(one, Shapes)])),
        tuple(one for one in found[LOG] if isinstance(one, Log)),
        tuple(one for one in found[TABLE] if isinstance(one, RankTrace)),
        tuple(one for one in found[MEMORY] if isinstance(one, Snapshot)),
        tuple(one for one in found[LINKS] if isinstance(one, Points)),
        tuple(one for one in found[HANG] if isinstance(one, Recorded)),
    )


def numbers_of(log: Log, job: Job) -> Iterator[Stated]:
    """The steady numbers of a log by the quantities of `Stated`; rates per device or in samples are converted."""
    for quantity in (TIME_S, TOKENS, RATE, MFU):
        if (value := log.steady(quantity)) is not None and value > 0:
            yield Stated(quantity, value)
    by_device, samples = log.steady(PER_DEVICE_TOKENS), log.steady(SAMPLES)
    if by_device and TOKENS not in log.printed:
        yield Stated(TOKENS, by_device * job.devices)
    if samples and TIME_S not in log.printed and TOKENS not in log.printed:
        yield Stated(TIME_S, log.settings.get("batch", log.steady("batch") or job.recipe.batch) / samples)


def told_of(found: Estimate, asked: Told) -> Told:
    """What a prediction says of a run whose log is watched, beside what was asked."""
    between, job = found.interval, found.job
    low_s, high_s, batch, tokens = between.low, between.high, job.recipe.batch, job.step_units
    return replace(asked, low_s=low_s, high_s=high_s, devices=job.devices, batch=batch, tokens=tokens)


def mismatches(log: Log, found: Estimate) -> list[str]:
    """Where a log's own configuration is not that of the run it is held against."""
    model, job = found.job.model, found.job
    if not isinstance(model, Transformer):
        return []
    here = {"layers": model.layers, "hidden": model.hidden, "heads": model.attention.heads}
    wrong = {name: int(log.settings[name]) for name, own in here.items() if log.settings.get(name, own) != own}
    told = []
    if wrong:
        trained = ", ".join(f"{name} {log.settings.get(name, own):g}" for name, own in here.items())
        own = ", ".join(f"{name} {value}" for name, value in here.items())
        like = _models_like(log, model.name)
        told.append(
            f"the {log.program} file trains another model than {model.name}: {trained}"
            f"{f', as {like} has' if like else ''}, not {own}"
        )
    run = {"seq": job.recipe.seq, "batch": job.recipe.batch, "devices": job.devices}
    log_batch = log.settings.get("batch", log.steady("batch"))
    said = {**log.settings, **({} if log_batch is None else {"batch": log_batch})}
    for name, value in run.items():
        if said.get(name, value) != value:
            told.append(f"the {log.program} file has {name} {format_count(said[name], 6)}, not {value:,}")
    return told


def _models_like(log: Log, name: str) -> str:
    """Models of the catalog with the layers and widths of a log, of the same family where there is one."""
    wanted = (log.settings.get("layers"), log.settings.get("hidden"), log.settings.get("heads"))
    same = []
    for entry in models():
        one = find_model(str(entry["name"]))
        if isinstance(one, Transformer) and (one.layers, one.hidden, one.attention.heads) == wanted:
            same.append(one.name)
    family = [one for one in same if one.partition("-")[0] == name.partition("-")[0]]
    return " or ".join((family or same)[:2])


def held(snapshot: Snapshot, found: Estimate | None) -> Held:
    """Memory at the peak of a snapshot, beside the predicted one of the fullest stage."""
    if found is None:
        return Held(snapshot.peak_B, snapshot.by_category_B)
    memory = found.memory
    by_category = {name: float(getattr(memory, f"{name}_B")) for name in MEMORY_CATEGORIES}
    return Held(snapshot.peak_B, snapshot.by_category_B, float(memory.total_B), by_category)


@dataclass(frozen=True, slots=True)
class LinkFound:
    """A link as a benchmark measured it, beside what the cluster has for it."""

    file: str
    collective: str
    """As `all-reduce of 8 ranks on one host`."""
    level: str | None
    measured_Bps: float | None
    """Rate of one link that large messages reach; None where no line fits the times."""
    assumed_Bps: float | None
    latency_s: float | None
    busbw_Bps: float
    """Most that the benchmark itself reports."""
    note: str = ""
    """What was left out of it, and why it is not held against the cluster, where one is given."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def link_found(points: Points, cluster: Cluster | None) -> LinkFound:
    """What a benchmark of collectives says of the level of `cluster` that it ran over."""
    found = _beside_cluster(points, cluster)
    return replace(found, note="; ".join(filter(None, (*points.notes, found.note))))


def _beside_cluster(points: Points, cluster: Cluster | None) -> LinkFound:
    most_Bps = max(float(bus_bandwidth_Bps(one.op, one.ranks, one.size_B, one.time_s)) for one in points.points)
    try:
        fitted = fit_link(points)
    except (BadInput, Infeasible):
        return LinkFound(points.source, points.label, None, None, None, None, most_Bps)
    if cluster is None:
        return LinkFound(points.source, points.label, None, fitted.bandwidth_Bps, None, fitted.latency_s, most_Bps)
    level, assumed_Bps = None, None
    try:
        index = measured_level(points.hosts, cluster, None)
        level, assumed_Bps = cluster.levels[index].name, cluster.levels[index].link.rate_Bps
        measured_Bps = link_rate_Bps(fitted, cluster, index)
    except BadInput as error:
        rate_Bps, latency_s = fitted.bandwidth_Bps, fitted.latency_s
        return LinkFound(points.source, points.label, level, rate_Bps, assumed_Bps, latency_s, most_Bps, error.message)
    return LinkFound(points.source, points.label, level, measured_Bps, assumed_Bps, fitted.latency_s, most_Bps)
