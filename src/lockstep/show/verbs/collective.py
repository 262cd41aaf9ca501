"""The algorithms of one collective, priced and compared."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.base.units import (
    format_bandwidth,
    format_frac,
    format_time,
    parse_bandwidth_Bps,
    parse_frac,
    parse_size_B,
)
from lockstep.show.verbs.words.about import needing
from lockstep.show.verbs.words.algorithms import needing_ports, read_group, read_names, too_wide
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.kinds import LINK
from lockstep.show.verbs.words.network import Network, flags
from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.quantity import Bandwidth, Quantity, Size
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import OP, RANKS, SIZE, LinkWords

if TYPE_CHECKING:
    from lockstep.simulate.collectives import Comparison, Row
    from lockstep.simulate.collectives.compare import Simulate
    from lockstep.simulate.program import Program


RING = "ring"
INDEXED = 2
"""Bytes of a sparse entry over those of a dense one: a value and an index as large."""


@dataclass(frozen=True, slots=True, repr=False)
class Collective(Shown):
    """All algorithms of one collective on a network, each with one time."""

    comparison: "Comparison"
    network: Network
    assumptions: tuple[str, ...]
    seconds_at: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    """Algorithm -> seconds at another size in bytes, where they are not its price on this network."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return self.comparison.to_dict() | self.network.words() | picked(self, "assumptions")


ALGORITHM = Option("A", "Algorithm: one, several separated by commas, or all.", names="algorithms", default="all")
ORDER = Option(
    "O",
    "Order of a cluster's ranks in one flat ring: node (one node after another), round-robin, or random:SEED; "
    "the ring is then simulated message by message.",
)
SLOW_LINK = Option("R", "Bandwidth of one link of a ring, from rank 0 to rank 1; the others keep theirs. Simulated.")
SHARDS = Option("S", "Machines that share the parameters of a synchronous parameter server.", default="1")
DENSITY = Option("FRAC", "Share of the entries that a parameter server's workers send, each with an index as large.")


@verb
@needing(LINK)
def collective(
    op: Annotated[str, OP],
    *,
    ranks: Annotated[Quantity, RANKS],
    size: Annotated[Size, SIZE],
    algorithm: Annotated[str | None, ALGORITHM] = None,
    simulate: Annotated[bool, Switch("Also run the programs through the simulation engine.")] = False,
    order: Annotated[str | None, ORDER] = None,
    slow_link: Annotated[Bandwidth | None, SLOW_LINK] = None,
    shards: Annotated[Quantity | None, SHARDS] = None,
    density: Annotated[Quantity | None, DENSITY] = None,
    progress: Callable[[int, int], None] | None = None,
    **link: Unpack[LinkWords],
) -> Collective:
    """Price (and simulate) the algorithms of `op`: one, several between commas, or all.

    On one link these are all that there are ports for; across the levels of a cluster the ways that use all levels.
    """
    network, size_B = read_group(ranks, link), parse_size_B(size, "--size")
    if order is not None:
        return _ordered(op, network, size_B, algorithm, order)
    if slow_link is not None:
        return _slowed(op, network, size_B, algorithm, parse_bandwidth_Bps(slow_link, "--slow-link"))
    if shards is not None or density is not None:
        return _served(op, network, size_B, algorithm, shards, density)
    names = read_names(op, algorithm, "--algorithm", network)
    named = algorithm not in (None, "all")
    with flags("--ranks"):
        unbuilt = _unbuilt(op, network, size_B, names, named=named) if simulate else []
        comparison = _compared(op, network, size_B, names, _makespan_s if simulate else None, progress)
    left_out = [] if named else needing_ports(op, network)
    said = [*_said(op, network), *(f"left out: {too_wide(op, name, network)}" for name in left_out)]
    return Collective(comparison, network, (*said, *unbuilt))


def _served(
    op: str, network: Network, size_B: float, algorithm: str | None, shards: Quantity | None, density: Quantity | None
) -> Collective:
    """The synchronous parameter server alone, sharded, with whole or sparse gradients."""
    from lockstep.simulate.collectives import Comparison, compare, get

    flag = "--shards" if shards is not None else "--density"
    if op != "parameter-server" or algorithm not in (None, "synchronous") or network.spans_levels:
        raise BadInput("is for the synchronous parameter-server on one link", flag)
    number = 1 if shards is None else whole(shards, "--shards")
    share = 1.0 if density is None else parse_frac(density, "--density")
    if not share > 0:
        raise BadInput("must be above 0", "--density")
    sent_frac = 1.0 if density is None else INDEXED * share
    sent_B = sent_frac * size_B
    with flags("--shards"):
        cost = get(op, "synchronous").price(network.ranks, sent_B, network.link, shards=number)
        whole_s = float(get(op, "synchronous").price_time_s(network.ranks, size_B, network.link, shards=number))
    (row,) = compare(op, network.ranks, sent_B, network.link, ["synchronous"]).rows
    served = replace(
        row, time_s=float(cost.time_s), messages=int(cost.messages), latency_steps=int(cost.latency_steps),
        algorithm_bandwidth_Bps=size_B / float(cost.time_s), bus_bandwidth_Bps=size_B / float(cost.time_s),
    )  # fmt: skip
    ring_s = float(get("all-reduce", "ring").price_time_s(network.ranks, size_B, network.link))
    said = (
        f"{number} shard{'s' * (number > 1)}; a dense ring takes {format_time(ring_s)}, which sparse gradients with "
        f"their indices beat below a density of about {format_frac(ring_s / (INDEXED * whole_s))}"
    )
    at = {"synchronous": partial(_served_s, network, number, sent_frac)}
    return Collective(Comparison(op, network.ranks, size_B, (served,)), network, (said, *_said(op, network)[:1]), at)


def _served_s(network: Network, shards: int, sent_frac: float, size_B: float) -> float:
    from lockstep.simulate.collectives import get

    server = get("parameter-server", "synchronous")
    return float(server.price_time_s(network.ranks, sent_frac * size_B, network.link, shards=shards))


def _ordered(op: str, network: Network, size_B: float, algorithm: str | None, order: str) -> Collective:
    """A flat ring with ranks in that order, its seconds and bytes between nodes from its own messages, and others."""
    from lockstep.simulate.collectives import Comparison, bus_bandwidth_Bps, get
    from lockstep.simulate.collectives.orders import crossing_B, rank_order

    if not network.spans_levels or network.node_ranks is None:
        raise BadInput("needs ranks on several nodes of a --cluster", "--order")
    names = [] if algorithm is None else read_names(op, algorithm, "--algorithm", network)
    if RING not in (names or ()):
        raise BadInput("orders the ranks of one ring; add --algorithm ring", "--order")
    with flags("--order"):
        places = rank_order(order, network.ranks, network.node_ranks).tolist()
        program = get(op, RING).program(network.ranks, size_B, order=places)
    at = partial(_ordered_s, op, network, places)
    time_s, crossing = at(size_B), crossing_B(program, network.node_ranks)

    def rated(row: "Row") -> "Row":
        return row if row.algorithm != RING else replace(
            row, time_s=time_s, simulated_s=time_s, cross_node_B=crossing, algorithm_bandwidth_Bps=size_B / time_s,
            bus_bandwidth_Bps=float(bus_bandwidth_Bps(op, network.ranks, size_B, time_s)),
        )  # fmt: skip

    rows = tuple(map(rated, _compared(op, network, size_B, names, None, None).rows))
    said = f"one ring with its ranks in the order {order}, simulated message by message"
    return Collective(Comparison(op, network.ranks, size_B, rows), network, (said, *_said(op, network)[:2]), {RING: at})


def _ordered_s(op: str, network: Network, places: list[int], size_B: float) -> float:
    from lockstep.simulate.collectives import get
    from lockstep.simulate.play import simulate

    program = get(op, RING).program(network.ranks, size_B, order=places)
    return float(simulate(program, network.cluster).makespan_s)


def _slowed(op: str, network: Network, size_B: float, algorithm: str | None, slow_Bps: float) -> Collective:
    """A ring alone whose first link has another bandwidth, simulated message by message."""
    from lockstep.simulate.collectives import Comparison, bus_bandwidth_Bps

    if network.spans_levels or algorithm != RING:
        raise BadInput("is for a ring on one link; add --algorithm ring, and --latency and --bandwidth", "--slow-link")
    at = partial(_slowed_s, op, network, slow_Bps)
    time_s = at(size_B)
    (row,) = _compared(op, network, size_B, ["ring"], None, None).rows
    slowed = replace(
        row, time_s=time_s, simulated_s=time_s, algorithm_bandwidth_Bps=size_B / time_s,
        bus_bandwidth_Bps=float(bus_bandwidth_Bps(op, network.ranks, size_B, time_s)),
    )  # fmt: skip
    said = (
        f"the link from rank 0 to rank 1 at {format_bandwidth(slow_Bps)}, simulated message by message; "
        f"{format_time(row.time_s)} with equal links"
    )
    return Collective(Comparison(op, network.ranks, size_B, (slowed,)), network, (said,), {RING: at})


def _slowed_s(op: str, network: Network, slow_Bps: float, size_B: float) -> float:
    from lockstep.simulate.collectives import get
    from lockstep.simulate.play import ring_on, simulate_contended

    links = ring_on(network.link, network.ranks, slow_Bps)
    return float(simulate_contended(get(op, "ring").program(network.ranks, size_B), links).makespan_s)


def _compared(
    op: str, network: Network, size_B: float, names: Sequence[str] | None, run: "Simulate | None", progress: Any
) -> "Comparison":
    from lockstep.simulate.collectives import compare, compare_on_levels

    if network.spans_levels:
        return compare_on_levels(op, network.levels, size_B, names, run, network.node_ranks, progress)
    found = compare(op, network.ranks, size_B, network.link, names, run, progress=progress)
    if network.node_ranks is None:
        return found
    # Nodes of one rank: every byte is between nodes.
    return replace(found, rows=tuple(replace(row, cross_node_B=row.total_B) for row in found.rows))


def _makespan_s(program: "Program", network: object) -> float:
    """Seconds of a program on a link or over levels."""
    from lockstep.simulate.play import simulate

    return simulate(program, network).makespan_s


def _unbuilt(op: str, network: Network, size_B: float, names: Sequence[str] | None, *, named: bool) -> list[str]:
    """What is said of programs too large to be simulated. Raises BadInput when one of them was named, or for all."""
    from lockstep.simulate.collectives import MOST_OPERATIONS, check_work, forecasts, work_on_levels

    if network.spans_levels:
        works = {way: work_on_levels(op, network.levels, size_B, way) for way in names or ()}
    else:
        works = forecasts(op, network.ranks, size_B, network.link, names)
    large = [name for name, work in works.items() if work > MOST_OPERATIONS]
    if large and (named or len(large) == len(works)):
        least = min(large, key=works.__getitem__)
        check_work(f"{op} {least}", network.ranks, works[least])
    return [f"priced but not built, above {MOST_OPERATIONS:,} operations: {', '.join(large)}"] if large else []


def _said(op: str, network: Network) -> list[str]:
    if not network.spans_levels:
        start_s = network.link.start_s
        begins = f", after a start of {format_time(start_s)} of each collective" if start_s else ""
        return [f"a message takes latency + size / bandwidth{begins}; one send and one receive port per rank"]
    return [
        "a message takes latency + size / bandwidth of the level at which its two ranks meet",
        "one send and one receive port per rank and level, at one device's share of its links; all work simultaneously",
        f"an algorithm for one link has no time here; `lockstep trace {op} --algorithm NAME` simulates its messages",
    ]
