"""Where experts live: a map from expert to rank, every rank with the same number of experts.

    contiguous    experts 0 .. E/n - 1 on rank 0, and so on
    round-robin   expert e on rank e mod n
    balanced      by load: the heaviest expert left goes to the lightest rank with room (longest processing time first)

Source: R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Applied Math. 17, 1969 (LPT).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.arrays import Array


def contiguous(load: Array, ranks: int) -> Array:
    """Rank of each expert [experts], neighbouring experts together; `load` [experts]."""
    return np.arange(len(load)) // (len(load) // ranks)


def round_robin(load: Array, ranks: int) -> Array:
    """Rank of each expert [experts], neighbouring experts apart; `load` [experts]."""
    return np.arange(len(load)) % ranks


def balanced(load: Array, ranks: int) -> Array:
    """Rank of each expert [experts]: heaviest `load` [experts] first, to the lightest rank with room, then lowest."""
    room = np.full(ranks, len(load) // ranks)
    total = np.zeros(ranks)
    owner = np.empty(len(load), dtype=np.int64)
    for expert in np.argsort(-load, kind="stable"):
        rank = int(np.argmin(np.where(room > 0, total, np.inf)))
        owner[expert], total[rank], room[rank] = rank, total[rank] + load[expert], room[rank] - 1
    return owner


PLACEMENTS: dict[str, Callable[[Array, int], Array]] = {
    "contiguous": contiguous,
    "round-robin": round_robin,
    "balanced": balanced,
}


def place(name: str, load: Array, ranks: int) -> Array:
    """Rank of each expert [experts] of a `load` [experts]. Raises BadInput, UnknownName."""
    if name not in PLACEMENTS:
        raise UnknownName("placement", name, PLACEMENTS, "placement")
    if ranks < 1 or len(load) % ranks:
        raise BadInput(f"{ranks} ranks do not divide {len(load)} experts; every rank holds as many", "ranks")
    return PLACEMENTS[name](load, ranks)
