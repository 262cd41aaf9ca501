"""Words about how a run is operated, as on the command line, and the `Operation` that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockstep.api.failures import (
    FailureWords,
    JobFailures,
    bounded_mtbf_s,
    bounded_time_s,
    check_company,
    job_failures,
    nodes_lost,
)
from lockstep.api.peer_copies import read_copies
from lockstep.api.question import Quantity, whole
from lockstep.api.verbs import positive
from lockstep.errors import BadInput
from lockstep.units import parse_bandwidth_Bps, parse_count, parse_frac, parse_size_B, parse_time_s

if TYPE_CHECKING:
    from lockstep.campaign import Operation
    from lockstep.hardware import Cluster


class OperationWords(FailureWords, total=False):
    """Keywords about failures, checkpoints and what a step meets in service; see the flags of the same names."""

    detection: Quantity | None
    restart: Quantity | None
    write: Quantity | None
    storage_bandwidth: Quantity | None
    async_frac: Quantity | None
    interval: Quantity | None
    copies: Quantity | None
    """Copies of every node's shard of the state in the memory of nodes, its own included."""
    copy_bandwidth: Quantity | None
    """Of one node."""
    straggler_cv: Quantity | None
    eval_every: Quantity | None
    eval_tokens: Quantity | None
    data_bandwidth: Quantity | None
    sample_size: Quantity | None
    """Bytes read per token, or per image."""


OPERATION_WORDS = tuple(sorted(OperationWords.__annotations__))


def read_operation(cluster: Cluster, words: Mapping[str, Any]) -> Operation:
    """How a run on `cluster` is operated; what is not given keeps the library's default."""
    from lockstep.campaign import Operation

    given = {name: value for name, value in words.items() if value is not None}
    _check_company(given)
    failing = job_failures(cluster, given)
    fields: dict[str, Any] = {"device_mtbf_s": failing.mtbf_s * cluster.num_devices, "law": failing.law}
    fields["lost"] = nodes_lost(cluster.num_nodes, failing, given.get("replaced"))
    for name, field, read in _READ:
        if name in given:
            fields[field] = read(given[name], f"--{name.removesuffix('_frac').replace('_', '-')}")
    fields |= _copied(cluster, failing, given)
    if "silent_mtbf_s" in fields:
        fields["silent_mtbf_s"] *= cluster.num_devices
    if "fewest_nodes" in given:
        fields["fewest_frac"] = whole(given["fewest_nodes"], "--fewest-nodes") / cluster.num_nodes
    if cluster.storage_write_Bps is not None and "write" not in given:
        fields.setdefault("storage_Bps", cluster.storage_write_Bps)
    return Operation(**fields)


def _copied(cluster: Cluster, failing: JobFailures, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of Operation about copies in the memory of other nodes."""
    if "copies" not in given:
        if "copy_bandwidth" in given:
            raise BadInput("needs --copies: how many", "--copy-bandwidth")
        return {}
    peers = read_copies(cluster, cluster.num_nodes, failing, given["copies"], given.get("copy_bandwidth"))
    device_Bps = peers.node_Bps / cluster.devices_per_unit(0)
    return {"copies": peers.copies, "copy_Bps": device_Bps, "copies_serve_frac": peers.serve_frac}


def _check_company(given: Mapping[str, Any]) -> None:
    """Words that need one another, or exclude one another."""
    check_company(given)
    for first, second in (("eval_every", "eval_tokens"), ("eval_tokens", "eval_every")):
        if first in given and second not in given:
            raise BadInput("--eval-every and --eval-tokens belong together", f"--{second.replace('_', '-')}")
    if "write" in given and "storage_bandwidth" in given:
        raise BadInput("give --write or --storage-bandwidth, not both", "--write")
    if "replica_nodes" in given:
        raise BadInput("follows from the layout here; leave it out", "--replica-nodes")


def _share(value: Quantity, where: str) -> float:
    frac = parse_frac(value, where)
    if frac > 1:
        raise BadInput(f"must be from 0 to 1, got {frac:g}", where)
    return frac


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
    ("write", "write_s", bounded_time_s),
    ("storage_bandwidth", "storage_Bps", _rate_Bps),
    ("async_frac", "hidden_frac", _share),
    ("interval", "interval_s", bounded_time_s),
    ("straggler_cv", "straggler_cv", parse_frac),
    ("eval_every", "eval_every", whole),
    ("eval_tokens", "eval_tokens", lambda value, where: positive(parse_count(value, where), where)),
    ("data_bandwidth", "data_Bps", _rate_Bps),
    ("sample_size", "sample_B", parse_size_B),
)
"""(word, field of Operation, how it is read)."""
