"""Words about how a run is operated, as on the command line, and the `Operation` that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from lockstep.api.failures import bounded_mtbf_s, bounded_time_s, job_mtbf_s
from lockstep.api.question import Quantity, whole
from lockstep.api.verbs import positive
from lockstep.errors import BadInput
from lockstep.units import parse_bandwidth_Bps, parse_count, parse_frac, parse_size_B, parse_time_s

if TYPE_CHECKING:
    from lockstep.campaign import Operation
    from lockstep.hardware import Cluster


class OperationWords(TypedDict, total=False):
    """Keywords about failures, checkpoints and what a step meets in service; see the flags of the same names."""

    mtbf: Quantity | None
    """Mean time between failures of the job."""
    node_mtbf: Quantity | None
    law: str | None
    """Of the gaps between failures, for the simulation."""
    silent_mtbf: Quantity | None
    """Mean time between silent corruptions of the job."""
    silent_delay: Quantity | None
    detection: Quantity | None
    restart: Quantity | None
    repair: Quantity | None
    """Mean time until a lost node is back."""
    spares: Quantity | None
    fewest_nodes: Quantity | None
    replaced: Quantity | None
    """Share of the failures that lose a node."""
    write: Quantity | None
    storage_bandwidth: Quantity | None
    async_frac: Quantity | None
    interval: Quantity | None
    straggler_cv: Quantity | None
    eval_every: Quantity | None
    eval_tokens: Quantity | None
    data_bandwidth: Quantity | None
    sample_size: Quantity | None
    """Bytes read per token, or per image."""


OPERATION_WORDS = tuple(sorted(OperationWords.__annotations__))
TOGETHER = (("eval_every", "eval_tokens"), ("silent_mtbf", "silent_delay"))
NEEDS_REPAIR = ("spares", "fewest_nodes", "replaced")


def read_operation(cluster: Cluster, words: Mapping[str, Any]) -> Operation:
    """How a run on `cluster` is operated; what is not given keeps the library's default."""
    from lockstep.campaign import Operation

    given = {name: value for name, value in words.items() if value is not None}
    _check_company(given)
    gaps, mtbf_s = job_mtbf_s(cluster, mtbf=given.get("mtbf"), node_mtbf=given.get("node_mtbf"), law=given.get("law"))
    fields: dict[str, Any] = {"device_mtbf_s": mtbf_s * cluster.num_devices, "law": gaps}
    for name, field, read in _READ:
        if name in given:
            fields[field] = read(given[name], f"--{name.removesuffix('_frac').replace('_', '-')}")
    if "silent_mtbf_s" in fields:
        fields["silent_mtbf_s"] *= cluster.num_devices
    if "fewest_nodes" in given:
        fields["fewest_frac"] = whole(given["fewest_nodes"], "--fewest-nodes") / cluster.num_nodes
    if cluster.storage_write_Bps is not None and "write" not in given:
        fields.setdefault("storage_Bps", cluster.storage_write_Bps)
    return Operation(**fields)


def _check_company(given: Mapping[str, Any]) -> None:
    """Words that need one another, or exclude one another."""
    for first, second in TOGETHER:
        if (first in given) != (second in given):
            flags = [f"--{name.replace('_', '-')}" for name in (first, second)]
            raise BadInput(f"{flags[0]} and {flags[1]} belong together", flags[first in given])
    for name in NEEDS_REPAIR:
        if name in given and "repair" not in given:
            raise BadInput("needs --repair: how long until a lost node is back", f"--{name.replace('_', '-')}")
    if "write" in given and "storage_bandwidth" in given:
        raise BadInput("give --write or --storage-bandwidth, not both", "--write")
    if "law" in given and "silent_mtbf" in given:
        raise BadInput("adds to failures at a constant rate, not to a --law of all gaps", "--silent-mtbf")


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
    ("replaced", "replaced_frac", _share),
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
