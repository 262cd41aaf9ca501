"""One collective, all its algorithms side by side: the rows of the command `collective`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lockstep.collectives.bounds import bus_bandwidth_Bps
from lockstep.collectives.cost import LinkLike
from lockstep.collectives.registry import MOST_OPERATIONS, Algorithm, check_arguments, get
from lockstep.collectives.registry import algorithms as names_of
from lockstep.collectives.shares import whole_nodes
from lockstep.program import Program

Simulate = Callable[[Program, LinkLike], float]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm: closed form, simulation (None when not asked for, or too large) and what was counted."""

    algorithm: str
    time_s: float
    simulated_s: float | None
    latency_steps: int
    messages: int
    bytes_sent_per_rank: float
    total_B: float
    algorithm_bandwidth_Bps: float
    bus_bandwidth_Bps: float
    lower_bound_s: float
    cross_node_B: float | None
    formula: str
    ports: int
    stale: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows in order of the registry and the name of the fastest algorithm."""

    op: str
    ranks: int
    size_B: float
    rows: tuple[Row, ...]

    @property
    def best(self) -> str:
        """Fastest one-port algorithm of the rows that gives everyone the full result; ties go to the first.

        When there is none of these, the fastest of all.
        """
        equal = [row for row in self.rows if row.ports == 1 and not row.stale] or list(self.rows)
        return min(equal, key=lambda row: row.time_s).algorithm

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form in the words of the command line."""
        return {
            "op": self.op,
            "ranks": self.ranks,
            "size_B": self.size_B,
            "rows": [asdict(row) for row in self.rows],
            "best": self.best,
        }


def compare(
    op: str,
    ranks: int,
    size_B: float,
    link: LinkLike,
    algorithms: Sequence[str] | None = None,
    simulate: Simulate | None = None,
    element_B: float = 0.0,
    node_ranks: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Price of every algorithm (or of `algorithms`), and its simulation when a `simulate(program, link)` is given.

    `node_ranks`: ranks per node, numbered node by node; then bytes that cross nodes are counted from the program, and
    algorithms in groups take the nodes as their groups. `progress(done, total)` is called after each algorithm.
    Raises BadInput, UnknownName.
    """
    check_arguments(ranks, size_B, link)
    if node_ranks is not None:
        whole_nodes(ranks, node_ranks)
    chosen = names_of(op) if algorithms is None else tuple(algorithms)
    rows = []
    for name in chosen:
        rows.append(_row(op, name, int(ranks), size_B, link, simulate, element_B, node_ranks))
        if progress is not None:
            progress(len(rows), len(chosen))
    return Comparison(op, int(ranks), float(size_B), tuple(rows))


def forecasts(
    op: str,
    ranks: int,
    size_B: float,
    link: LinkLike,
    algorithms: Sequence[str] | None = None,
    node_ranks: int | None = None,
) -> dict[str, float]:
    """Work of every program that `compare` would build, in operations; above MOST_OPERATIONS it builds none."""
    chosen = [get(op, name) for name in (names_of(op) if algorithms is None else algorithms)]
    return {one.name: float(one.work(ranks, size_B, link, **_nodes_as_groups(one, node_ranks))) for one in chosen}


def _row(
    op: str,
    name: str,
    ranks: int,
    size_B: float,
    link: LinkLike,
    simulate: Simulate | None,
    element_B: float,
    node_ranks: int | None,
) -> Row:
    algorithm = get(op, name)
    choices = _nodes_as_groups(algorithm, node_ranks)
    cost = algorithm.price(ranks, size_B, link, element_B, **choices)
    time_s, messages = float(cost.time_s), round(float(cost.messages))
    program, work = None, float(algorithm.work(ranks, size_B, link, element_B, **choices))
    if work <= MOST_OPERATIONS and (simulate is not None or node_ranks is not None):
        program = algorithm.program(ranks, size_B, link, element_B, **choices)
    return Row(
        algorithm=name,
        time_s=time_s,
        simulated_s=None if program is None or simulate is None else float(simulate(program, link)),
        latency_steps=round(float(cost.latency_steps)),
        messages=messages,
        bytes_sent_per_rank=float(cost.bytes_sent_per_rank_B),
        total_B=float(cost.total_B),
        algorithm_bandwidth_Bps=size_B / time_s if time_s > 0 else 0.0,
        bus_bandwidth_Bps=float(bus_bandwidth_Bps(op, ranks, size_B, time_s)),
        lower_bound_s=float(cost.lower_bound_s),
        cross_node_B=None if program is None or node_ranks is None else cross_node_B(program, node_ranks),
        formula=algorithm.formula,
        ports=algorithm.ports,
        stale=algorithm.stale,
    )


def _nodes_as_groups(algorithm: Algorithm, node_ranks: int | None) -> dict[str, Any]:
    """The choice of groups of an algorithm that has groups, where nodes are known."""
    if node_ranks is None:
        return {}
    groups = {"levels": (node_ranks,), "node_ranks": node_ranks, "row_ranks": node_ranks}
    return {name: group for name, group in groups.items() if name in algorithm.choices}


def cross_node_B(program: Program, node_ranks: int) -> float:
    """Bytes of all messages whose ends are on different nodes of `node_ranks` consecutive ranks."""
    crossing = (program.peer >= 0) & (program.rank // node_ranks != program.peer // node_ranks)
    # A message is two operations, so half of what both ends see.
    return float(np.sum(program.size_B[crossing])) / 2
