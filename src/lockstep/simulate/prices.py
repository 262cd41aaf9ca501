"""Seconds of every operation of a program on a link or a cluster, before any waiting, contention or noise.

    message      latency_s + size_B / bandwidth_Bps     of the link between the two ranks
    reduce       reduce_s_per_B * size_B
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
from lockstep.simulate.links import links_between

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
        time_s[reductions] = reduce_s_per_B(link) * program.size_B[reductions]
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


def reduce_s_per_B(link: Any) -> float:
    """Seconds per byte of a reduction: of the link, or of the innermost level of a cluster; 0 when it says nothing."""
    if hasattr(link, "reduce_s_per_B"):
        return float(link.reduce_s_per_B)
    levels = getattr(link, "levels", ())
    return float(getattr(levels[0].link, "reduce_s_per_B", 0.0)) if levels else 0.0


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
