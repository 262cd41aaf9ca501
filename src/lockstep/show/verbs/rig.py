"""The verb about shaped links: `rig`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.progress import Progress
from lockstep.base.units import format_time, parse_bandwidth_Bps, parse_frac, parse_size_B, parse_time_s
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.keeping import kept
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Bandwidth, Quantity, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import RUNS, SEED

if TYPE_CHECKING:
    from lockstep.run.rig import Group, Race
    from lockstep.simulate.play import Topology
    from lockstep.simulate.program import Program

TOPOLOGIES = ("star", "flat", "uplinks")
USUAL_NODES, USUAL_INNER_DELAY, USUAL_INNER_RATE = 2, "100us", "1Gbit/s"
MOST_RANKS, MOST_REPEATS = 16, 100
SMALLEST_BPS, LARGEST_BPS = 1e5, 1e9
LONGEST_DELAY_S = 1.0
LARGEST_B = 16e6
"""A socket takes a whole message of that size; a larger one would wait for windows, which the simulation ignores."""
LONGEST_RUN_S = 1800.0


_LINKS = "Links"


SIZE = Option("S", "Message size; several, separated by commas, find crossovers.", default="64KiB")
RATE = Option("R", "Rate of each link, or uplink.", panel=_LINKS, default="100Mbit/s")
NODES = Option("N", "Number of nodes that share the ranks, with uplinks.", panel=_LINKS, default="2")
JITTER = Option("T", "Largest extra delay of a packet; packets stay in order.", panel=_LINKS, default="0")
ALGORITHM = Option("A", "Algorithm: one, several separated by commas, or all.", default="the usual ones")


@strict
def rig(
    op: Annotated[str, Argument("OP", "Collective to measure.", names="ops", default="all-reduce")] = "all-reduce",
    *,
    topology: Annotated[str, Option("T", "Topology: star, flat or uplinks.", panel=_LINKS, default="star")] = "star",
    ranks: Annotated[Quantity, Option("N", "Number of ranks, one host each.", default="4")] = 4,
    size: Annotated[str | Quantity, SIZE] = "64KiB",
    delay: Annotated[Time, Option("T", "One-way delay from host to host.", panel=_LINKS, default="5ms")] = "5ms",
    rate: Annotated[Bandwidth, RATE] = "100Mbit/s",
    nodes: Annotated[Quantity | None, NODES] = None,
    inner_delay: Annotated[Time | None, Option("T", "Delay inside a node.", panel=_LINKS, default="100us")] = None,
    inner_rate: Annotated[Bandwidth | None, Option("R", "Rate inside a node.", panel=_LINKS, default="1Gbit/s")] = None,
    jitter: Annotated[Time, JITTER] = 0.0,
    loss: Annotated[Quantity, Option("FRAC", "Share of packets lost.", panel=_LINKS, default="0")] = 0.0,
    algorithm: Annotated[str | None, ALGORITHM] = None,
    repeats: Annotated[Quantity, Option("N", "Number of runs; the median counts.", default="5")] = 5,
    mtu: Annotated[Quantity, Option("B", "Largest packet, in bytes.", panel=_LINKS, default="9000")] = 9000,
    seed: Annotated[Quantity, SEED] = 0,
    root: Annotated[str | Path | None, RUNS] = None,
    progress: Progress | None = None,
) -> "Race":
    """A collective on hosts of this machine joined by links of a chosen rate and delay: predicted, then measured.

    `op`: any collective. `topology`: star (a link up and one down per host), flat (a private link per pair), uplinks
    (`nodes`, by default 2, with fast links of `inner_rate` and `inner_delay` inside and one slow link up and down
    each; the three belong to uplinks alone). `delay` one way from host to host, `rate` of
    each link. `size` and `algorithm`: one or several between commas. `root`: where runs are kept, by default
    $LOCKSTEP_RUNS, nowhere without. Raises BadInput where the machine permits no namespaces, or where it and not the
    links would set the pace.
    """
    from lockstep.run.rig import Rig, entrant, judged, measure_capacity, race

    _check_topology(topology, {"--nodes": nodes, "--inner-delay": inner_delay, "--inner-rate": inner_rate})
    group = _group(topology, ranks, USUAL_NODES if nodes is None else nodes)
    sizes_B = _sizes_B(size, group)
    names = _names(op, algorithm, group)
    with flags("--algorithm"):
        hosts = max(entrant(op, name, group, sizes_B[0]).ranks for name in names)
        inner = (
            USUAL_INNER_DELAY if inner_delay is None else inner_delay,
            USUAL_INNER_RATE if inner_rate is None else inner_rate,
        )
        links = _topology(topology, group, hosts, delay, rate, *inner, jitter, loss)
        programs = [entrant(op, name, group.on(links), size_B) for size_B in sizes_B for name in names]
    number, packet_B = _repeats(repeats, links, group, programs), whole(mtu, "--mtu")
    with flags("--mtu"):
        made = Rig(links, mtu_B=packet_B, seed=whole(seed, "--seed", minimum=0))
    capacity = measure_capacity(hosts, packet_B)
    limits = judged(capacity, links, group.ranks, programs)
    asked = {
        "op": op, "topology": topology, "ranks": group.ranks, "nodes": group.ranks // group.node_ranks,
        "delay": delay, "rate": rate, "jitter": jitter, "loss": loss, "sizes_B": sizes_B, "algorithms": names,
        "repeats": number, "mtu_B": packet_B,
    }  # fmt: skip
    with kept("rig", asked, root) as record, made as running:
        found = race(
            running, op, group, names, sizes_B, repeats=number, capacity=capacity, limits=limits, report=progress
        )
        for lap in found.laps:
            record(**lap.to_dict())
        record.result = found.summary()
    return found


def _repeats(given: Quantity, topology: "Topology", group: "Group", programs: "Sequence[Program]") -> int:
    """The number of repeats, if that many end before long."""
    from lockstep.run.rig import expected_s

    number = whole(given, "--repeats")
    if number > MOST_REPEATS:
        raise BadInput(f"must be at most {MOST_REPEATS}, got {number}", "--repeats")
    if (wait_s := expected_s(topology, group.ranks, programs, number)) > LONGEST_RUN_S:
        runs = f"{len(programs)} algorithms and sizes, {number} times,"
        raise BadInput(f"{runs} take about {format_time(wait_s)}; try fewer or smaller sizes", "--size")
    return number


def _check_topology(topology: str, inside: Mapping[str, Quantity | None]) -> None:
    """Refuses an unknown topology, and flags about the inside of nodes where there are no nodes."""
    if topology not in TOPOLOGIES:
        raise UnknownName("topology", topology, TOPOLOGIES, "--topology")
    for flag, value in inside.items():
        if value is not None and topology != "uplinks":
            raise BadInput(f"belongs to --topology uplinks; {topology} has no nodes", flag)


def _group(topology: str, ranks: Quantity, nodes: Quantity) -> "Group":
    from lockstep.run.rig import Group

    number = whole(ranks, "--ranks", minimum=2)
    if number > MOST_RANKS:
        raise BadInput(f"must be at most {MOST_RANKS}, got {number}; more would measure this machine's CPU", "--ranks")
    if topology != "uplinks":
        return Group(number, number)
    units = whole(nodes, "--nodes", minimum=2)
    if number % units:
        raise BadInput(f"{units} nodes do not divide {number} ranks", "--nodes")
    return Group(number, number // units)


def _topology(
    name: str, group: "Group", hosts: int, delay: Time, rate: Bandwidth, inner_delay: Time, inner_rate: Bandwidth,
    jitter: Time, loss: Quantity,
) -> "Topology":  # fmt: skip
    """The links of `hosts` hosts; those beyond the ranks, of parameter servers, are nodes of their own."""
    from lockstep.simulate.play import flat_topology, star_topology, uplinks_topology

    delay_s, rate_Bps = _delay_s(delay, "--delay"), _rate_Bps(rate, "--rate")
    jitter_s, loss_frac = _delay_s(jitter, "--jitter"), parse_frac(loss, "--loss")
    if not 0 <= loss_frac <= 0.5:
        raise BadInput(f"must be from 0 to 50 %, got {loss_frac:g}", "--loss")
    if name == "uplinks":
        if jitter_s or loss_frac:
            raise BadInput("jitter and loss are for star and flat", "--jitter" if jitter_s else "--loss")
        inner = _rate_Bps(inner_rate, "--inner-rate"), _delay_s(inner_delay, "--inner-delay")
        nodes = [group.node_ranks] * (group.ranks // group.node_ranks)
        return uplinks_topology([*nodes, *[1] * (hosts - group.ranks)], rate_Bps, delay_s, *inner)
    make = star_topology if name == "star" else flat_topology
    return make(hosts, rate_Bps, delay_s, jitter_s, loss_frac)


def _delay_s(given: Quantity, where: str) -> float:
    time_s = parse_time_s(given, where)
    if time_s > LONGEST_DELAY_S:
        raise BadInput(f"must be at most {LONGEST_DELAY_S:g} s, got {time_s:g} s", where)
    return time_s


def _rate_Bps(given: Quantity, where: str) -> float:
    rate_Bps = parse_bandwidth_Bps(given, where)
    if not SMALLEST_BPS <= rate_Bps <= LARGEST_BPS:
        raise BadInput(f"must be {SMALLEST_BPS:g} to {LARGEST_BPS:g} B/s, got {rate_Bps:g}", where)
    return rate_Bps


def _sizes_B(given: str | Quantity, group: "Group") -> list[int]:
    """Sizes of whole float32 numbers, at least one per rank."""
    texts = given.split(",") if isinstance(given, str) else [given]
    sizes_B = []
    for text in texts:
        size_B = parse_size_B(text, "--size")
        if size_B % 4 or not 4 * group.ranks <= size_B <= LARGEST_B:
            room = f"whole float32 numbers, {4 * group.ranks} B to {LARGEST_B / 1e6:g} MB"
            raise BadInput(f"{text!s}: must be {room}", "--size")
        sizes_B.append(int(size_B))
    return sorted(set(sizes_B))


def _names(op: str, given: str | None, group: "Group") -> tuple[str, ...]:
    """Algorithms, all known; a collective that does not exist is refused first."""
    from lockstep.run.rig import entrants, usual_entrants

    try:
        known = entrants(op)
    except BadInput as error:
        raise BadInput(error.message, "OP") from None
    if given is None:
        return usual_entrants(op, group)
    if given == "all":
        return known
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",")))
    for name in names:
        if name not in known:
            raise UnknownName(f"algorithm of {op} on the rig", name, known, "--algorithm")
    return names
