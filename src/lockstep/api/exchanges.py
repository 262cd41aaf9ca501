"""The verbs about collectives: `messages`, `collective`, `crossover`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from lockstep.api.calling import strict, verb
from lockstep.api.network import LinkWords, Network, flags, read_network
from lockstep.api.quantity import Quantity, Size
from lockstep.api.question import whole
from lockstep.errors import BadInput
from lockstep.units import parse_size_B

if TYPE_CHECKING:
    from lockstep.collectives import BestMap, Comparison, Crossover, Messages
    from lockstep.collectives.compare import Simulate
    from lockstep.program import Program

MOST_RANKS = 1_000_000


@verb
def messages(workers: Quantity, params: Quantity, *, program: str | None = None) -> Messages:
    """Messages and elements of one synchronisation of `params` parameters, counted from the programs."""
    from lockstep.collectives import messages as count

    with flags("--program"):
        return count(whole(workers, "--workers"), whole(params, "--params"), program)


@dataclass(frozen=True, slots=True)
class Collective:
    """All algorithms of one collective on a network, each with one time."""

    comparison: Comparison
    network: Network
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {**self.comparison.to_dict(), **self.network.words(), "assumptions": list(self.assumptions)}


@verb
def collective(
    op: str,
    *,
    ranks: Quantity,
    size: Size,
    algorithm: str | None = None,
    simulate: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **link: Unpack[LinkWords],
) -> Collective:
    """Price (and simulate) the algorithms of `op`: one, several between commas, or all.

    On one link these are all that there are ports for; across the levels of a cluster the ways that use all levels.
    """
    network, size_B = _group(ranks, link), parse_size_B(size, "--size")
    names = _names(op, algorithm, "--algorithm", network)
    named = algorithm not in (None, "all")
    with flags("--ranks"):
        unbuilt = _unbuilt(op, network, size_B, names, named=named) if simulate else []
        comparison = _compared(op, network, size_B, names, _makespan_s if simulate else None, progress)
    left_out = [] if named else _needing_ports(op, network)
    said = [*_said(op, network), *(f"left out: {_too_wide(op, name, network)}" for name in left_out)]
    return Collective(comparison, network, (*said, *unbuilt))


@verb
def crossover(op: str, *, ranks: Quantity, between: str | None = None, **link: Unpack[LinkWords]) -> Crossover:
    """Sizes at which the fastest algorithm changes, exactly; `between` names the ones to compare."""
    from lockstep.collectives import crossover as find
    from lockstep.collectives import crossover_on_levels

    network = _group(ranks, link)
    names = _names(op, between, "--between", network)
    with flags("--between"):
        if network.spans_levels:
            return crossover_on_levels(op, network.levels, None if between in (None, "all") else names)
        return find(op, network.ranks, network.link, names)


@strict
def best_algorithms(op: str, *, ranks: Quantity, between: str | None = None, **link: Unpack[LinkWords]) -> BestMap:
    """The fastest algorithm over group sizes up to `ranks` (powers of two) and sizes from 1 KiB to 4 GiB.

    On a cluster every group spans the levels that its ranks span; groups that do not fill whole nodes are left out.
    """
    from lockstep.collectives import best_map, best_map_on_levels

    network = _group(ranks, link)
    names = _names(op, between, "--between", network)
    groups, sizes_B = [2**i for i in range(1, network.ranks.bit_length())] or [1], [2.0**i for i in range(10, 33)]
    if not network.spans_levels:
        return best_map(op, groups, sizes_B, network.link, names)
    levels = {}
    for number in groups:
        with suppress(BadInput):
            levels[number] = _group(number, link).levels
    return best_map_on_levels(op, levels, sizes_B, None if between in (None, "all") else names)


def _group(ranks: Quantity, link: LinkWords) -> Network:
    number = whole(ranks, "--ranks")
    if number > MOST_RANKS:
        raise BadInput(f"must be at most {MOST_RANKS:,}, got {number:,}", "--ranks")
    network = read_network(number, **link)
    network.check_filled()
    return network


def _names(op: str, given: str | None, where: str, network: Network) -> Sequence[str] | None:
    """Names between commas, all known, or all that the network has ports or ways for; None for `all` on one link.

    A collective that does not exist is refused first.
    """
    from lockstep.collectives import algorithms

    with flags("OP"):
        try:
            algorithms(op)
        except BadInput as error:
            raise BadInput(error.message, "OP") from None
    every: list[str] | None = None
    if network.spans_levels:
        every = _ways(op, "OP", network)
    elif wide := _needing_ports(op, network):
        every = [name for name in algorithms(op) if name not in wide]
    if given is None or given == "all":
        return every
    names = [name.strip() for name in given.split(",")]
    for name in names:
        check_algorithm(op, name, where, network)
    return names


def check_algorithm(op: str, name: str, where: str, network: Network) -> None:
    """Raises BadInput unless there is such an algorithm, and a price of it on the network's levels and ports."""
    from lockstep.collectives import get
    from lockstep.collectives.levels import WAYS

    if network.spans_levels:
        if name in _ways(op, where, network):
            return
        with flags(where):
            get(op, name)
        levels, one_link = _levels_or_link(network)
        ways = f"{name} is for one link; the ways across {levels} are {' and '.join(WAYS[op])}"
        traced = f"`lockstep trace {op} --algorithm {name}`, which simulates its messages"
        raise BadInput(f"{ways}. Choose one of these, {one_link}, or {traced}", where)
    with flags(where):
        get(op, name)
    if name in _needing_ports(op, network):
        raise BadInput(_too_wide(op, name, network) + "; give --latency and --bandwidth of one port", where)


def _ways(op: str, where: str, network: Network) -> list[str]:
    """Names of the ways across the levels that the network spans. Raises BadInput for an operation without one."""
    from lockstep.collectives.levels import WAYS

    if op not in WAYS:
        levels, one_link = _levels_or_link(network)
        raise BadInput(f"{op} has no way across {levels}, as {', '.join(WAYS)} have; give {one_link}", where)
    return list(WAYS[op])


def _levels_or_link(network: Network) -> tuple[str, str]:
    """The levels that have no price, and what has one, in words."""
    one_link = f"--latency and --bandwidth of one link, or at most {network.levels[0][0]} ranks, which share one level"
    return f"the levels of {network.words()['cluster']}", one_link


def _needing_ports(op: str, network: Network) -> list[str]:
    """Algorithms for more ports than a device of the cluster has: one per level, at the rate of all its links."""
    from lockstep.collectives import algorithms, get

    one_level = network.cluster is not None and not network.spans_levels
    return [name for name in algorithms(op) if get(op, name).ports > 1] if one_level else []


def _too_wide(op: str, name: str, network: Network) -> str:
    from lockstep.collectives import get

    device = "a device" if network.cluster is None else f"a device of {network.cluster.name}"
    return (
        f"{name} needs {get(op, name).ports} ports per rank; {device} has one per level, at the rate of all its links"
    )


def _compared(
    op: str, network: Network, size_B: float, names: Sequence[str] | None, run: Simulate | None, progress: Any
) -> Comparison:
    from lockstep.collectives import compare, compare_on_levels

    if network.spans_levels:
        return compare_on_levels(op, network.levels, size_B, names, run, network.node_ranks, progress)
    found = compare(op, network.ranks, size_B, network.link, names, run, progress=progress)
    if network.node_ranks is None:
        return found
    # Nodes of one rank: every byte is between nodes.
    return replace(found, rows=tuple(replace(row, cross_node_B=row.total_B) for row in found.rows))


def _makespan_s(program: Program, network: Any) -> float:
    """Seconds of a program on a link or over levels."""
    from lockstep.simulate import simulate

    return simulate(program, network).makespan_s


def _unbuilt(op: str, network: Network, size_B: float, names: Sequence[str] | None, *, named: bool) -> list[str]:
    """What is said of programs too large to be simulated. Raises BadInput when one of them was named, or for all."""
    from lockstep.collectives import MOST_OPERATIONS, check_work, forecasts, work_on_levels

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
        return ["a message takes latency + size / bandwidth; one send and one receive port per rank"]
    return [
        "a message takes latency + size / bandwidth of the level at which its two ranks meet",
        "one send and one receive port per rank and level, at one device's share of its links; all work simultaneously",
        f"an algorithm for one link has no time here; `lockstep trace {op} --algorithm NAME` simulates its messages",
    ]
