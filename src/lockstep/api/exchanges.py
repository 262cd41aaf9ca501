"""The verbs about collectives: `messages`, `collective`, `crossover`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from lockstep.api.calling import strict
from lockstep.api.network import LinkWords, Network, flags, read_network
from lockstep.api.question import Quantity, whole
from lockstep.errors import BadInput
from lockstep.units import parse_size_B

if TYPE_CHECKING:
    from lockstep.collectives import BestMap, Comparison, Crossover, Messages, PlainLink
    from lockstep.program import Program

MOST_RANKS = 1_000_000


@strict
def messages(workers: Quantity, params: Quantity, *, program: str | None = None) -> Messages:
    """Messages and elements of one synchronisation of `params` parameters, counted from the programs."""
    from lockstep.collectives import messages as count

    with flags("--program"):
        return count(whole(workers, "--workers"), whole(params, "--params"), program)


@dataclass(frozen=True, slots=True)
class Collective:
    """All algorithms of one collective; on a cluster also what its levels make of it."""

    comparison: Comparison
    network: Network
    over_levels_s: dict[str, float] | None
    over_levels_simulated_s: dict[str, float] | None
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            **self.comparison.to_dict(),
            **self.network.words(),
            "over_levels_s": self.over_levels_s,
            "over_levels_simulated_s": self.over_levels_simulated_s,
            "assumptions": list(self.assumptions),
        }


@strict
def collective(
    op: str,
    *,
    ranks: Quantity,
    size: Quantity,
    algorithm: str | None = None,
    simulate: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **link: Unpack[LinkWords],
) -> Collective:
    """Price (and simulate) the algorithms of `op`: one, several between commas, or all that there are ports for."""
    from lockstep.collectives import compare

    network, size_B = _group(ranks, link), parse_size_B(size, "--size")
    names = _names(op, algorithm, "--algorithm", network)
    with flags("--ranks"):
        priced_only = _priced_only(op, network, size_B, names, simulate, named=algorithm not in (None, "all"))
        comparison = compare(
            op, network.ranks, size_B, network.link, names, _simulator(network) if simulate else None,
            node_ranks=network.node_ranks, progress=progress,
        )  # fmt: skip
    if network.node_ranks:
        comparison = _bounded(comparison, network)
    over_s = _over_levels(op, network, size_B)
    simulated_s = _simulated_over_levels(op, network, size_B, over_s) if simulate and over_s else None
    left_out = [] if algorithm not in (None, "all") else _needing_ports(op, network)
    said = [*_said(network, simulate), *(f"left out: {_too_wide(op, name, network)}" for name in left_out)]
    return Collective(comparison, network, over_s, simulated_s, (*said, *priced_only))


@strict
def crossover(op: str, *, ranks: Quantity, between: str | None = None, **link: Unpack[LinkWords]) -> Crossover:
    """Sizes at which the fastest algorithm changes, exactly; `between` names the ones to compare."""
    from lockstep.collectives import crossover as find

    network = _group(ranks, link)
    names = _names(op, between, "--between", network)
    with flags("--between"):
        return find(op, network.ranks, network.link, names)


@strict
def best_algorithms(op: str, *, ranks: Quantity, between: str | None = None, **link: Unpack[LinkWords]) -> BestMap:
    """The fastest algorithm over group sizes up to `ranks` (powers of two) and sizes from 1 KiB to 4 GiB."""
    from lockstep.collectives import best_map

    network = _group(ranks, link)
    groups = [2**i for i in range(1, network.ranks.bit_length())] or [1]
    return best_map(
        op, groups, [2.0**i for i in range(10, 33)], network.link, _names(op, between, "--between", network)
    )


def _group(ranks: Quantity, link: LinkWords) -> Network:
    number = whole(ranks, "--ranks")
    if number > MOST_RANKS:
        raise BadInput(f"must be at most {MOST_RANKS:,}, got {number:,}", "--ranks")
    return read_network(number, **link)


def _names(op: str, given: str | None, where: str, network: Network) -> Sequence[str] | None:
    """Names between commas, all known, or all that the network has ports for; None for `all` on one link.

    A collective that does not exist is refused first.
    """
    from lockstep.collectives import algorithms, get

    with flags("OP"):
        try:
            algorithms(op)
        except BadInput as error:
            raise BadInput(error.message, "OP") from None
    wide = _needing_ports(op, network)
    if given is None or given == "all":
        return [name for name in algorithms(op) if name not in wide] if wide else None
    names = [name.strip() for name in given.split(",")]
    with flags(where):
        for name in names:
            get(op, name)
    for name in names:
        if name in wide:
            raise BadInput(_too_wide(op, name, network) + "; give --latency and --bandwidth of one port", where)
    return names


def _needing_ports(op: str, network: Network) -> list[str]:
    """Algorithms for more ports than a device of the cluster has: one per level, at the rate of all its links."""
    from lockstep.collectives import algorithms, get

    return [] if network.cluster is None else [name for name in algorithms(op) if get(op, name).ports > 1]


def _too_wide(op: str, name: str, network: Network) -> str:
    from lockstep.collectives import get

    device = "a device" if network.cluster is None else f"a device of {network.cluster.name}"
    return (
        f"{name} needs {get(op, name).ports} ports per rank; {device} has one per level, at the rate of all its links"
    )


def _simulator(network: Network) -> Any:
    """Makespan of a program on the link, or on the cluster's own levels."""
    from lockstep.simulate import simulate

    def run(program: Program, link: PlainLink) -> float:
        return simulate(program, network.cluster if network.node_ranks else link).makespan_s

    return run


def _over_levels(op: str, network: Network, size_B: float) -> dict[str, float] | None:
    from lockstep.collectives import times_on_levels
    from lockstep.collectives.levels import WAYS

    if network.node_ranks is None or op not in WAYS:
        return None
    return {name: float(time_s) for name, time_s in times_on_levels(op, network.levels, size_B).items()}


def _simulated_over_levels(op: str, network: Network, size_B: float, ways: dict[str, float]) -> dict[str, float] | None:
    """Makespan of every way's program that is small enough; None when none is."""
    from lockstep.collectives import MOST_OPERATIONS, program_on_levels, work_on_levels
    from lockstep.simulate import simulate

    small = [way for way in ways if work_on_levels(op, network.levels, size_B, way) <= MOST_OPERATIONS]
    return {way: simulate(*program_on_levels(op, network.levels, size_B, way)).makespan_s for way in small} or None


def _priced_only(
    op: str, network: Network, size_B: float, names: Sequence[str] | None, simulate: bool, *, named: bool
) -> list[str]:
    """What is said of programs too large to be built. Raises BadInput to simulate one that was named, or all."""
    from lockstep.collectives import MOST_OPERATIONS, check_work, forecasts, work_on_levels
    from lockstep.collectives.levels import WAYS

    works = forecasts(op, network.ranks, size_B, network.link, names, network.node_ranks)
    large = [name for name, work in works.items() if work > MOST_OPERATIONS]
    if simulate and large and (named or len(large) == len(works)):
        least = min(large, key=works.__getitem__)
        check_work(f"{op} {least}", network.ranks, works[least])
    if simulate and network.node_ranks:
        ways = WAYS.get(op, {})
        large += [
            f"{way} over levels" for way in ways
            if work_on_levels(op, network.levels, size_B, way) > MOST_OPERATIONS
        ]  # fmt: skip
    if not large or not (simulate or network.node_ranks):
        return []
    return [f"priced but not built, above {MOST_OPERATIONS:,} operations: {', '.join(large)}"]


def _bounded(comparison: Comparison, network: Network) -> Comparison:
    """The comparison with the bound of a cluster: whole units as ranks with the ports of all their devices.

    Nothing leaves a unit faster than through all its ports, and no rank is faster than its ports of all levels.
    """
    from lockstep.collectives import PlainLink, lower_bound_s

    latency_s = min(level[1] for level in network.levels)
    rank_Bps = sum(level[2] for level in network.levels)
    bound_s, below = 0.0, 1
    for size, _, rate_Bps, _ in network.levels:
        # The send buffer of an all-to-all belongs to one rank; all other sizes are those of the group.
        size_B = comparison.size_B * (below if comparison.op == "all-to-all" else 1)
        ports = PlainLink(latency_s, rank_Bps if below == 1 else below * rate_Bps)
        units = network.ranks // below
        bound_s = max(bound_s, float(lower_bound_s(comparison.op, units, size_B, ports)))
        below *= size
    rows = tuple(replace(row, lower_bound_s=bound_s) for row in comparison.rows)
    return replace(comparison, rows=rows)


def _said(network: Network, simulate: bool) -> list[str]:
    said = ["a message takes latency + size / bandwidth; one send and one receive port per rank"]
    if network.node_ranks:
        said.append("time_s: every message over the widest level spanned, at one device's share of it")
        if simulate:
            said.append("simulated_s: every message over the level at which its two ranks meet")
    return said
