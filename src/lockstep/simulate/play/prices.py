"""Seconds of every operation of a program on a link or a cluster, before any waiting, contention or noise.

    message      latency_s + size_B / bandwidth_Bps     of the link between the two ranks
    reduce       reduce_s_per_B * size_B                of the link over which its operand came
    copy, barrier 0
    collective   price(op, algorithm, ranks, size_B)

A time given in the program (`duration_s`) always wins.

The link between two ranks is one link for all, or the level of a cluster at which the two ranks meet. A reduction costs
by the link over which its operand came (gamma is of a link: what does not hide behind its transfers), the innermost
level's where the operand came over none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.machine import Machine
from lockstep.simulate.program import Kind, Program

Price = Callable[[str, str, tuple[int, ...], float], float]


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


def meeting_level(cluster: Machine, first: Array, second: Array) -> Array:
    """Index of the innermost level of the cluster whose unit holds both ranks."""
    highest = int(max(np.max(first, initial=0), np.max(second, initial=0)))
    if highest >= cluster.num_devices:
        raise BadInput(f"rank {highest} needs {highest + 1} devices; cluster {cluster.name} has {cluster.num_devices}")
    level = np.zeros(np.shape(first), dtype=np.int64)
    for index in range(len(cluster.levels) - 1):
        unit = cluster.devices_per_unit(index)
        level += first // unit != second // unit
    return level


def _of_cluster(cluster: Machine, first: Array, second: Array) -> PairLinks:
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


def sent_per_level_B(program: Program, cluster: Machine) -> Array:
    """Bytes of point-to-point messages by the level of the cluster at which sender and receiver meet."""
    sends = program.kind == Kind.SEND
    level = meeting_level(cluster, program.rank[sends], program.peer[sends])
    return np.bincount(level, weights=program.size_B[sends], minlength=len(cluster.levels))


def durations_s(program: Program, link: object = None, price: Price | None = None) -> Array:
    """Seconds of each operation.

    `link` is a link or a cluster, see `simulate.links`. `price` prices collectives that are one operation.
    """
    kind = program.kind
    time_s = np.array(program.duration_s)
    open_ = np.isnan(time_s)
    time_s[open_ & ((kind == Kind.COPY) | (kind == Kind.BARRIER))] = 0.0
    messages = np.flatnonzero(open_ & ((kind == Kind.SEND) | (kind == Kind.RECV)))
    if len(messages):
        time_s[messages] = _message_s(program, messages, link)
    reductions = np.flatnonzero(open_ & (kind == Kind.REDUCE))
    if len(reductions):
        time_s[reductions] = _reduction_s_per_B(program, reductions, link) * program.size_B[reductions]
    if (open_ & (kind == Kind.COLLECTIVE)).any():
        _price_collectives(program, open_, price, time_s)
    return time_s


def _message_s(program: Program, ids: Array, link: object) -> Array:
    """Postal time of the messages `ids`; both ends of a message ask for the link in the sender's direction."""
    if link is None:
        raise BadInput(f"{program[int(ids[0])]}: a message needs a link or a cluster, or its own duration_s")
    rank, peer = program.rank[ids], program.peer[ids]
    sends = program.kind[ids] == Kind.SEND
    pair = links_between(link, np.where(sends, rank, peer), np.where(sends, peer, rank))
    if not ((pair.latency_s >= 0) & (pair.latency_s < np.inf) & (pair.bandwidth_Bps > 0)).all():
        raise BadInput(
            f"latency_s must be finite and not negative, bandwidth_Bps positive; got {pair.latency_s.min()} s, "
            f"{pair.bandwidth_Bps.min()} B/s"
        )
    result: Array = pair.latency_s + program.size_B[ids] / pair.bandwidth_Bps
    return result


def _reduction_s_per_B(program: Program, ids: Array, link: object) -> Array:
    """Seconds per byte of the reductions `ids`; 0 without a link.

    A rank of a network with `reductions` runs that many at once: they share its adder, and end together.
    """
    if link is None:
        return np.zeros(len(ids))
    rank = program.rank[ids]
    pair_s_per_B: Array = links_between(link, brought_from(program, ids), rank).reduce_s_per_B
    at_once = getattr(link, "reductions", 1)
    if at_once == 1:
        return pair_s_per_B
    size_B = program.size_B[ids]
    total_s, total_B = (np.bincount(rank, weights) for weights in (pair_s_per_B * size_B, size_B))
    mean_s_per_B = np.divide(total_s, total_B, out=np.zeros_like(total_s), where=total_B > 0)
    return np.asarray(at_once * mean_s_per_B[rank])


def _price_collectives(program: Program, open_: Array, price: Price | None, time_s: Array) -> None:
    """Fills in the price of every collective without a time; equal ones are priced once."""
    start, members = program.groups
    known: dict[tuple[str, str, tuple[int, ...], float], float] = {}
    for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        ids = members[low:high]
        first = int(ids[0])
        if program.kind[first] != Kind.COLLECTIVE or not open_[first]:
            continue
        if price is None:
            raise BadInput(f"{program[first]}: pass price=(op, algorithm, ranks, size_B) -> s, or give it a duration_s")
        ranks = tuple(program.rank[ids].tolist())
        op, algorithm = program.name(int(program.op[first])), program.name(int(program.algorithm[first]))
        key = (op, algorithm, ranks, float(program.size_B[first]))
        if key not in known:
            known[key] = float(price(*key))
            if not 0 <= known[key] < np.inf:
                raise BadInput(f"price of {op} on {len(ranks)} ranks is {known[key]} s; it must be finite and >= 0")
        time_s[ids] = known[key]
