"""The link between two ranks: one link for all, or the level of a cluster at which the two ranks meet.

A reduction costs by the link over which its operand came (gamma is of a link: what does not hide behind its transfers),
the innermost level's where the operand came over none.
"""

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
    """Latency in s, rate in B/s and seconds per reduced byte of many pairs of ranks."""

    latency_s: Array
    bandwidth_Bps: Array
    reduce_s_per_B: Array


def links_between(network: Any, first: Array, second: Array) -> PairLinks:
    """Links of the pairs (first[i], second[i]).

    `network` is a link (latency_s, bandwidth_Bps), or has `link_between(first, second)`, or is a cluster: then rank r
    is device r, and the pair takes `link_per_device` of the innermost level whose unit holds both.
    """
    if hasattr(network, "link_between"):
        network = network.link_between(first, second)
    elif hasattr(network, "levels"):
        return _of_cluster(network, first, second)
    values = (network.latency_s, network.bandwidth_Bps, getattr(network, "reduce_s_per_B", 0.0))
    return PairLinks(*(np.broadcast_to(value, np.shape(first)) for value in values))


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
    names = ("latency_s", "bandwidth_Bps", "reduce_s_per_B")
    columns = ([getattr(link, name, 0.0) for link in links] for name in names)
    return PairLinks(*(np.array(column, dtype=np.float64)[level] for column in columns))


def brought_from(program: Program, reductions: Array) -> Array:
    """Rank that sent the operand of each of the operations `reductions`; their own rank where no message brought it.

    It came with the last receive before the reduction, on its rank, into the place that it adds from.
    """
    receives = np.flatnonzero(program.kind == Kind.RECV)
    ids = np.concatenate((receives, reductions))
    columns = ("rank", "rank"), ("buffer", "source"), ("chunk_start", "source_start")
    place = [np.concatenate((program.columns[a][receives], program.columns[b][reductions])) for a, b in columns]
    order = np.lexsort((ids, *place))
    starts = np.any([column[order][1:] != column[order][:-1] for column in place], axis=0)
    begin = np.maximum.accumulate(np.where(np.concatenate(([True], starts)), np.arange(len(ids)), 0))
    last = np.maximum.accumulate(np.where(order < len(receives), np.arange(len(ids)), -1))
    sender = np.where(last >= begin, program.peer[ids[order[last]]], program.rank[ids[order]])
    found: Array = np.empty_like(sender)
    found[order] = sender
    return found[len(receives) :]


def sent_per_level_B(program: Program, cluster: Any) -> Array:
    """Bytes of point-to-point messages by the level of the cluster at which sender and receiver meet."""
    sends = program.kind == Kind.SEND
    level = meeting_level(cluster, program.rank[sends], program.peer[sends])
    return np.bincount(level, weights=program.size_B[sends], minlength=len(cluster.levels))
