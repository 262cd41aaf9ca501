"""What runs on the rig: all-reduce programs by name, a ring in a bad order, a parameter server, and two all-to-alls.

The all-to-alls differ in nothing but the order of sends: everyone begins with rank 0, or everyone with the next rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lockstep.collectives import get
from lockstep.errors import UnknownName
from lockstep.program import Program, ProgramBuilder

ELEMENT_B = 4
SERVER = "parameter-server"
SCATTERED = "ring-scattered"
SAME_FIRST, ROTATED = "all-to-all-same-first", "all-to-all-rotated"


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks of the collective, node by node."""

    ranks: int
    node_ranks: int
    """Ranks per node; `ranks` when there are no nodes."""

    @property
    def has_nodes(self) -> bool:
        """Whether there are several nodes of several ranks."""
        return 1 < self.node_ranks < self.ranks

    @property
    def scattered(self) -> list[int]:
        """The worst order for a ring over nodes: every step leaves the node."""
        return [rank for first in range(self.node_ranks) for rank in range(first, self.ranks, self.node_ranks)]


def _all_reduce(name: str) -> Callable[[Group, int], Program]:
    return lambda group, size_B: get("all-reduce", name).program(group.ranks, size_B, element_B=ELEMENT_B)


def _hierarchical(group: Group, size_B: int) -> Program:
    levels = (group.node_ranks,) if group.has_nodes else None
    return get("all-reduce", "hierarchical").program(group.ranks, size_B, element_B=ELEMENT_B, levels=levels)


def _scattered(group: Group, size_B: int) -> Program:
    return get("all-reduce", "ring").program(group.ranks, size_B, element_B=ELEMENT_B, order=group.scattered)


def _server(group: Group, size_B: int) -> Program:
    return get(SERVER, "synchronous").program(group.ranks, size_B, element_B=ELEMENT_B)


def _all_to_all(rotated: bool) -> Callable[[Group, int], Program]:
    """All receives are posted at the begin; sends go one after another, through one port. Parts are equal."""

    def program(group: Group, size_B: int) -> Program:
        ranks = group.ranks
        part = size_B // ELEMENT_B // ranks
        part_B = part * ELEMENT_B
        builder = ProgramBuilder(ranks, ["send", *(f"recv {rank}" for rank in range(ranks))])
        for rank in range(ranks):
            peers = [(rank + step) % ranks for step in range(1, ranks)]
            chunks = {peer: (peer * part, (peer + 1) * part) for peer in peers}
            order = peers if rotated else sorted(peers)
            sends = [builder.send(rank, peer, part_B, chunk=chunks[peer]) for peer in order]
            for peer in peers:
                stream, chunk = f"recv {peer}", chunks[peer]
                recv = builder.recv(rank, peer, part_B, chunk=chunk, buffer="inbox", stream=stream)
                builder.copy(rank, part_B, chunk=chunk, after=(recv, *sends), stream=stream)
        return builder.build()

    return program


ENTRANTS: dict[str, Callable[[Group, int], Program]] = {
    **{name: _all_reduce(name) for name in ("ring", "rabenseifner", "recursive-doubling", "tree")},
    "hierarchical": _hierarchical,
    **{name: _all_reduce(name) for name in ("direct", "naive")},
    SERVER: _server,
    SCATTERED: _scattered,
    SAME_FIRST: _all_to_all(rotated=False),
    ROTATED: _all_to_all(rotated=True),
}
"""Name -> program of a group and a size. `ring-scattered` is a ring that leaves the node at every step."""
ALL_TO_ALLS = (SAME_FIRST, ROTATED)


def default_entrants(group: Group) -> tuple[str, ...]:
    """All all-reduces; the scattered ring only where there are nodes."""
    left_out = ALL_TO_ALLS if group.has_nodes else (SCATTERED, *ALL_TO_ALLS)
    return tuple(name for name in ENTRANTS if name not in left_out)


def entrant(name: str, group: Group, size_B: int) -> Program:
    """The program of that name. Raises UnknownName, BadInput."""
    if name not in ENTRANTS:
        raise UnknownName("algorithm on the rig", name, ENTRANTS, "--algorithm")
    return ENTRANTS[name](group, size_B)
