"""Words about how a run is operated, as on the command line, and the `Operation` that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_bandwidth_Bps, parse_count, parse_frac, parse_size_B, parse_time_s
from lockstep.show.verbs.words.failures import (
    JobFailures,
    bounded_mtbf_s,
    bounded_time_s,
    check_company,
    job_failures,
    nodes_lost,
    share_frac,
)
from lockstep.show.verbs.words.peer_copies import read_copies
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import positive, whole
from lockstep.show.verbs.words.saving import read_lighter, read_write_s

if TYPE_CHECKING:
    from lockstep.decide.campaigns import Operation
    from lockstep.describe.hardware import Cluster


def read_operation(cluster: Cluster, words: Mapping[str, Any], part: Cluster | None = None) -> Operation:
    """How a run on `part` of `cluster`, else on all of it, is operated; what is not given keeps the library's default.

    Times between failures of the job, and numbers of nodes, are those of all of `cluster`; times of parts add up to
    what the nodes in `part` do. Raises BadInput.
    """
    from lockstep.decide.campaigns import Operation

    given = {name: value for name, value in words.items() if value is not None}
    _check_company(given, cluster)
    machine = cluster if part is None else part
    failing = job_failures(machine, given)
    failed = cluster if failing.causes is None else machine
    fields: Json = {"device_mtbf_s": failing.mtbf_s * failed.num_devices, "law": failing.law}
    fields["lost"] = nodes_lost(machine.num_nodes, failing, given.get("replaced"))
    for name, field, read in _READ:
        if name in given:
            fields[field] = read(given[name], f"--{name.removesuffix('_frac').replace('_', '-')}")
    fields |= _lighter(machine, failing, given)
    if "silent_mtbf_s" in fields:
        fields["silent_mtbf_s"] *= cluster.num_devices
    if "fewest_nodes" in given:
        fields["fewest_frac"] = whole(given["fewest_nodes"], "--fewest-nodes") / cluster.num_nodes
    if cluster.storage_write_Bps is not None and "write" not in given:
        fields.setdefault("storage_Bps", cluster.storage_write_Bps)
    return Operation(**fields)


def _lighter(cluster: Cluster, failing: JobFailures, given: Mapping[str, Any]) -> Json:
    """Fields of Operation about what comes between whole checkpoints."""
    fields = read_lighter(given)
    if "copies" not in given:
        return fields
    peers = read_copies(cluster, cluster.num_nodes, failing, given["copies"], given.get("copy_bandwidth"))
    device_Bps = peers.node_Bps / cluster.devices_per_unit(0)
    return {"copies": peers.copies, "copy_Bps": device_Bps, "local_frac": peers.serve_frac} | fields


def _check_company(given: Mapping[str, Any], cluster: Cluster) -> None:
    """Words that need one another, or exclude one another."""
    check_company(given)
    for first, second in (("eval_every", "eval_tokens"), ("eval_tokens", "eval_every")):
        if first in given and second not in given:
            raise BadInput("--eval-every and --eval-tokens belong together", f"--{second.replace('_', '-')}")
    if "sample_size" in given and "data_bandwidth" not in given:
        raise BadInput("needs --data-bandwidth: the rate at which data is read", "--sample-size")
    if "write" in given and not given.keys().isdisjoint(("storage_bandwidth", "rank_bandwidth", "ranks")):
        raise BadInput("give --write or what a checkpoint is written at (--storage-bandwidth), not both", "--write")
    if "ranks" in given and "rank_bandwidth" not in given:
        raise BadInput("needs --rank-bandwidth, the write rate of one rank", "--ranks")
    if "ranks" in given and whole(given["ranks"], "--ranks") > cluster.num_devices:
        raise BadInput(f"{given['ranks']} ranks on the {cluster.num_devices:,} devices of {cluster.name}", "--ranks")
    if "replica_nodes" in given:
        raise BadInput("follows from the layout here; leave it out", "--replica-nodes")


def _rate_Bps(value: Quantity, where: str) -> float:
    return positive(parse_bandwidth_Bps(value, where), where)


_READ = (
    ("silent_mtbf", "silent_mtbf_s", lambda value, where: bounded_mtbf_s(parse_time_s(value, where), where)),
    ("silent_delay", "silent_delay_s", bounded_time_s),
    ("detection", "detection_s", bounded_time_s),
    ("restart", "restart_s", bounded_time_s),
    ("repair", "repair_s", bounded_time_s),
    ("spares", "spares", lambda value, where: whole(value, where, minimum=0)),
    ("grow", "grows", lambda value, where: value),
    ("write", "write_s", lambda value, where: read_write_s(value)),
    ("ranks", "ranks", whole),
    ("rank_bandwidth", "rank_Bps", _rate_Bps),
    ("storage_bandwidth", "storage_Bps", _rate_Bps),
    ("async_frac", "hidden_frac", share_frac),
    ("interval", "interval_s", bounded_time_s),
    ("straggler_cv", "straggler_cv", parse_frac),
    ("eval_every", "eval_every", whole),
    ("eval_tokens", "eval_tokens", lambda value, where: positive(parse_count(value, where), where)),
    ("data_bandwidth", "data_Bps", _rate_Bps),
    ("sample_size", "sample_B", parse_size_B),
)
"""(word, field of Operation, how it is read)."""
