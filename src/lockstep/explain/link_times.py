"""`fit_links`: latency and rate of links by the collectives of a run, where these are of sizes that differ enough.

Of several ranks the transfer of a collective is known: from the last arrival to the end. The times over sizes of the
groups that cross a level are fitted as `lockstep fit` fits a benchmark's, with the same model and intervals. Runs are
not benchmarks: their collectives have few sizes and run next to computing, so where sizes or times do not tell a line,
that is said, and the level keeps the rate that its total transfer time shows (`refit.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.units import format_size
from lockstep.describe.hardware import Cluster, Level
from lockstep.explain.refit import with_link
from lockstep.explain.seen import Seen
from lockstep.run.fit import Hosts, LinkFit, Point, Points, fit_link, link_rate_Bps
from lockstep.run.fit.cluster_file import with_fitted_link

OPS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
LEAST_SIZES = 3
LEAST_SPAN = 10.0
"""Largest over smallest size."""
MOST_SPREAD = 0.25
"""Half of the rate's interval over the rate."""
Sample = tuple[str, int, float]
"""(collective, ranks, bytes)."""


@dataclass(frozen=True, slots=True)
class FittedLink:
    """One level's link by the times of collectives over it."""

    index: int
    """Of the level in the cluster."""
    fit: LinkFit
    rate_Bps: float
    """Of one link, as a cluster's file counts them."""

    @property
    def rate_ci95_frac(self) -> tuple[float, float]:
        """Ends of the 95 % interval of the rate, over the rate."""
        low, high = self.fit.segments[-1].bandwidth_ci95_Bps
        return low / self.fit.bandwidth_Bps, (high or np.inf) / self.fit.bandwidth_Bps

    @property
    def start(self) -> tuple[float, tuple[float, float]]:
        """(latency, its 95 % interval), in seconds."""
        first = self.fit.segments[0]
        return first.latency_s, first.latency_ci95_s

    def put(self, cluster: Cluster, base: Cluster) -> Cluster:
        """The cluster with this link in place of the one that `base` has, the rate's interval as its range."""
        level = with_fitted_link(base, self.index, self.fit).levels[self.index]
        low, high = (end * reached_frac(level) for end in self.rate_ci95_frac)
        return with_link(cluster, level.name, replace(level.link, lowest_frac=low, highest_frac=min(1.0, high)))


def reached_frac(level: Level) -> float:
    """The share of a level's wire that large messages reach."""
    return level.link.achieved_frac


def fit_links(seen: Seen, cluster: Cluster) -> tuple[tuple[FittedLink, ...], tuple[str, ...]]:
    """(links that collectives tell, why those of other levels stay untold)."""
    found, notes = [], []
    for index, times in sorted(_times(seen, cluster).items()):
        hosts, samples = max(times.items(), key=lambda row: len({size for *_, size in row[1]}))
        try:
            found.append(_fitted(cluster, index, hosts, samples))
        except (BadInput, Infeasible) as error:
            notes.append(f"latency and rate of {cluster.levels[index].name} are not told apart: {error}")
    return tuple(found), tuple(notes)


def _times(seen: Seen, cluster: Cluster) -> dict[int, dict[tuple[int, ...], dict[Sample, list[float]]]]:
    """Seconds of transfers by the level that a group crosses, by how its ranks lie, and by what was moved."""
    found: dict[int, dict[tuple[int, ...], dict[Sample, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for trace, arrived in zip(seen.traces, seen.aligned.arrived_s, strict=True):
        spans = trace.spans
        for i in np.flatnonzero(spans.communicates & np.isfinite(arrived) & (spans.size_B > 0)).tolist():
            op, members = trace.name(int(spans.op[i])), trace.groups.get(trace.name(int(spans.group[i])), ())
            seconds = float(spans.end_s[i] - max(arrived[i], spans.start_s[i]))
            if op not in OPS or len(members) < 2 or max(members) >= cluster.num_devices or seconds <= 0:
                continue
            level, hosts = _place(members, cluster)
            found[level][hosts][op, len(members), float(spans.size_B[i])].append(seconds)
    return found


def _place(members: Sequence[int], cluster: Cluster) -> tuple[int, tuple[int, ...]]:
    """(outermost level that a group crosses, ranks in each of its nodes)."""
    ranks, crossed = np.array(members), 0
    for index in range(len(cluster.levels)):
        unit = cluster.devices_per_child(index)
        if len(np.unique(ranks // unit)) > 1:
            crossed = index
    _, counts = np.unique(ranks // cluster.devices_per_unit(0), return_counts=True)
    return crossed, tuple(counts.tolist())


def _fitted(cluster: Cluster, index: int, hosts: tuple[int, ...], samples: dict[Sample, list[float]]) -> FittedLink:
    """The link of a level. Raises BadInput and Infeasible, in words, where the times do not tell it."""
    sizes_B = sorted({size_B for *_, size_B in samples})
    if len(sizes_B) < LEAST_SIZES:
        raise BadInput(f"its collectives have {len(sizes_B)} sizes, {LEAST_SIZES} are needed")
    if sizes_B[-1] < LEAST_SPAN * sizes_B[0]:
        raise BadInput(
            f"its collectives have {format_size(sizes_B[0])} to {format_size(sizes_B[-1])}; the largest must be "
            f"{LEAST_SPAN:.0f} times the smallest"
        )
    points = tuple(Point(op, "", ranks, size_B, float(np.median(s))) for (op, ranks, size_B), s in samples.items())
    by_host = Hosts({f"node {i}": tuple(range(count)) for i, count in enumerate(hosts)})
    fit = fit_link(Points(points, "collectives in traces of a run", "", hosts=by_host))
    if fit.segments[0].latency_ci95_s[0] <= 0:
        raise BadInput(f"its collectives, from {format_size(sizes_B[0])} on, are too large to determine the latency")
    found = FittedLink(index, fit, link_rate_Bps(fit, cluster, index))
    low, high = found.rate_ci95_frac
    if high - low > 2 * MOST_SPREAD:
        raise BadInput(f"its rate would be known to {(high - low) / 2:.0%} only; collectives of more sizes are needed")
    return found
