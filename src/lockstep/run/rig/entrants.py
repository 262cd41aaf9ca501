"""What runs on the rig: every algorithm of every collective, and programs that only a network with queues tells apart.

all-reduce   parameter-server   its server has a host of its own
             ring-scattered     a ring that leaves the node at every step
all-to-all   same-first         everyone sends to rank 0 first, then to rank 1, ...
             next-first         everyone sends to the next rank first; nothing else differs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.simulate.collectives import PlainLink, among_ranks, get
from lockstep.simulate.play import Topology
from lockstep.simulate.program import Program, ProgramBuilder

ELEMENT_B = 4
SCATTERED = "ring-scattered"
USUAL = ("ring", "rabenseifner", "recursive-doubling", "tree", "hierarchical", "direct", "naive")
"""All-reduces that run when none is named."""
HOST_S = 2.7e-4
"""Measured: what two hosts add to the latency of a link (docs/validation-rig.md)."""
USUAL_LINK = PlainLink(5e-3 + HOST_S, 12.5e6)


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks of the collective, node by node."""

    ranks: int
    node_ranks: int
    """Ranks per node; `ranks` when there are no nodes."""
    link: PlainLink = USUAL_LINK
    """Settles choices such as the number of segments."""

    @property
    def has_nodes(self) -> bool:
        """Whether there are several nodes of several ranks."""
        return 1 < self.node_ranks < self.ranks

    @property
    def scattered(self) -> list[int]:
        """The worst order for a ring over nodes: every step leaves the node."""
        return [rank for first in range(self.node_ranks) for rank in range(first, self.ranks, self.node_ranks)]

    def on(self, topology: Topology) -> Group:
        """The same ranks with choices settled by the longest way between them, and the slowest link on it."""
        delay_s, host = max((topology.delay_s(0, host), host) for host in range(1, self.ranks))
        return replace(self, link=PlainLink(delay_s + HOST_S, topology.rate_Bps(0, host)))


def entrant(op: str, name: str, group: Group, size_B: int) -> Program:
    """The program of that name. Raises UnknownName, BadInput."""
    special = SPECIAL.get(op, {})
    if name in special:
        return special[name](group, size_B)
    if name not in entrants(op):
        raise UnknownName(f"algorithm of {op} on the rig", name, entrants(op), "--algorithm")
    return get(op, name).program(group.ranks, size_B, group.link, ELEMENT_B)


def entrants(op: str) -> tuple[str, ...]:
    """Names of all programs of a collective; no switch of the rig reduces. Raises UnknownName."""
    return tuple(dict.fromkeys((*among_ranks(op), *SPECIAL.get(op, {}))))


def usual_entrants(op: str, group: Group) -> tuple[str, ...]:
    """What runs when nothing is named; the scattered ring only where there are nodes."""
    if op != "all-reduce":
        return entrants(op)
    return (*USUAL, "parameter-server", *((SCATTERED,) if group.has_nodes else ()))


def _hierarchical(group: Group, size_B: int) -> Program:
    levels = (group.node_ranks,) if group.has_nodes else None
    return get("all-reduce", "hierarchical").program(group.ranks, size_B, group.link, ELEMENT_B, levels=levels)


def _scattered(group: Group, size_B: int) -> Program:
    return get("all-reduce", "ring").program(group.ranks, size_B, group.link, ELEMENT_B, order=group.scattered)


def _server(group: Group, size_B: int) -> Program:
    return get("parameter-server", "synchronous").program(group.ranks, size_B, group.link, ELEMENT_B)


def _all_to_all(group: Group, size_B: int, next_first: bool) -> Program:
    """All receives are posted at the begin; sends go one after another, through one port. Parts are equal."""
    ranks = group.ranks
    part = size_B // ELEMENT_B // ranks
    part_B = part * ELEMENT_B
    builder = ProgramBuilder(ranks, ["send", *(f"recv {rank}" for rank in range(ranks))])
    for rank in range(ranks):
        peers = [(rank + step) % ranks for step in range(1, ranks)]
        chunks = {peer: (peer * part, (peer + 1) * part) for peer in peers}
        order = peers if next_first else sorted(peers)
        sends = [builder.send(rank, peer, part_B, chunk=chunks[peer]) for peer in order]
        for peer in peers:
            stream, chunk = f"recv {peer}", chunks[peer]
            recv = builder.recv(rank, peer, part_B, chunk=chunk, buffer="inbox", stream=stream)
            builder.copy(rank, part_B, chunk=chunk, after=(recv, *sends), stream=stream)
    return builder.build()


SPECIAL: Mapping[str, Mapping[str, Callable[[Group, int], Program]]] = {
    "all-reduce": {"hierarchical": _hierarchical, "parameter-server": _server, SCATTERED: _scattered},
    "all-to-all": {
        "same-first": lambda group, size_B: _all_to_all(group, size_B, next_first=False),
        "next-first": lambda group, size_B: _all_to_all(group, size_B, next_first=True),
    },
}
