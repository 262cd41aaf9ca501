"""All-to-all in two levels: inside each node by destination index, then between nodes; few long messages.

    time = (g - 1) (alpha + M c beta) + (M - 1) (alpha + g c beta),   M = n/g nodes,  c = block = S/n (or ceil)
g = `node_ranks` (default: the largest divisor of n up to sqrt n). Blocks are packed with equal size, so a buffer that
does not divide is padded (counted in the bytes); packing is taken as free. Different links inside and between:
`collectives.levels`.

Source: S. Rajbhandari et al., "DeepSpeed-MoE", ICML 2022 (hierarchical all-to-all).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lockstep.collectives.all_to_all.bruck import load_blocks
from lockstep.collectives.all_to_all.direct import block_start
from lockstep.collectives.cost import Counts, LinkLike, Number, Terms
from lockstep.collectives.registry import Algorithm, register
from lockstep.collectives.rounds import Array, Rounds, cut
from lockstep.collectives.shares import Split, square_divisor, whole_nodes


def settle(
    ranks: Number, size_B: Number, link: LinkLike, split: Split, node_ranks: Number | None = None
) -> dict[str, Any]:
    """Ranks per node: given, or the most square choice."""
    return {"node_ranks": square_divisor(ranks) if node_ranks is None else whole_nodes(ranks, node_ranks)}


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, node_ranks: Number | None = None) -> Terms:
    """Inner exchange of M blocks per message, outer exchange of g blocks per message."""
    inner, outer = phases(ranks, size_B, split, settle(ranks, size_B, link, split, node_ranks)["node_ranks"])
    return inner + outer


def phases(ranks: Number, size_B: Number, split: Split, node_ranks: Number) -> tuple[Terms, Terms]:
    """Terms inside the node and between nodes."""
    block_B, nodes = split.largest_B(size_B, ranks), ranks / node_ranks
    inner = Terms(node_ranks - 1, (node_ranks - 1) * nodes * block_B)
    return inner, Terms(nodes - 1, (nodes - 1) * node_ranks * block_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, node_ranks: Number | None = None) -> Counts:
    """Every rank sends what lies on its critical path."""
    carried = terms(ranks, size_B, link, split, node_ranks)
    return Counts(ranks * carried.steps, ranks * carried.critical_B)


def write(rounds: Rounds, members: Array, start: Any, stop: Any, node_ranks: int = 1) -> None:
    """Slots of `blocks` by (index in node, node) of the destination; of `gathered` by the rank of the origin."""
    ranks, local = members.shape[1], int(node_ranks)
    nodes = ranks // local
    edges = cut(start, stop, ranks)
    block = int(np.max(np.diff(edges)))
    index = np.arange(ranks)
    node, here = index // local, index % local
    slot = np.arange(ranks)
    destination = (slot % nodes) * local + slot // nodes
    load_blocks(rounds, members, edges, np.repeat(destination[:, np.newaxis], ranks, axis=1), slot, block)
    _exchange(rounds, members, here, lambda peer: node * local + peer, local, nodes * block, "blocks", "inner")
    # `inner` holds, per origin index, one block per destination node; regroup per destination node.
    for k in range(ranks):
        origin, target = k // nodes, k % nodes
        position = (target * local + origin) * block
        rounds.copies(members, position, position + block, "inner", k * block, "outgoing")
    _exchange(rounds, members, node, lambda peer: peer * local + here, nodes, local * block, "outgoing", "gathered")
    for k in range(ranks):
        place = block_start(edges, np.full(ranks, k), index)
        rounds.copies(members, place, place + np.diff(edges), "gathered", k * block, "output")


def _exchange(
    rounds: Rounds, members: Array, mine: Array, rank_of: Callable[[Array], Array], count: int, run: int,
    buffer: str, to_buffer: str,
) -> None:  # fmt: skip
    """Direct exchange of runs among `count` ranks; `mine` is each rank's place there, `rank_of` a place's rank."""
    rounds.copies(members, mine * run, (mine + 1) * run, buffer, mine * run, to_buffer)
    for turn in range(1, count):
        peer = (mine + turn) % count
        rounds.messages(
            members, members[:, rank_of(peer)], peer * run, (peer + 1) * run,
            buffer=buffer, to_buffer=to_buffer, to_start=mine * run,
        )  # fmt: skip


HIERARCHICAL = register(
    Algorithm(
        op="all-to-all",
        name="hierarchical",
        terms=terms,
        counts=counts,
        formula="(g-1)(alpha + S/g beta) + (M-1)(alpha + S/M beta)",
        source="Rajbhandari et al. 2022",
        choices=("node_ranks",),
        settle=settle,
        write=write,
    )
)
