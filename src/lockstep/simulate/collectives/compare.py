"""One collective, all its algorithms side by side: the rows of the command `collective`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.types.brief import Brief
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.simulate.collectives.best import usable
from lockstep.simulate.collectives.bounds import bus_bandwidth_Bps
from lockstep.simulate.collectives.cost import LinkLike, used_by
from lockstep.simulate.collectives.levels import (
    WAYS,
    Levels,
    lower_bound_on_levels_s,
    program_on_levels,
    sent_on_levels,
    times_on_levels,
    work_on_levels,
)
from lockstep.simulate.collectives.levels.hierarchy import Hierarchy, product
from lockstep.simulate.collectives.registry import MOST_OPERATIONS, check_arguments, get
from lockstep.simulate.collectives.registry import algorithms as names_of
from lockstep.simulate.program import Program

Simulate = Callable[[Program, LinkLike | Hierarchy], float]
"""(program, link or network of levels) -> seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm: closed form, simulation (None when not asked for, or too large) and what is sent."""

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


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Brief):
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

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return picked(self, "op ranks size_B rows best")


def compare(
    op: str,
    ranks: int,
    size_B: float,
    link: LinkLike,
    algorithms: Sequence[str] | None = None,
    simulate: Simulate | None = None,
    element_B: float = 0.0,
    progress: Progress | None = None,
) -> Comparison:
    """Price of every algorithm (or of `algorithms`), and its simulation when a `simulate(program, link)` is given.

    `progress(done, total)` is called after each algorithm. Raises BadInput, UnknownName.
    """
    check_arguments(ranks, size_B, link)
    chosen = _usable(op, link) if algorithms is None else tuple(algorithms)
    rows = (_row(op, name, int(ranks), size_B, link, simulate, element_B) for name in chosen)
    return Comparison(op, int(ranks), float(size_B), _counted(rows, len(chosen), progress))


def compare_on_levels(
    op: str,
    levels: Levels,
    size_B: float,
    algorithms: Sequence[str] | None = None,
    simulate: Simulate | None = None,
    node_ranks: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """The same of the ways across `levels`; with `node_ranks` consecutive ranks per node also the bytes between nodes.

    Raises UnknownName.
    """
    times = times_on_levels(op, levels, size_B, algorithms)
    rows = (_row_on_levels(op, way, levels, size_B, float(times[way]), simulate, node_ranks) for way in times)
    ranks = int(product([level[0] for level in levels]))
    return Comparison(op, ranks, float(size_B), _counted(rows, len(times), progress))


def forecasts(
    op: str, ranks: int, size_B: float, link: LinkLike, algorithms: Sequence[str] | None = None
) -> dict[str, float]:
    """Work of every program that `compare` would build, in operations; above MOST_OPERATIONS it builds none."""
    chosen = _usable(op, link) if algorithms is None else algorithms
    return {name: float(get(op, name).work(ranks, size_B, link)) for name in chosen}


def _usable(op: str, link: LinkLike) -> tuple[str, ...]:
    """All algorithms that the link can do."""
    return tuple(name for name in names_of(op) if usable(get(op, name), link))


def _counted(rows: Iterable[Row], total: int, progress: Progress | None) -> tuple[Row, ...]:
    made = []
    for row in rows:
        made.append(row)
        if progress is not None:
            progress(len(made), total)
    return tuple(made)


def _row(
    op: str, name: str, ranks: int, size_B: float, link: LinkLike, simulate: Simulate | None, element_B: float
) -> Row:
    algorithm = get(op, name)
    cost = algorithm.price(ranks, size_B, link, element_B)
    simulated_s = None
    if simulate is not None and float(algorithm.work(ranks, size_B, link, element_B)) <= MOST_OPERATIONS:
        simulated_s = float(simulate(algorithm.program(ranks, size_B, link, element_B), used_by(op, link)))
    return Row(
        algorithm=name,
        simulated_s=simulated_s,
        lower_bound_s=float(cost.lower_bound_s),
        cross_node_B=None,
        formula=algorithm.formula,
        ports=algorithm.ports,
        stale=algorithm.stale,
        bytes_sent_per_rank=float(cost.bytes_sent_per_rank_B),
        **_counts(cost.latency_steps, cost.messages, cost.total_B),
        **_rates(op, ranks, size_B, float(cost.time_s)),
    )


def _row_on_levels(
    op: str, way: str, levels: Levels, size_B: float, time_s: float, simulate: Simulate | None, node_ranks: int | None
) -> Row:
    sizes = [int(level[0]) for level in levels]
    ranks = int(product(sizes))
    sent = sent_on_levels(op, levels, size_B, way)
    simulated_s = None
    if simulate is not None and work_on_levels(op, levels, size_B, way) <= MOST_OPERATIONS:
        simulated_s = float(simulate(*program_on_levels(op, levels, size_B, way)))
    return Row(
        algorithm=way,
        simulated_s=simulated_s,
        lower_bound_s=float(lower_bound_on_levels_s(op, levels, size_B)),
        cross_node_B=None if node_ranks is None else sent.beyond_B(sizes, node_ranks),
        formula=WAYS[op][way].formula,
        ports=1,
        stale=False,
        bytes_sent_per_rank=float(sent.total.total_B - sent.total.switch_B) / ranks,
        **_counts(sent.latency_steps, sent.total.messages, sent.total.total_B),
        **_rates(op, ranks, size_B, time_s),
    )


def _counts(steps: Number, messages: Number, total_B: Number) -> Json:
    """Columns of a row about its messages."""
    return {
        "latency_steps": round(float(steps)),
        "messages": round(float(messages)),
        "total_B": float(total_B),
    }


def _rates(op: str, ranks: int, size_B: float, time_s: float) -> Json:
    """Columns of a row that follow from its time."""
    return {
        "time_s": time_s,
        "algorithm_bandwidth_Bps": size_B / time_s if time_s > 0 else 0.0,
        "bus_bandwidth_Bps": float(bus_bandwidth_Bps(op, ranks, size_B, time_s)),
    }
