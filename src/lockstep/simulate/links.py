"""The link between two ranks: one link for all, or the level of a cluster at which the two ranks meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput
from lockstep.program import Kind, Program

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class PairLinks:
    """Latency in s and rate in B/s of many pairs of ranks."""

    latency_s: Array
    bandwidth_Bps: Array


def links_between(network: Any, first: Array, second: Array) -> PairLinks:
    """Links of the pairs (first[i], second[i]).

    `network` is a link (latency_s, bandwidth_Bps), or has `link_between(first, second)`, or is a cluster: then rank r
    is device r, and the pair takes `link_per_device` of the innermost level whose unit holds both.
    """
    if hasattr(network, "link_between"):
        network = network.link_between(first, second)
    elif hasattr(network, "levels"):
        return _of_cluster(network, first, second)
    shape = np.shape(first)
    return PairLinks(np.broadcast_to(network.latency_s, shape), np.broadcast_to(network.bandwidth_Bps, shape))


def meeting_level(cluster: Any, first: Array, second: Array) -> Array:
    """Index of the innermost level of the cluster whose unit holds both ranks."""
    highest = int(max(np.max(first, initial=0), np.max(second, initial=0)))
    if highest >= cluster.num_devices:
        raise BadInput(f"rank {highest} needs {highest + 1} devices; cluster {cluster.name} has {cluster.num_devices}")
    level = np.zeros(np.shape(first), dtype=np.int64)
    for index in range(len(cluster.levels) - 1):
        unit = cluster.devices_per_unit(index)
        level += first // unit != second // unit
    return level


def _of_cluster(cluster: Any, first: Array, second: Array) -> PairLinks:
    level = meeting_level(cluster, first, second)
    links = [cluster.link_per_device(index) for index in range(len(cluster.levels))]
    latency_s = np.array([link.latency_s for link in links], dtype=np.float64)
    bandwidth_Bps = np.array([link.bandwidth_Bps for link in links], dtype=np.float64)
    return PairLinks(latency_s[level], bandwidth_Bps[level])


def sent_per_level_B(program: Program, cluster: Any) -> Array:
    """Bytes of point-to-point messages by the level of the cluster at which sender and receiver meet."""
    sends = program.kind == Kind.SEND
    level = meeting_level(cluster, program.rank[sends], program.peer[sends])
    return np.bincount(level, weights=program.size_B[sends], minlength=len(cluster.levels))
