"""All-to-all by Bruck: ceil(log2 n) rounds of about half the buffer; for small messages.

    time = sum_s (alpha + m_s c beta),   m_s = how many of 0 .. n - 1 have bit s set,  c = block = S/n (or ceil)
    n = 2^k: log2 n (alpha + S/2 beta)
Blocks travel store-and-forward by the bits of their distance. They are packed with equal size, so a buffer that does
not divide is padded to whole blocks (counted in the bytes). Packing itself is taken as free.

Source: J. Bruck et al., IEEE TPDS 8 (1997), section 3; R. Thakur et al., IJHPCA 19 (2005), on all-to-all.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Ints, Number, Whole
from lockstep.simulate.collectives.all_to_all.direct import block_start
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.scatter.binomial import hops
from lockstep.simulate.collectives.shares import Split, ceil_log2


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """A block crosses as many links as its distance has ones; the sum over distances is h(n) blocks per rank."""
    return Terms(ceil_log2(ranks), hops(ranks) * split.largest_B(size_B, ranks))


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n messages per round."""
    return Counts(ranks * ceil_log2(ranks), ranks * hops(ranks) * split.largest_B(size_B, ranks))


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Blocks by distance in `blocks`; round s moves those with bit s to the member 2^s further on."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    block = int(np.max(np.diff(edges)))
    index, distance = np.arange(ranks), np.arange(ranks)[:, np.newaxis]
    peer = (index + distance) % ranks
    load_blocks(rounds, members, edges, peer, distance, block)
    bit = 1
    while bit < ranks:
        moved = np.flatnonzero(np.arange(ranks) & bit)
        swap_blocks(rounds, members, members[:, (index + bit) % ranks], moved, block)
        bit *= 2
    origin = (index - distance) % ranks
    for k in range(ranks):
        place = block_start(edges, origin[k], index)
        rounds.copies(members, place, place + np.diff(edges), "blocks", k * block, "output")


def load_blocks(rounds: Rounds, members: Array, edges: Array, peer: Array, slot: Ints, block: int) -> None:
    """Copies the share for member peer[k, i] of member i to slot k of its `blocks`."""
    for k in range(peer.shape[0]):
        first, last = edges[:, peer[k]], edges[:, peer[k] + 1]
        position = int(np.ravel(slot)[k]) * block
        rounds.copies(members, position, position + last - first, "data", first, "blocks")


def swap_blocks(rounds: Rounds, members: Array, receivers: Array, moved: Array, block: int) -> None:
    """Packs the blocks `moved` [blocks], sends them as one message, and unpacks them into the same slots.

    `members`, `receivers`: [groups, places].
    """
    packed = np.arange(len(moved)) * block
    for k, position in zip((moved * block).tolist(), packed.tolist(), strict=True):
        rounds.copies(members, position, position + block, "blocks", k, "packed")
    rounds.messages(members, receivers, 0, len(moved) * block, buffer="packed", to_buffer="arrived")
    for k, position in zip((moved * block).tolist(), packed.tolist(), strict=True):
        rounds.copies(members, k, k + block, "arrived", position, "blocks")


BRUCK = register(
    Algorithm(
        op="all-to-all",
        name="bruck",
        terms=terms,
        counts=counts,
        formula="ceil(log2 n) alpha + h(n) S/n beta, h(2^k) = k 2^(k-1)",
        source="Bruck et al. 1997",
        copies=lambda ranks, **choices: 2 * ranks * (ranks + hops(ranks)),
        write=write,
    )
)
