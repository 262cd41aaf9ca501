"""Orders in which the ranks of several nodes stand in a flat ring, and the bytes that cross between nodes.

    node          one node after another: one hop in g leaves a node of g ranks     2 M (n - 1) / n S between M nodes
    round-robin   nodes in turn: every hop leaves its node                          2 (n - 1) S
    random        drawn by a seed: on average                                       2 (n - g) S
A hierarchical all-reduce sends 2 (M - 1) S.

Source: counted on the ring's program (`ring.py`).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.arrays import Ints
from lockstep.simulate.program import Program

ORDERS = ("node", "round-robin", "random")


def rank_order(order: str, ranks: int, node_ranks: int) -> Ints:
    """Rank at every place of the ring, for `node`, `round-robin`, `random` or `random:SEED`. Raises BadInput."""
    name, _, seed = order.partition(":")
    if name not in ORDERS:
        raise UnknownName("order of ranks", name, ORDERS)
    if seed and (name != "random" or not (seed.isascii() and seed.isdigit())):
        raise BadInput(f"{order!r} is not an order; random takes a whole number as its seed, as in random:3", "order")
    places = np.arange(ranks)
    if name == "round-robin":
        return places.reshape(-1, node_ranks).T.ravel()
    return np.random.default_rng(int(seed or 0)).permutation(ranks) if name == "random" else places


def crossing_B(program: Program, node_ranks: int) -> float:
    """Bytes that a program sends between nodes of `node_ranks` ranks each."""
    node = np.arange(program.ranks) // node_ranks
    return float(program.pair_B()[node[:, None] != node[None, :]].sum())
