"""`Network`: the link that a group of ranks talks over, given by latency and bandwidth or by a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.units import PLAIN_BANDWIDTH, PLAIN_LATENCY, parse_bandwidth_Bps, parse_time_s
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster
from lockstep.show.verbs.words.quantity import Bandwidth, Time
from lockstep.show.verbs.words.question import read_cluster

if TYPE_CHECKING:
    from lockstep.simulate.collectives import PlainLink
    from lockstep.simulate.parallel.group import Levels

FLAGS = {
    "size_B": "--size",
    "bucket_B": "--bucket-size",
    "latency_s": "--latency",
    "bandwidth_Bps": "--bandwidth",
    "node-ranks": "--cluster",
}
"""Names of the library that are not those of flags."""
SLOWEST_BPS, FASTEST_BPS, LONGEST_S = 1e-3, 1e18, 1e6
"""Beyond these a link is taken for a mistake."""


@dataclass(frozen=True, slots=True)
class Network:
    """`link` joins all ranks; with a cluster it is the share of one device of the widest level they span."""

    ranks: int
    link: "PlainLink"
    inner: "PlainLink"
    """Inside a node; the same as `link` where there is one level."""
    node_ranks: int | None = None
    """Ranks per node when they span several."""
    cluster: Cluster | None = None

    levels: "Levels" = ()
    """The `Cluster.group_levels` that they span."""

    @property
    def group(self) -> "Levels":
        """The levels of all ranks; a link that joins them is one."""
        from lockstep.simulate.parallel.group import on_link

        return self.levels or on_link(self.ranks, self.link)

    @property
    def spans_levels(self) -> bool:
        """Whether the ranks span several levels of a cluster, so that no one link joins them."""
        return len(self.levels) > 1

    def check_filled(self) -> None:
        """Raises BadInput unless the ranks fill whole units of every level that they span."""
        filled = prod(level[0] for level in self.levels)
        if self.spans_levels and filled != self.ranks:
            name = self.words()["cluster"]
            raise BadInput(f"{self.ranks} ranks do not fill whole units of {name}'s levels; try {filled}", "--ranks")

    def words(self) -> Json:
        """What is assumed of the network, for answers."""
        return {
            "latency_s": self.link.latency_s,
            "bandwidth_Bps": self.link.bandwidth_Bps,
            "node_ranks": self.node_ranks,
            "cluster": None if self.cluster is None else self.cluster.name,
        }


@strict
def read_network(
    ranks: int,
    latency: Time | None = None,
    bandwidth: Bandwidth | None = None,
    cluster: str | Path | Cluster | None = None,
) -> Network:
    """The network of `ranks` consecutive ranks. Raises BadInput."""
    from lockstep.simulate.collectives import PlainLink

    if cluster is None:
        if latency is None or bandwidth is None:
            where = "--bandwidth" if bandwidth is None else "--latency"
            raise BadInput("must be given: both --latency and --bandwidth, or --cluster", where)
        # A number of Python's is in SI units; text without a unit may be somebody's microseconds.
        for value, known, where in ((latency, PLAIN_LATENCY, "--latency"), (bandwidth, PLAIN_BANDWIDTH, "--bandwidth")):
            if isinstance(value, str):
                known.check(value, where)
        rate_Bps = parse_bandwidth_Bps(bandwidth, "--bandwidth")
        if not SLOWEST_BPS <= rate_Bps <= FASTEST_BPS:
            room = f"must be {SLOWEST_BPS:g} to {FASTEST_BPS:g} B/s, got {rate_Bps:g}"
            raise BadInput(f"a bandwidth {room}", "--bandwidth")
        latency_s = parse_time_s(latency, "--latency")
        if latency_s > LONGEST_S:
            raise BadInput(f"a latency must be at most {LONGEST_S:g} s, got {latency_s:g}", "--latency")
        link = PlainLink(latency_s, rate_Bps)
        return Network(ranks, link, link)
    if latency is not None or bandwidth is not None:
        raise BadInput("give either --latency and --bandwidth, or --cluster, not both", "--cluster")
    return _of_cluster(ranks, read_cluster(cluster))


def _of_cluster(ranks: int, cluster: Cluster) -> Network:
    import numpy as np

    if ranks > cluster.num_devices:
        raise BadInput(
            f"{ranks} ranks on the {cluster.num_devices} devices of {cluster.name}; use more nodes", "--ranks"
        )
    node = cluster.devices_per_unit(0)
    if ranks > node and ranks % node:
        cluster = _evenly(ranks, cluster)
        node = cluster.devices_per_unit(0)
    level = int(np.asarray(cluster.level_spanned(ranks)))
    return Network(
        ranks,
        _plain(cluster, level, ranks),
        _plain(cluster, 0, ranks),
        node if ranks > node else None,
        cluster,
        tuple((int(level[0]), *level[1:]) for level in cluster.levels_of(ranks) if level[0] > 1),
    )


def _evenly(ranks: int, cluster: Cluster) -> Cluster:
    """The cluster with `ranks` devices, as many in each of its nodes."""
    try:
        return cluster.resized(ranks)
    except BadInput:
        node = cluster.devices_per_unit(0)
        why = f"{ranks} ranks do not fill whole nodes of {node}; try {ranks - ranks % node}"
        raise BadInput(why, "--ranks") from None


def _plain(cluster: Cluster, level: int, ranks: int) -> "PlainLink":
    from lockstep.simulate.collectives import PlainLink

    return PlainLink(*cluster.levels_of(ranks)[level][1:])


@contextmanager
def flags(otherwise: str) -> Iterator[None]:
    """Names the flag behind every BadInput from within; `otherwise` where the library names nothing."""
    try:
        with located(otherwise):
            yield
    except BadInput as error:
        where = error.where or otherwise
        word = where.replace("_", "").replace("-", "").isalnum() and not where.isupper()
        named = f"--{where.replace('_', '-')}" if word and not where.startswith("--") else where
        raise BadInput(error.message, FLAGS.get(where, named)) from None
