"""All-to-all by direct exchange: every rank sends each other rank its share, one peer per round.

    time = (n - 1) (alpha + c beta),   c = largest share = S/n
n ranks (any), S bytes of send buffer per rank, its own share included. Every byte crosses the network once: the
bandwidth lower bound. Round t: to member i + t, from member i - t, so that no receive port is asked twice at once.

Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005), on all-to-all (long messages, n not a power of two).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Number, Whole
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Terms:
    """n - 1 rounds of the largest share, which all of member 0's messages are."""
    return Terms(ranks - 1, (ranks - 1) * split.largest_B(size_B, ranks))


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split) -> Counts:
    """n (n - 1) messages; every rank's shares arrive n - 1 times."""
    return Counts(ranks * (ranks - 1), (ranks - 1) * size_B)


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Member i's share for j comes from `data` and lands in `output` of j as block i."""
    ranks = members.shape[1]
    edges = cut(start, stop, ranks)
    keep_own(rounds, members, edges)
    index = np.arange(ranks)
    for turn in range(1, ranks):
        exchange(rounds, members, edges, index, (index + turn) % ranks)


def keep_own(rounds: Rounds, members: Array, edges: Array) -> None:
    """Copies the own share of `members` [groups, places] to its place in `output`; `edges` [groups, places + 1]."""
    index = np.arange(members.shape[1])
    place = block_start(edges, index, index)
    rounds.copies(members, place, place + np.diff(edges), "data", edges[:, :-1], "output")


def exchange(rounds: Rounds, members: Array, edges: Array, sender: Array, receiver: Array) -> None:
    """One round: member sender[k]'s share for receiver[k] becomes block sender[k] of its output."""
    rounds.messages(
        members[:, sender], members[:, receiver], edges[:, receiver], edges[:, receiver + 1],
        to_buffer="output", to_start=block_start(edges, sender, receiver),
    )  # fmt: skip


def block_start(edges: Array, sender: Array, receiver: Array) -> Array:
    """Where the block from `sender` to `receiver` begins in `output` [groups, pairs], with blocks of equal size.

    `edges`: [groups, places + 1]; `sender`, `receiver`: [pairs].
    """
    return np.asarray(edges[:, :1] + sender * (edges[:, receiver + 1] - edges[:, receiver]))


DIRECT = register(
    Algorithm(
        op="all-to-all",
        name="direct",
        terms=terms,
        counts=counts,
        formula="(n-1)(alpha + S/n beta)",
        source="Thakur et al. 2005",
        copies=lambda ranks, **choices: ranks,
        write=write,
    )
)
