"""An all-to-all whose messages differ in size: priced exactly, and written as a program.

Round t = 1 .. n - 1: rank i sends to i + t, also when it has nothing for it; one send and one receive port each:

    end(i -> j) = max(last send of i, last receive of j) + alpha + beta * size(i, j)
Equal sizes give (n - 1)(alpha + beta S / n), the closed form of `collectives` all-to-all direct. Two levels: first
inside each node, to the member with the destination's place in its node; then between nodes, among equal places; a
rank starts the second when it has finished the first. Packing is free.

Source: R. Thakur et al., IJHPCA 19, 2005, section 3; S. Rajbhandari et al., "DeepSpeed-MoE", ICML 2022, section 5.3.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.collectives import LinkLike
from lockstep.simulate.program import Kind, Program, ProgramBuilder

Phase = tuple[Array, Array, Array]
"""Ranks of groups that exchange among themselves [group, place]; bytes and seconds of messages [group, from, to]."""


def flat(size_B: Array, inner: LinkLike, outer: LinkLike | None = None, node_ranks: int | None = None) -> list[Phase]:
    """Every message of `size_B` [ranks, ranks] by itself; `inner` joins the ranks of one node."""
    ranks = np.arange(len(size_B))
    node = ranks // (node_ranks or len(size_B))
    same = node[:, np.newaxis] == node
    seconds = np.where(same, _message_s(size_B, inner), _message_s(size_B, outer or inner))
    return [(ranks[np.newaxis], size_B[np.newaxis], seconds[np.newaxis])]


def hierarchical(size_B: Array, inner: LinkLike, outer: LinkLike, node_ranks: int) -> list[Phase]:
    """The two levels of `size_B` [ranks, ranks]: inside nodes, then between nodes."""
    ranks = len(size_B)
    if node_ranks < 1 or ranks % node_ranks:
        raise BadInput(f"{node_ranks} ranks per node do not divide {ranks} ranks", "node-ranks")
    four = size_B.reshape(ranks // node_ranks, node_ranks, ranks // node_ranks, node_ranks)
    first, second = four.sum(axis=2), four.sum(axis=1).transpose(2, 0, 1)
    members = np.arange(ranks).reshape(-1, node_ranks)
    return [(members, first, _message_s(first, inner)), (members.T, second, _message_s(second, outer))]


def time_s(phases: list[Phase]) -> float:
    """Seconds of an exchange."""
    ready_s = np.zeros(phases[0][0].size)
    for members, _, seconds in phases:
        ready_s[members] = finish_s(seconds, ready_s[members])
    return float(ready_s.max(initial=0.0))


def finish_s(seconds: Array, ready_s: Array) -> Array:
    """When each rank has sent and received everything; `seconds[..., i, j]` per message, groups on leading axes."""
    ranks = seconds.shape[-1]
    send, recv = ready_s, ready_s.copy()
    index = np.arange(ranks)
    for turn in range(1, ranks):
        peer = (index + turn) % ranks
        end = np.maximum(send, recv[..., peer]) + seconds[..., index, peer]
        send = end
        recv[..., peer] = end
    return np.maximum(send, recv)


def program(phases: list[Phase]) -> Program:
    """An exchange as messages."""
    builder = ProgramBuilder(phases[0][0].size, ("send", "recv"))
    last: Array | None = None
    for members, size_B, seconds in phases:
        last = _write(builder, members, size_B, seconds, last)
    return builder.build()


def _message_s(size_B: Array, link: LinkLike) -> Array:
    return np.asarray(link.latency_s + size_B / link.bandwidth_Bps)


def _write(builder: ProgramBuilder, members: Array, size_B: Array, seconds: Array, after: Array | None = None) -> Array:
    """Adds the rounds of groups `members[group, index]`; returns the last send and receive of every rank, -1 for none.

    `after[rank]`: operations that a rank's first send and receive wait for.
    """
    last = np.full((builder.ranks, 2), -1, dtype=np.int64)
    index = np.arange(members.shape[1])
    for turn in range(1, len(index)):
        peer = (index + turn) % len(index)
        source, destination = members[:, index].ravel(), members[:, peer].ravel()
        given = {"size_B": size_B[:, index, peer].ravel(), "duration_s": seconds[:, index, peer].ravel()}
        first = turn == 1 and after is not None
        for side, (kind, rank, other) in enumerate(
            ((Kind.SEND, source, destination), (Kind.RECV, destination, source))
        ):
            waits = after[rank] if first and after is not None else None
            last[rank, side] = builder.extend(kind, rank, peer=other, after=waits, label="tokens", **given)
    return last
