"""Words about failures, spares and corruption as objects of `reliability`, for every verb that has them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.api.question import Quantity, whole
from lockstep.errors import BadInput
from lockstep.units import parse_frac, parse_time_s

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.reliability import GapLaw, Pattern, Pool

LONGEST_S = 1e11
SHORTEST_MTBF_S = 1e-3
MOST_CAMPAIGNS = 100_000


def job_mtbf_s(
    machine: Cluster | None, *, mtbf: Quantity | None, node_mtbf: Quantity | None, law: str | None,
    nodes: Quantity | None = None,
) -> tuple[GapLaw | None, float]:  # fmt: skip
    """(law given, mean time between failures of the job): one way to say it, else what is known of `machine`.

    A node_mtbf is that of `nodes`, else of the machine's. Infinite when nobody knows.
    """
    from lockstep.reliability import of_cluster, parse_gap_law

    if (mtbf is not None) + (node_mtbf is not None) + (law is not None) > 1:
        raise BadInput("give one of --mtbf, --node-mtbf and --law", "--mtbf")
    if law is not None:
        gaps = parse_gap_law(law, "--law")
        return gaps, bounded_mtbf_s(gaps.mean_s, "--law")
    if mtbf is not None:
        return None, bounded_mtbf_s(parse_time_s(mtbf, "--mtbf"), "--mtbf")
    if node_mtbf is not None:
        number = node_count(machine, nodes)
        if number is None:
            raise BadInput("--nodes and --node-mtbf belong together", "--nodes")
        return None, bounded_mtbf_s(parse_time_s(node_mtbf, "--node-mtbf") / number, "--node-mtbf")
    return None, math.inf if machine is None or machine.mtbf_s is None else of_cluster(machine).mtbf_s


def with_corruption(
    pattern: Pattern, mtbf_s: float, silent_mtbf: Quantity | None, silent_delay: Quantity | None, law: GapLaw | None
) -> tuple[Pattern, float]:
    """(pattern, MTBF of both together) where silent corruption strikes the job every `silent_mtbf` as well."""
    if silent_mtbf is None and silent_delay is None:
        return pattern, mtbf_s
    if silent_mtbf is None or silent_delay is None:
        missing = "--silent-mtbf" if silent_mtbf is None else "--silent-delay"
        raise BadInput("--silent-mtbf and --silent-delay belong together", missing)
    if law is not None:
        raise BadInput("adds to failures at a constant rate, not to a --law of all gaps", "--silent-mtbf")
    silent_s = bounded_mtbf_s(parse_time_s(silent_mtbf, "--silent-mtbf"), "--silent-mtbf")
    both_s = 1 / (1 / mtbf_s + 1 / silent_s)
    delay_s = bounded_time_s(silent_delay, "--silent-delay")
    return replace(pattern, silent_frac=both_s / silent_s, silent_delay_s=delay_s), both_s


def read_pool(
    nodes: int | None, *, spares: Quantity | None, repair: Quantity | None, fewest_nodes: Quantity | None,
    replica_nodes: Quantity | None, replaced: Quantity | None,
) -> Pool | None:  # fmt: skip
    """The pool of nodes, None when nothing is said about one."""
    from lockstep.reliability import Pool

    if repair is None:
        for flag, given in (("--spares", spares), ("--fewest-nodes", fewest_nodes),
                            ("--replica-nodes", replica_nodes), ("--replaced", replaced)):  # fmt: skip
            if given is not None:
                raise BadInput("needs --repair: how long until a lost node is back", flag)
        return None
    if fewest_nodes is not None and nodes is None:
        raise BadInput("needs --nodes or --cluster, to know how many there are", "--fewest-nodes")
    frac = 1.0 if replaced is None else parse_frac(replaced, "--replaced")
    if frac > 1:
        raise BadInput(f"must be from 0 to 1, got {frac:g}", "--replaced")
    return Pool(
        nodes=nodes or 1,
        spares=0 if spares is None else whole(spares, "--spares", minimum=0),
        repair_s=bounded_time_s(repair, "--repair"),
        fewest=None if fewest_nodes is None else whole(fewest_nodes, "--fewest-nodes"),
        replica_nodes=1 if replica_nodes is None else whole(replica_nodes, "--replica-nodes"),
        lost=((1, 1.0),) if frac == 1 else ((0, 1 - frac), (1, frac)),
    )


def node_count(machine: Cluster | None, nodes: Quantity | None) -> int | None:
    """Nodes of the job: those given, else the machine's, None when nobody says."""
    if nodes is not None:
        return whole(nodes, "--nodes")
    return None if machine is None else machine.num_nodes


def bounded_mtbf_s(time_s: float, where: str) -> float:
    """A time between failures that arithmetic can live with."""
    if not SHORTEST_MTBF_S <= time_s <= LONGEST_S:
        raise BadInput(f"a failure of the job every {time_s:g} s; must be from 1 ms to 3,000 years", where)
    return time_s


def simulated_runs(given: Quantity) -> int:
    """How many runs to simulate, at least the two that an interval needs."""
    number = whole(given, "--campaigns", minimum=2)
    if number > MOST_CAMPAIGNS:
        raise BadInput(f"must be at most {MOST_CAMPAIGNS:,}, got {number:,}", "--campaigns")
    return number


def bounded_time_s(given: Quantity, where: str) -> float:
    """Seconds, at most 3,000 years."""
    time_s = parse_time_s(given, where)
    if time_s > LONGEST_S:
        raise BadInput(f"must be at most 3,000 years, got {time_s:g} s", where)
    return time_s
