"""Seconds of every operation of a program on a link or a cluster, before any waiting, contention or noise.

    message      latency_s + size_B / bandwidth_Bps     of the link between the two ranks
    reduce       reduce_s_per_B * size_B                of the link over which its operand came
    copy, barrier 0
    collective   price(op, algorithm, ranks, size_B)

A time given in the program (`duration_s`) always wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.errors import BadInput
from lockstep.program import Kind, Program
from lockstep.simulate.links import brought_from, links_between

Array = npt.NDArray[Any]
Price = Callable[[str, str, tuple[int, ...], float], float]


def durations_s(program: Program, link: Any = None, price: Price | None = None) -> Array:
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


def _message_s(program: Program, ids: Array, link: Any) -> Array:
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


def _reduction_s_per_B(program: Program, ids: Array, link: Any) -> Array:
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
