"""Words about failures, spares and corruption as objects of `reliability`, for every verb that has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.base.units import format_time, parse_frac, parse_time_s
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.describe.hardware import Cluster
    from lockstep.simulate.failures import Failures, GapLaw, Pool

LONGEST_S = 1e11
SHORTEST_MTBF_S = 1e-3
MOST_CAMPAIGNS = 100_000
USUAL_NODE = 8
"""Devices of a node where no cluster says."""


PARTS = ("device", "node", "switch", "rack", "power", "software")
"""What may fail: --device-mtbf and so on, composed to the rate of the job."""


@dataclass(frozen=True, slots=True)
class JobFailures:
    """How often a job fails, and what is known of the causes."""

    mtbf_s: float
    """Infinite when nobody knows."""
    law: GapLaw | None = None
    """Given for the gaps, None for exponential ones."""
    causes: Failures | None = None
    """Composed of parts, None when only their sum is known."""
    counted: tuple[str, ...] = ()
    """How many devices and nodes may fail, where the rate follows from them."""


def job_failures(
    machine: Cluster | None, words: Mapping[str, Any], nodes: Quantity | None = None, devices: Quantity | None = None
) -> JobFailures:
    """The failures of a job on `nodes` or `devices`, else on `machine`, in one way of saying it.

    Where nothing is said, what is known of `machine`.
    """
    from lockstep.simulate.failures import of_cluster, parse_gap_law

    given = {name: value for name, value in words.items() if value is not None}
    parts = {name: given[f"{name}_mtbf"] for name in PARTS if f"{name}_mtbf" in given}
    if ("mtbf" in given) + bool(parts) + ("law" in given) > 1:
        raise BadInput("give one of --mtbf, the MTBFs of parts (such as --node-mtbf), and --law", "--mtbf")
    if "law" in given:
        gaps = parse_gap_law(given["law"], "--law")
        return JobFailures(bounded_mtbf_s(gaps.mean_s, "--law"), gaps)
    if "mtbf" in given:
        return JobFailures(bounded_mtbf_s(parse_time_s(given["mtbf"], "--mtbf"), "--mtbf"))
    if parts:
        return _composed(device_count(machine, nodes, devices), parts)
    if machine is None or machine.mtbf_s is None:
        return JobFailures(math.inf)
    each = f"{machine.num_devices:,} devices, each failing every {format_time(machine.mtbf_s)}"
    return JobFailures(of_cluster(machine).mtbf_s, counted=(each,))


@dataclass(frozen=True, slots=True)
class Counted:
    """Devices of a job, `per_node` to a node, and how that is known."""

    devices: int
    per_node: int
    known: str


def device_count(machine: Cluster | None, nodes: Quantity | None, devices: Quantity | None) -> Counted | None:
    """How many devices a job has, None when it is not given. Raises BadInput."""
    number = node_count(machine, nodes)
    if devices is not None:
        given = whole(devices, "--devices")
        if machine is not None:
            raise BadInput(f"{machine.name} already gives the number; leave one of the two out", "--devices")
        if number is not None and given % number:
            raise BadInput(f"{given} devices cannot be shared by {number} nodes evenly", "--devices")
        per_node, known = (USUAL_NODE, " (assumed)") if number is None else (given // number, "")
        return Counted(given, per_node, f"{given:,} devices in nodes of {per_node}{known}")
    if number is None:
        return None
    if machine is not None:
        per_node = machine.devices_per_unit(0)
        known = f"as in {machine.name}"
    else:
        per_node, known = USUAL_NODE, "assumed; --devices changes it"
    together = number * per_node
    return Counted(together, per_node, f"{together:,} devices: {number:,} nodes of {per_node} ({known})")


def _composed(counted: Counted | None, parts: Mapping[str, Quantity]) -> JobFailures:
    """The rates of all parts of the job added up."""
    from lockstep.simulate.failures import composed

    first = next(iter(parts))
    if counted is None:
        other = "--devices or --nodes" if first == "device" else "--nodes"
        raise BadInput(f"{other} and --{first}-mtbf belong together", "--nodes")
    said = (counted.known,) if "device" in parts else ()
    times_s: Json = {f"{name}_mtbf_s": parse_time_s(value, f"--{name}-mtbf") for name, value in parts.items()}
    with located(f"--{first}-mtbf"):
        causes = composed(counted.devices, devices_per_node=counted.per_node, **times_s)
    return JobFailures(bounded_mtbf_s(causes.mtbf_s, f"--{first}-mtbf"), None, causes, said)


def read_corruption(failing: JobFailures, words: Mapping[str, Any]) -> tuple[Json, float]:
    """(fields of `Saving` about silent corruption, MTBF of both together)."""
    check_company(words)
    if words.get("silent_mtbf") is None:
        return {}, failing.mtbf_s
    silent_s = bounded_mtbf_s(parse_time_s(words["silent_mtbf"], "--silent-mtbf"), "--silent-mtbf")
    both_s = 1 / (1 / failing.mtbf_s + 1 / silent_s)
    delay_s = bounded_time_s(words["silent_delay"], "--silent-delay")
    return {"silent_frac": both_s / silent_s, "silent_delay_s": delay_s}, both_s


def check_company(words: Mapping[str, object]) -> None:
    """Refuses options about corruption and nodes without those that they need."""
    given = {name for name, value in words.items() if value is not None}
    for first, second in (("silent_mtbf", "silent_delay"), ("silent_delay", "silent_mtbf")):
        if first in given and second not in given:
            raise BadInput("--silent-mtbf and --silent-delay belong together", f"--{second.replace('_', '-')}")
    if {"law", "silent_mtbf"} <= given:
        raise BadInput(
            "can be combined with failures at a constant rate, not with a --law of all gaps", "--silent-mtbf"
        )
    for name in ("spares", "fewest_nodes", "grow", "replica_nodes", "replaced"):
        if name in given and "repair" not in given:
            raise BadInput("needs --repair, the time until a lost node is back", f"--{name.replace('_', '-')}")


def read_pool(nodes: int | None, failing: JobFailures, words: Mapping[str, Any]) -> Pool | None:
    """The pool of nodes, None when nothing is said about one."""
    from lockstep.simulate.failures import Pool

    check_company(words)
    given = {name: value for name, value in words.items() if value is not None}
    if "repair" not in given:
        return None
    if "fewest_nodes" in given and nodes is None:
        raise BadInput("needs --nodes or --cluster, for the number of nodes", "--fewest-nodes")
    return Pool(
        nodes=nodes or 1,
        spares=whole(given.get("spares", 0), "--spares", minimum=0),
        repair_s=bounded_time_s(given["repair"], "--repair"),
        fewest=whole(given["fewest_nodes"], "--fewest-nodes") if "fewest_nodes" in given else None,
        replica_nodes=whole(given.get("replica_nodes", 1), "--replica-nodes"),
        grows=given.get("grow", "failure"),
        lost=nodes_lost(nodes or 1, failing, given.get("replaced")),
    )


def nodes_lost(nodes: int, failing: JobFailures, replaced: Quantity | None) -> tuple[tuple[int, float], ...]:
    """(nodes lost, share of the failures): as the causes say, or one node in a share `replaced` of them."""
    from lockstep.simulate.failures import lost_nodes

    if replaced is None:
        return ((1, 1.0),) if failing.causes is None else lost_nodes(failing.causes, nodes)
    frac = share_frac(replaced, "--replaced")
    return ((0, 1 - frac), (1, frac))


def node_count(machine: Cluster | None, nodes: Quantity | None) -> int | None:
    """Nodes of the job: those given, or the machine's, None when neither is known. BadInput if both are given."""
    if nodes is not None and machine is not None:
        raise BadInput(f"{machine.name} already gives the number; leave one of the two out", "--nodes")
    if nodes is not None:
        return whole(nodes, "--nodes")
    return None if machine is None else machine.num_nodes


def share_frac(given: Quantity, where: str) -> float:
    """A share, from 0 to 1."""
    frac = parse_frac(given, where)
    if frac > 1:
        raise BadInput(f"must be from 0 to 1, got {frac:g}", where)
    return frac


def bounded_mtbf_s(time_s: float, where: str) -> float:
    """A time between failures that arithmetic can live with."""
    if not SHORTEST_MTBF_S <= time_s <= LONGEST_S:
        raise BadInput(f"a failure of the job every {time_s:g} s; must be from 1 ms to 3,000 years", where)
    return time_s


def simulated_runs(given: Quantity, most: int = MOST_CAMPAIGNS) -> int:
    """How many runs to simulate, at least the two that an interval needs."""
    number = whole(given, "--campaigns", minimum=2)
    if number > most:
        raise BadInput(f"must be at most {most:,}, got {number:,}", "--campaigns")
    return number


def bounded_time_s(given: Quantity, where: str) -> float:
    """Seconds, at most 3,000 years."""
    time_s = parse_time_s(given, where)
    if time_s > LONGEST_S:
        raise BadInput(f"must be at most 3,000 years, got {time_s:g} s", where)
    return time_s
