"""The verb `fit`: latency and bandwidth of a link from measured times, and a cluster file with them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.documents.files import writable_yaml, write_text
from lockstep.base.errors import BadInput, Infeasible, located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import read_cluster, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.run.fit import LinkFit, Points


_CLUSTER = "Cluster file for plan and estimate"


@dataclass(frozen=True, slots=True, repr=False)
class Fit(Shown):
    """A link found, and the cluster file that holds it."""

    found: "LinkFit"
    """Of the first table of the file, where it has several."""
    path: str | None
    level: str | None
    link_bandwidth_Bps: float | None
    """Rate of one link of the level, as written: what leaves a child over the links that its ranks reach."""
    others: "tuple[LinkFit, ...]" = ()
    """Of the tables of other collectives, ranks or hosts."""
    not_fitted: tuple[str, ...] = ()
    """Tables whose times make no link, and why."""

    @property
    def tables(self) -> "tuple[LinkFit, ...]":
        """All links found, in the order of the file."""
        return (self.found, *self.others)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        several = bool(self.others or self.not_fitted)
        tables = [{"table": one.points.label} | one.to_dict() for one in self.tables]
        return (
            self.found.to_dict()
            | {"file": self.path}
            | picked(self, "level link_bandwidth_Bps")
            | ({"tables": tables, "not_fitted": list(self.not_fitted)} if several else {})
        )


FILE = Argument("FILE", "CSV of lockstep bench, or output of nccl-tests or the OSU micro-benchmarks.")
OP = Option("OP", "Collective, if the file does not name it, or one of several in it.")
RANKS = Option("N", "Number of ranks, if the file does not state it, or one of several in it.")
ALGORITHM = Option("A", "Algorithm assumed for the library's own collective.", default="ring, or its equivalent")
OUT = Option("FILE", "Output file, ending in .yaml.", flag="-o", panel=_CLUSTER)
CLUSTER = Option("C", "Cluster whose link was measured.", flag="-c", panel=_CLUSTER, names="clusters")
LEVEL = Option(
    "L", "Level of --cluster that was measured.", panel=_CLUSTER, default="the one that the hosts in the file used"
)
DEVICE_NAME = Option(
    "D",
    "Device of a new cluster with one level, instead of --cluster.",
    flag="--device",
    panel=_CLUSTER,
    names="devices",
)


@strict
def fit(
    file: Annotated[str | Path, FILE],
    *,
    op: Annotated[str | None, OP] = None,
    ranks: Annotated[Quantity | None, RANKS] = None,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    out: Annotated[str | Path | None, OUT] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    level: Annotated[str | None, LEVEL] = None,
    device_name: Annotated[str | None, DEVICE_NAME] = None,
) -> Fit:
    """Fits a CSV of `bench`, the output of nccl-tests, or of the OSU micro-benchmarks.

    Tables of nccl-tests in one file are fitted each on its own, those of one collective, ranks and hosts together.
    Args: `op` and `ranks` where the text does not say them, or to choose a table; `algorithm` that a library's own
    collective counts as, a ring where none is said. `out` writes a cluster file: `cluster` with the link of `level`
    replaced (by default that which the hosts in the text used), or one level of `device_name`, a device of the catalog,
    as many as ranks.
    Raises: BadInput, also for a rate above the wire's; Infeasible where a constant predicts the times better.
    """
    from lockstep.run.fit import cluster_yaml, link_rate_Bps, measured_level, read_series

    path = None if out is None else _file(out, cluster, level, device_name)
    if path is None:
        _refuse(cluster=cluster, level=level, device_name=device_name)
    group = None if ranks is None else whole(ranks, "--ranks", 2)
    with located("FILE"):
        series = read_series(file, op=op, ranks=group)
    if path is not None:
        points = _only(series)
        base = _base(cluster, device_name, max(point.ranks for point in points.points))
        index = measured_level(points.hosts, base, level)
    with flags("--algorithm"):
        (found, *others), not_fitted = _fits(series, algorithm)
    if path is None:
        return Fit(found, None, None, None, tuple(others), tuple(not_fitted))
    rate_Bps = link_rate_Bps(found, base, index)
    date = points.date or datetime.now(UTC).strftime("%Y-%m-%d")
    text = cluster_yaml(found, name=path.stem, date=date, base=base, index=index, rate_Bps=rate_Bps)
    write_text(path, text, "--out")
    return Fit(found, str(path), base.levels[index].name, rate_Bps)


def _only(series: "Sequence[Points]") -> "Points":
    """The one series of a file. Raises BadInput where a cluster file is to hold one of several."""
    if len(series) > 1:
        labels = " and ".join(one.label for one in series)
        raise BadInput(f"the file has tables of {labels}; choose the one to write with --op or --ranks", "--out")
    return series[0]


def _fits(series: "Sequence[Points]", algorithm: str | None) -> "tuple[list[LinkFit], list[str]]":
    """(a link per series, why others make none). Raises what the first one raised where none makes a link."""
    from lockstep.run.fit import fit_link

    found, refused = [], []
    for one in series:
        try:
            found.append(fit_link(one, taken_for=algorithm))
        except (BadInput, Infeasible) as error:
            refused.append((error, f"{one.label}: {error.message if isinstance(error, BadInput) else error}"))
    if not found:
        raise refused[0][0]
    return found, [said for _, said in refused]


def _file(out: str | Path, cluster: str | Path | Cluster | None, level: str | None, device_name: str | None) -> Path:
    """The file to write, asked before anything is read."""
    path = writable_yaml(out, "--out")
    base = _base(cluster, device_name, 2)
    if level is not None:
        from lockstep.run.fit import measured_level

        measured_level(None, base, level)
    return path


def _refuse(**words: object) -> None:
    for name, value in words.items():
        if value is not None:
            raise BadInput("describes the file to write; give --out as well", f"--{name.removesuffix('_name')}")


def _base(cluster: str | Path | Cluster | None, device_name: str | None, ranks: int) -> Cluster:
    """The cluster whose link is replaced: the one named, or one level of as many devices as there were ranks."""
    from lockstep.describe.hardware import Cluster, Level, Link, device

    if (cluster is None) == (device_name is None):
        raise BadInput(
            "a cluster file needs --cluster, to replace one of its links, or --device for a flat one", "--out"
        )
    if cluster is not None:
        return read_cluster(cluster)
    from lockstep.run.fit import UNKNOWN

    with located("--device"):
        found = device(str(device_name))
    return Cluster("flat", found, (Level("network", ranks, Link(UNKNOWN, 0.0, 1.0)),))
