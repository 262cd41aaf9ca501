"""The verb about saving: `checkpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.api.network import flags
from lockstep.api.question import Quantity, whole
from lockstep.errors import BadInput
from lockstep.units import parse_bandwidth_Bps, parse_frac, parse_size_B, parse_time_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.reliability import Checkpoint, GapLaw, Pattern

LONGEST_S = 1e11
SHORTEST_MTBF_S = 1e-3
MOST_CAMPAIGNS = 100_000


def checkpoint(
    *,
    mtbf: Quantity | None = None,
    nodes: Quantity | None = None,
    node_mtbf: Quantity | None = None,
    cluster: str | None = None,
    law: str | None = None,
    write: Quantity | None = None,
    size: Quantity | None = None,
    ranks: Quantity = 1,
    rank_bandwidth: Quantity | None = None,
    storage_bandwidth: Quantity | None = None,
    restart: Quantity = 0.0,
    detection: Quantity = 0.0,
    async_frac: Quantity = 0.0,
    local_write: Quantity | None = None,
    local_restart: Quantity = 0.0,
    local_frac: Quantity | None = None,
    delta_write: Quantity | None = None,
    every: Quantity | None = None,
    interval: Quantity | None = None,
    work: Quantity | None = None,
    simulate: bool = False,
    campaigns: Quantity = 1000,
    seed: Quantity = 0,
) -> Checkpoint:
    """How often to save, and what failures and checkpoints cost.

    Failures: `mtbf` of the job, or `nodes` of `node_mtbf`, or a `cluster` whose MTBF is known, or a `law` of gaps.
    A checkpoint: `write` seconds, or `size` bytes from `ranks` at `rank_bandwidth` into `storage_bandwidth`. Local
    ones (`local_write`, which serve `local_frac` of the failures) or deltas (`delta_write`) come between: one full one
    in `every`.
    """
    from lockstep.reliability import best_cycle
    from lockstep.reliability import checkpoint as find

    gaps, mtbf_s = _failures(mtbf, nodes, node_mtbf, cluster, law)
    write_s = _write_s(write, size, ranks, rank_bandwidth, storage_bandwidth)
    with flags("--write"):
        make = _pattern(
            write_s, restart=restart, detection=detection, async_frac=async_frac, local_write=local_write,
            local_restart=local_restart, local_frac=local_frac, delta_write=delta_write,
        )  # fmt: skip
        if every is not None:
            pattern = make(whole(every, "--every"))
        elif local_write is None and delta_write is None:
            pattern = make(1)
        else:
            pattern = best_cycle(make, mtbf_s).pattern
        return find(
            pattern, mtbf_s, interval_s=None if interval is None else bounded_time_s(interval, "--interval"),
            work_s=None if work is None else bounded_time_s(work, "--work"), simulate=simulate, law=gaps,
            campaigns=simulated_runs(campaigns), seed=whole(seed, "--seed", minimum=0),
        )  # fmt: skip


def _failures(
    mtbf: Quantity | None, nodes: Quantity | None, node_mtbf: Quantity | None, cluster: str | None, law: str | None
) -> tuple[GapLaw | None, float]:
    """(law given, mean time between failures of the job); exactly one way to say it."""
    from lockstep.reliability import of_cluster, parse_gap_law

    ways = [mtbf is not None, nodes is not None or node_mtbf is not None, cluster is not None, law is not None]
    if sum(ways) != 1:
        raise BadInput("give one of --mtbf, --nodes with --node-mtbf, --cluster, or --law", "--mtbf")
    gaps = None
    if law is not None:
        gaps = parse_gap_law(law, "--law")
        where, mtbf_s = "--law", gaps.mean_s
    elif cluster is not None:
        from lockstep.hardware import cluster as read_cluster

        with flags("--cluster"):
            where, mtbf_s = "--cluster", of_cluster(read_cluster(cluster)).mtbf_s
    elif mtbf is not None:
        where, mtbf_s = "--mtbf", parse_time_s(mtbf, "--mtbf")
    else:
        if nodes is None or node_mtbf is None:
            raise BadInput("--nodes and --node-mtbf belong together", "--nodes" if nodes is None else "--node-mtbf")
        where, mtbf_s = "--node-mtbf", parse_time_s(node_mtbf, "--node-mtbf") / whole(nodes, "--nodes")
    if not SHORTEST_MTBF_S <= mtbf_s <= LONGEST_S:
        raise BadInput(f"a failure of the job every {mtbf_s:g} s; must be from 1 ms to 3,000 years", where)
    return gaps, mtbf_s


def _write_s(
    write: Quantity | None, size: Quantity | None, ranks: Quantity, rank_bandwidth: Quantity | None,
    storage_bandwidth: Quantity | None,
) -> float:  # fmt: skip
    """Seconds one whole checkpoint takes to write."""
    from lockstep.reliability import write_time_s

    if (write is None) == (size is None):
        raise BadInput("give --write, or --size with --storage-bandwidth or --rank-bandwidth", "--write")
    if write is not None:
        if rank_bandwidth is not None or storage_bandwidth is not None:
            raise BadInput("a bandwidth needs --size, not --write", "--write")
        return bounded_time_s(write, "--write")
    if rank_bandwidth is None and storage_bandwidth is None:
        raise BadInput("needs --storage-bandwidth, --rank-bandwidth or both", "--size")
    rates_Bps = [
        float("inf") if given is None else parse_bandwidth_Bps(given, where)
        for given, where in ((rank_bandwidth, "--rank-bandwidth"), (storage_bandwidth, "--storage-bandwidth"))
    ]
    if min(rates_Bps) == 0:
        raise BadInput(
            "a bandwidth must be above 0", "--storage-bandwidth" if rates_Bps[1] == 0 else "--rank-bandwidth"
        )
    size_B = parse_size_B(size, "--size")
    time_s = float(write_time_s(size_B, whole(ranks, "--ranks"), rank_Bps=rates_Bps[0], storage_Bps=rates_Bps[1]))
    return bounded_time_s(time_s, "--size")


def _pattern(
    write_s: float, *, restart: Quantity, detection: Quantity, async_frac: Quantity, local_write: Quantity | None,
    local_restart: Quantity, local_frac: Quantity | None, delta_write: Quantity | None,
) -> Callable[[int], Pattern]:  # fmt: skip
    """The pattern for any number of checkpoints in a cycle."""
    from lockstep.reliability import incremental, single, two_level

    restart_s, detection_s = bounded_time_s(restart, "--restart"), bounded_time_s(detection, "--detection")
    hidden_frac = parse_frac(async_frac, "--async")
    if hidden_frac > 1:
        raise BadInput(f"must be from 0 to 1, got {hidden_frac:g}", "--async")
    if local_write is not None and delta_write is not None:
        raise BadInput("local checkpoints and deltas cannot be combined; give one", "--delta-write")
    if (local_write is None) != (local_frac is None):
        raise BadInput("--local-write and --local-frac belong together", "--local-write")
    if local_write is not None and local_frac is not None:
        local_s = bounded_time_s(local_write, "--local-write")
        local_restart_s = bounded_time_s(local_restart, "--local-restart")
        frac = parse_frac(local_frac, "--local-frac")
        return lambda every: two_level(
            local_s, write_s, every, frac, local_restart_s=local_restart_s, remote_restart_s=restart_s,
            detection_s=detection_s, hidden_frac=hidden_frac,
        )  # fmt: skip
    if delta_write is not None:
        delta_s = bounded_time_s(delta_write, "--delta-write")
        return lambda every: incremental(
            write_s, delta_s, every, restart_s=restart_s, detection_s=detection_s, hidden_frac=hidden_frac
        )
    return lambda every: _alone(every, single(write_s, restart_s, detection_s, hidden_frac))


def _alone(every: int, pattern: Pattern) -> Pattern:
    if every > 1:
        raise BadInput("needs --local-write or --delta-write for what comes between", "--every")
    return pattern


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
