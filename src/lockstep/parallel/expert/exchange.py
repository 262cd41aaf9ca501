"""An all-to-all whose messages differ in size: priced exactly, and written as a program.

Round t = 1 .. n - 1: rank i sends to i + t, also when it has nothing for it; one send and one receive port each:

    end(i -> j) = max(last send of i, last receive of j) + alpha + beta * size(i, j)
Equal sizes give (n - 1)(alpha + beta S / n), the closed form of `collectives` all-to-all direct. Two levels: first
inside each node, to the member with the destination's place in its node; then between nodes, among equal places; a
rank starts the second when it has finished the first. Packing is free.

Source: R. Thakur et al., IJHPCA 19, 2005, section 3; S. Rajbhandari et al., "DeepSpeed-MoE", ICML 2022, section 5.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.collectives import LinkLike
from lockstep.errors import BadInput
from lockstep.parallel.expert.routing import Array
from lockstep.program import Kind, Program, ProgramBuilder


def flat_s(size_B: Array, node_ranks: int, inner: LinkLike, outer: LinkLike) -> Array:
    """Seconds of every message of the flat exchange; `inner` joins the ranks of one node."""
    node = np.arange(len(size_B)) // node_ranks
    same = node[:, np.newaxis] == node
    return np.where(same, _message_s(size_B, inner), _message_s(size_B, outer))


def finish_s(seconds: Array, ready_s: Any = 0.0) -> Array:
    """When each rank has sent and received everything; `seconds[..., i, j]` per message, groups on leading axes."""
    ranks = seconds.shape[-1]
    send = np.broadcast_to(ready_s, seconds.shape[:-1]).astype(np.float64)
    recv = send.copy()
    index = np.arange(ranks)
    for turn in range(1, ranks):
        peer = (index + turn) % ranks
        end = np.maximum(send, recv[..., peer]) + seconds[..., index, peer]
        send = end
        recv[..., peer] = end
    return np.maximum(send, recv)


def time_s(size_B: Array, inner: LinkLike, outer: LinkLike | None = None, node_ranks: int | None = None) -> float:
    """Seconds of the flat exchange of `size_B[i, j]` bytes."""
    nodes = node_ranks or len(size_B)
    return float(finish_s(flat_s(size_B, nodes, inner, outer or inner)).max(initial=0.0))


def hierarchical_time_s(size_B: Array, inner: LinkLike, outer: LinkLike, node_ranks: int) -> float:
    """Seconds of the two-level exchange."""
    first, second = _phases(size_B, node_ranks)
    ready_s = finish_s(_message_s(first, inner))
    return float(finish_s(_message_s(second, outer), ready_s.T).max(initial=0.0))


def program(size_B: Array, inner: LinkLike, outer: LinkLike | None = None, node_ranks: int | None = None) -> Program:
    """The flat exchange as messages."""
    nodes = node_ranks or len(size_B)
    builder = ProgramBuilder(len(size_B), ("send", "recv"))
    _write(
        builder,
        np.arange(len(size_B))[np.newaxis],
        size_B[np.newaxis],
        flat_s(size_B, nodes, inner, outer or inner)[np.newaxis],
    )
    return builder.build()


def hierarchical_program(size_B: Array, inner: LinkLike, outer: LinkLike, node_ranks: int) -> Program:
    """The two-level exchange as messages."""
    first, second = _phases(size_B, node_ranks)
    ranks = np.arange(len(size_B)).reshape(-1, node_ranks)
    builder = ProgramBuilder(len(size_B), ("send", "recv"))
    last = _write(builder, ranks, first, _message_s(first, inner))
    _write(builder, ranks.T, second, _message_s(second, outer), last)
    return builder.build()


def _phases(size_B: Array, node_ranks: int) -> tuple[Array, Array]:
    """Bytes inside nodes [node, from, to] and between nodes [place, from node, to node]."""
    ranks = len(size_B)
    if node_ranks < 1 or ranks % node_ranks:
        raise BadInput(f"{node_ranks} ranks per node do not divide {ranks} ranks", "node-ranks")
    nodes = ranks // node_ranks
    four = size_B.reshape(nodes, node_ranks, nodes, node_ranks)
    return four.sum(axis=2), four.sum(axis=1).transpose(2, 0, 1)


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
