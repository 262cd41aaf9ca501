"""The verb about saving: `checkpoint`."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput, Infeasible, LockstepError, located
from lockstep.base.types.plain import Json
from lockstep.base.units import format_size, parse_bandwidth_Bps, parse_size_B
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.failures import (
    Counted,
    bounded_time_s,
    device_count,
    job_failures,
    node_count,
    read_corruption,
    read_pool,
    share_frac,
    simulated_runs,
)
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.option import Option, Switch
from lockstep.show.verbs.words.peer_copies import read_copies
from lockstep.show.verbs.words.quantity import Bandwidth, Quantity, Size, Time
from lockstep.show.verbs.words.question import read_cluster, whole
from lockstep.show.verbs.words.saving import read_lighter, read_write_s
from lockstep.show.verbs.words.shared import MODEL, PANELS, SEED, FailureWords, LighterWords

if TYPE_CHECKING:
    from lockstep.simulate.failures import Checkpoint


USUAL_CAMPAIGNS = 1000


_FAILURES = PANELS[FailureWords]
_SHARDS = "Sharded checkpoint, sized by --size or by a MODEL, instead of --write"
_RUN = "The run"


class CheckpointWords(FailureWords, LighterWords, total=False):
    """Keywords about failures and about lighter checkpoints between full ones."""


DEVICES = Option("N", "Devices of the job.", panel=_FAILURES, default="8 for each of --nodes")
CLUSTER = Option(
    "C", "Cluster: catalog name with nodes, e.g. dgx-h100:64.", flag="-c", panel=_FAILURES, names="clusters"
)
WRITE = Option("T", "Time to write one checkpoint; run:last takes the time measured in a kept run of train.")
OPTIMIZER = Option("O", "Optimizer with which MODEL is trained.", panel=_SHARDS, names="optimizers", default="adamw")
RANKS = Option("N", "Ranks that write simultaneously.", panel=_SHARDS, default="the cluster's, or 1")
STORAGE_BANDWIDTH = Option("R", "Bandwidth of the storage, shared by all ranks.", panel=_SHARDS)
RESTART = Option("T", "Restart time, from a noticed failure until work resumes.", default="0")
ASYNC_FRAC = Option("FRAC", "Share of a checkpoint write hidden behind work.", flag="--async", default="0")
WORK = Option("T", "Useful work of the run.", panel=_RUN, default="60 d, or 200 intervals if longer")


@verb
def checkpoint(
    model: Annotated[str | Path | Model | None, MODEL] = None,
    *,
    nodes: Annotated[Quantity | None, Option("N", "Nodes of the job, for the MTBFs of parts.", panel=_FAILURES)] = None,
    devices: Annotated[Quantity | None, DEVICES] = None,
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    write: Annotated[Time | None, WRITE] = None,
    size: Annotated[Size | None, Option("S", "Bytes of the whole checkpoint.", panel=_SHARDS)] = None,
    optimizer: Annotated[str | None, OPTIMIZER] = None,
    ranks: Annotated[Quantity | None, RANKS] = None,
    rank_bandwidth: Annotated[Bandwidth | None, Option("R", "Write bandwidth per rank.", panel=_SHARDS)] = None,
    storage_bandwidth: Annotated[Bandwidth | None, STORAGE_BANDWIDTH] = None,
    restart: Annotated[Time, RESTART] = 0.0,
    detection: Annotated[Time, Option("T", "Time until a failure is noticed.", default="0")] = 0.0,
    async_frac: Annotated[Quantity, ASYNC_FRAC] = 0.0,
    interval: Annotated[Time | None, Option("T", "Work between checkpoints.", default="the best")] = None,
    work: Annotated[Time | None, WORK] = None,
    simulate: Annotated[bool, Switch("Also simulate the run (Monte Carlo), with a 95 % interval.", panel=_RUN)] = False,
    campaigns: Annotated[Quantity | None, Option("N", "Number of simulated runs.", panel=_RUN, default="1000")] = None,
    seed: Annotated[Quantity, SEED] = 0,
    **words: Unpack[CheckpointWords],
) -> "Checkpoint":
    """How often to save, and what failures and checkpoints cost.

    Failures: `mtbf` of the job, or those of its parts (`nodes` of `node_mtbf`, `devices`, by default 8 to a node,
    switches and so on) added up, or a `law` of gaps, or a `cluster` whose MTBF is known; `silent_mtbf` adds
    corruption that is noticed after `silent_delay`. A checkpoint: `write` seconds, or `run:NAME` for what one took
    in a kept run of training, or `size` bytes, or what training `model` with `optimizer` has to save, from `ranks`
    at `rank_bandwidth` into `storage_bandwidth`. Local ones (`local_write`, which serve `local_frac` of the
    failures), `copies` in the memory of other nodes, sent at `copy_bandwidth` per node, or deltas (`delta_write`)
    come between: one full one in `every`. `repair` says how long a lost node is away, `spares` how many stand by,
    `fewest_nodes` how far the job shrinks instead of waiting, `grow` when it takes nodes back.
    """
    from lockstep.simulate.failures import Saving
    from lockstep.simulate.failures import checkpoint as find

    if campaigns is not None and not simulate:
        raise BadInput("has no effect without --simulate", "--campaigns")
    runs = USUAL_CAMPAIGNS if campaigns is None else campaigns
    machine = None if cluster is None else read_cluster(cluster)
    failing = job_failures(machine, words, nodes, devices)
    if math.isinf(failing.mtbf_s):
        raise _unknown_failures(machine, nodes)
    counted = device_count(machine, nodes, devices)
    write_s, how = _write_s(
        model, machine, counted, write, size, optimizer, ranks, rank_bandwidth, storage_bandwidth
    )  # fmt: skip
    if devices is not None and not how and failing.causes is None:
        raise BadInput("has no effect on --mtbf and --law, which describe the whole job", "--devices")
    lighter = read_lighter(words)
    pooled = words.get("repair") is not None or words.get("copies") is not None
    if nodes is not None and failing.causes is None and not how and not pooled:
        raise BadInput("has no effect on --mtbf and --law, which describe the whole job", "--nodes")
    peers = None
    if (copies := words.get("copies")) is not None:
        peers = read_copies(machine, node_count(machine, nodes), failing, copies, words.get("copy_bandwidth"))
        if write is not None:
            raise BadInput("needs --size or a MODEL, to know what to copy", "--copies")
        lighter = {"local_frac": peers.serve_frac} | lighter
        lighter["local_write_s"] = peers.write_s(_size_B(model, size, optimizer))
    restart_s = bounded_time_s(restart, "--restart")
    with flags("--write"):
        corruption, mtbf_s = read_corruption(failing, words)
        fields: Json = {"local_restart_s": restart_s} | lighter | corruption
        saving = Saving(
            write_s=write_s, restart_s=restart_s, detection_s=bounded_time_s(detection, "--detection"),
            hidden_frac=share_frac(async_frac, "--async"), **fields,
        )  # fmt: skip
        found = find(
            saving.pattern(mtbf_s), mtbf_s,
            interval_s=None if interval is None else bounded_time_s(interval, "--interval"),
            work_s=None if work is None else bounded_time_s(work, "--work"), simulate=simulate, law=failing.law,
            pool=read_pool(node_count(machine, nodes), failing, words), causes=failing.causes,
            campaigns=simulated_runs(runs), seed=whole(seed, "--seed", minimum=0),
        )  # fmt: skip
    said = (*failing.counted, *how, *found.assumptions)
    return replace(found, assumptions=said if peers is None else (*said, str(peers)))


def _unknown_failures(machine: Cluster | None, nodes: Quantity | None) -> LockstepError:
    """What to say when nothing tells how often the job fails."""
    if machine is not None:
        return Infeasible(f"how often {machine.name} fails is not known; give the time between failures (--mtbf)")
    if nodes is not None:
        return BadInput("--nodes and --node-mtbf belong together", "--node-mtbf")
    return BadInput("give one of --mtbf, --nodes with --node-mtbf, --cluster, or --law", "--mtbf")


def _write_s(
    model: str | Path | Model | None, machine: Cluster | None, counted: Counted | None, write: Time | None,
    size: Size | None, optimizer: str | None, ranks: Quantity | None, rank_bandwidth: Bandwidth | None,
    storage_bandwidth: Bandwidth | None,
) -> tuple[float, tuple[str, ...]]:  # fmt: skip
    """Seconds one whole checkpoint takes to write, and what was assumed for it."""
    from lockstep.decide.campaigns import assumed_storage
    from lockstep.simulate.failures import write_time_s

    if optimizer is not None and model is None:
        raise BadInput("needs a MODEL", "--optimizer")
    if ranks is not None and rank_bandwidth is None:
        raise BadInput("needs --rank-bandwidth, the write rate of one rank", "--ranks")

    if (write is not None) + (size is not None) + (model is not None) != 1:
        raise BadInput("give --write, or --size or a MODEL with --storage-bandwidth or --rank-bandwidth", "--write")
    if write is not None:
        if rank_bandwidth is not None or storage_bandwidth is not None:
            raise BadInput("a bandwidth needs --size or a MODEL, not --write", "--write")
        return read_write_s(write), ()
    known_Bps = math.inf if machine is None or machine.storage_write_Bps is None else machine.storage_write_Bps
    size_B = _size_B(model, size, optimizer)
    how: tuple[str, ...] = ()
    if rank_bandwidth is None and storage_bandwidth is None and math.isinf(known_Bps):
        if counted is None:
            why = (
                "give the rate of a write: this, --rank-bandwidth or both, or specify who writes (--cluster, --devices)"
            )
            raise BadInput(why, "--storage-bandwidth")
        known_Bps, rate = assumed_storage(counted.devices)
        how = (f"a checkpoint holds {format_size(size_B)}; {rate}",)
    rates_Bps = [
        otherwise if given is None else parse_bandwidth_Bps(given, where)
        for given, where, otherwise in (
            (rank_bandwidth, "--rank-bandwidth", math.inf), (storage_bandwidth, "--storage-bandwidth", known_Bps),
        )
    ]  # fmt: skip
    if min(rates_Bps) == 0:
        raise BadInput(
            "a bandwidth must be above 0", "--storage-bandwidth" if rates_Bps[1] == 0 else "--rank-bandwidth"
        )
    number = (1 if machine is None else machine.num_devices) if ranks is None else whole(ranks, "--ranks")
    time_s = float(write_time_s(size_B, number, rank_Bps=rates_Bps[0], storage_Bps=rates_Bps[1]))
    return bounded_time_s(time_s, "--size"), how


def _size_B(model: str | Path | Model | None, size: Size | None, optimizer: str | None) -> float:
    """Bytes of a checkpoint: those given, or of `model`, trained with `optimizer`."""
    from lockstep.describe.workload import model as find_model
    from lockstep.price.layout import Job, Recipe, checkpoint_B

    if model is None:
        return parse_size_B("" if size is None else size, "--size")
    with located("MODEL"):
        found = find_model(model) if isinstance(model, str | Path) else model
    return checkpoint_B(Job(found, Recipe(seq=1, batch=1, optimizer=optimizer or "adamw"), 1))
