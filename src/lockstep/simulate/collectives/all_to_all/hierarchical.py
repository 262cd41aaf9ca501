"""All-to-all in two levels: inside each node by destination index, then between nodes; few long messages.

    time = (g - 1) (alpha + M c beta) + (M - 1) (alpha + g c beta),   M = n/g nodes,  c = block = S/n (or ceil)
g = `node_ranks` (default: the largest divisor of n up to sqrt n). Blocks are packed with equal size, so a buffer that
does not divide is padded (counted in the bytes); packing is taken as free. Different links inside and between:
`collectives.levels`.

Source: S. Rajbhandari et al., "DeepSpeed-MoE", ICML 2022 (hierarchical all-to-all).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.all_to_all.bruck import load_blocks
from lockstep.simulate.collectives.all_to_all.direct import block_start
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, square_divisor, whole_nodes


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, node_ranks: Number | None = None) -> Json:
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


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole, node_ranks: int = 1) -> None:
    """Two levels: the ranks of a node, the nodes."""
    write_levels(rounds, members, start, stop, (int(node_ranks), members.shape[1] // int(node_ranks)))


def write_levels(
    rounds: Rounds, members: Array, start: Whole, stop: Whole, sizes: Sequence[int], starts_s: Sequence[float] = ()
) -> None:
    """Level after level, innermost first: blocks go to the member whose place at that level is their destination's.

    A block is known by a member's number, whose places at the levels done are those of its origin and at the others
    those of its destination; `sizes` are members per unit, innermost first. `members`: [groups, places]. `starts_s`:
    seconds before the first message of each level.
    """
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    block = int(np.max(np.diff(edges)))
    index, below = np.arange(ranks), 1
    slot = index
    load_blocks(rounds, members, edges, np.repeat(index[:, np.newaxis], ranks, axis=1), slot, block)
    for size, start_s in zip(sizes, starts_s or (0.0,) * len(sizes), strict=True):
        rounds.start(members, start_s)
        place = index // below % size
        packed = place * (ranks // size) + index // (below * size) * below + index % below
        for k in range(ranks):
            rounds.copies(members, packed[k] * block, (packed[k] + 1) * block, "blocks", slot[k] * block, "packed")
        _exchange(rounds, members, place, index - place * below, below, size, ranks // size * block)
        slot, below = packed, below * size
    for k in range(ranks):
        position = block_start(edges, np.full(ranks, k), index)
        rounds.copies(members, position, position + np.diff(edges), "blocks", slot[k] * block, "output")


def copies(ranks: Number, levels: int) -> Number:
    """Local copies of `write_levels`: every block in, once per level and out, and what stays at every level."""
    return ranks * (ranks * (levels + 2) + levels)


def _exchange(rounds: Rounds, members: Array, place: Array, first: Array, below: int, count: int, run: int) -> None:
    """Direct exchange of runs from `packed` to `blocks` among the `count` members first, first + below, ..."""
    rounds.copies(members, place * run, (place + 1) * run, "packed", place * run, "blocks")
    for turn in range(1, count):
        peer = (place + turn) % count
        rounds.messages(
            members, members[:, first + peer * below], peer * run, (peer + 1) * run,
            buffer="packed", to_buffer="blocks", to_start=place * run,
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
        examples=({"node_ranks": 4},),
        settle=settle,
        copies=lambda ranks, **choices: copies(ranks, 2),
        write=write,
    )
)
