"""Ranks and algorithms of a collective, as a verb is asked for them."""

from __future__ import annotations

from collections.abc import Sequence

from lockstep.base.errors import BadInput
from lockstep.show.verbs.words.network import Network, flags, read_network
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import LinkWords

MOST_RANKS = 1_000_000


def read_group(ranks: Quantity, link: LinkWords) -> Network:
    number = whole(ranks, "--ranks")
    if number > MOST_RANKS:
        raise BadInput(f"must be at most {MOST_RANKS:,}, got {number:,}", "--ranks")
    network = read_network(number, **link)
    network.check_filled()
    return network


def read_names(op: str, given: str | None, where: str, network: Network) -> Sequence[str] | None:
    """Names between commas, all known, or all that the network has ports or ways for; None for `all` on one link.

    A collective that does not exist is refused first.
    """
    from lockstep.simulate.collectives import algorithms

    with flags("OP"):
        try:
            algorithms(op)
        except BadInput as error:
            raise BadInput(error.message, "OP") from None
    every: list[str] | None = None
    if network.spans_levels:
        every = ways_named(op, "OP", network)
    elif none := [*needing_ports(op, network), *needing_switch(op, network)]:
        every = [name for name in algorithms(op) if name not in none]
    if given is None or given == "all":
        return every
    names = [name.strip() for name in given.split(",")]
    for name in names:
        check_algorithm(op, name, where, network)
    return names


def check_algorithm(op: str, name: str, where: str, network: Network) -> None:
    """Raises BadInput unless there is such an algorithm, and a price of it on the network's levels and ports."""
    from lockstep.simulate.collectives import get
    from lockstep.simulate.collectives.levels import WAYS

    if network.spans_levels:
        if name in ways_named(op, where, network):
            return
        with flags(where):
            get(op, name)
        levels, one_link = levels_or_link(network)
        ways = f"{name} is for one link; the ways across {levels} are {' and '.join(WAYS[op])}"
        traced = f"`lockstep trace {op} --algorithm {name}`, which simulates its messages"
        raise BadInput(f"{ways}. Choose one of these, {one_link}, or {traced}", where)
    with flags(where):
        get(op, name)
    if name in needing_ports(op, network):
        raise BadInput(too_wide(op, name, network) + "; give --latency and --bandwidth of one port", where)
    check_switch(op, name, where, network)


def check_switch(op: str, name: str, where: str, network: Network) -> None:
    """Raises BadInput for an algorithm in a switch that ranks of a cluster do not share, or that does not reduce."""
    from lockstep.simulate.collectives import algorithms, get

    if network.cluster is None or name not in algorithms(op) or not get(op, name).in_switch:
        return
    if network.spans_levels:
        raise BadInput(f"{name} is for ranks that share one switch: at most {network.levels[0][0]}", where)
    if name in needing_switch(op, network):
        raise BadInput(
            f"{name} needs a switch that reduces, and that of {network.words()['cluster']} does not; in a file of your "
            "own give its link `switch: {latency, achieved}`",
            where,
        )


def ways_named(op: str, where: str, network: Network) -> list[str]:
    """Names of the ways across the levels that the network spans. Raises BadInput for an operation without one."""
    from lockstep.simulate.collectives.levels import WAYS

    if op not in WAYS:
        levels, one_link = levels_or_link(network)
        raise BadInput(f"{op} has no way across {levels}, as {', '.join(WAYS)} have; give {one_link}", where)
    return list(WAYS[op])


def levels_or_link(network: Network) -> tuple[str, str]:
    """The levels that have no price, and what has one, in words."""
    one_link = f"--latency and --bandwidth of one link, or at most {network.levels[0][0]} ranks, which share one level"
    return f"the levels of {network.words()['cluster']}", one_link


def needing_ports(op: str, network: Network) -> list[str]:
    """Algorithms for more ports than a device of the cluster has: one per level, at the rate of all its links."""
    from lockstep.simulate.collectives import algorithms, get

    one_level = network.cluster is not None and not network.spans_levels
    return [name for name in algorithms(op) if get(op, name).ports > 1] if one_level else []


def needing_switch(op: str, network: Network) -> list[str]:
    """Algorithms for a switch that the level of the cluster does not have; a single link is as one says."""
    from lockstep.simulate.collectives import algorithms, get, usable

    one_level = network.cluster is not None and not network.spans_levels
    return [name for name in algorithms(op) if not usable(get(op, name), network.link)] if one_level else []


def too_wide(op: str, name: str, network: Network) -> str:
    from lockstep.simulate.collectives import get

    device = "a device" if network.cluster is None else f"a device of {network.cluster.name}"
    return (
        f"{name} needs {get(op, name).ports} ports per rank; {device} has one per level, at the rate of all its links"
    )
