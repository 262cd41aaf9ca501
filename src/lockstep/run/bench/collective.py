"""The worker of `bench` for collectives: times every implementation at every size, and checks each once.

A repetition begins together, behind a barrier, and takes from the last rank's start to the last rank's end, on one
clock. Results are told row by row, so a failure keeps what was finished.
torch's own collectives (`built_in`) and Lockstep's, run from their programs (`own`), are `Prepared` alike: buffers are
made once, and the call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.run.bench.definition import DIVIDED, OPS, pattern, wrong_elements
from lockstep.run.execute.clock import Reading, compare_clocks
from lockstep.run.execute.lanes import lanes_of, settled
from lockstep.run.execute.runner import Runner
from lockstep.run.launch import Rank, point
from lockstep.run.machine import Load, LoadMeter, Machine, Sites, gather_sites, this_machine
from lockstep.simulate.program import extents

if TYPE_CHECKING:
    from torch import Tensor


BUILT_IN = "built-in"
ELEMENT_B = 4
MOST_NEEDED = 5


@dataclass(frozen=True, slots=True)
class Prepared:
    """One implementation of one collective at one size, on one rank."""

    reset: Callable[[], object]
    """Puts the pattern back into the buffers."""
    run: Callable[[], object]
    result: Tensor
    """Where the rank's result is after `run`."""
    close: Callable[[], object] = lambda: None


def built_in(op: str, rank: Rank, elems: int) -> Prepared:
    """The collective of torch.distributed on `elems` float32 elements."""
    import torch
    import torch.distributed as dist

    data = pattern(rank.number, elems, rank.device)
    before, share = data.clone(), elems // rank.ranks
    mine = slice(rank.number * share, (rank.number + 1) * share)
    out = torch.zeros_like(data)

    # torch 2.13 renamed these two; the older names still serve torch 2.4.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter_sum = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def reset() -> None:
        data.copy_(before)
        out.zero_()

    def prepared(run: Callable[[], object], result: Tensor) -> Prepared:
        return Prepared(reset, run, result)

    match op:
        case "all-reduce":
            return prepared(lambda: dist.all_reduce(data), data)
        case "reduce":
            return prepared(lambda: dist.reduce(data, 0), data)
        case "broadcast":
            return prepared(lambda: dist.broadcast(data, 0), data)
        case "all-gather":
            return prepared(lambda: gather(out, data[mine]), out)
        case "reduce-scatter":
            return prepared(lambda: scatter_sum(out[:share], data), out)
        case "all-to-all":
            return prepared(lambda: dist.all_to_all_single(out, data), out)
        case "scatter":
            parts = list(data.split(share)) if rank.number == 0 else None
            return prepared(lambda: dist.scatter(out[:share], parts, 0), out)
        case "gather":
            places = list(out.split(share)) if rank.number == 0 else None
            return prepared(lambda: dist.gather(data[mine], places, 0), out)
        case "send-recv":
            return prepared(lambda: _around(rank, data, out), out)
    raise UnknownName("collective", op, OPS)


def _around(rank: Rank, data: Tensor, out: Tensor) -> None:
    """Every rank sends to the next and receives from the one before."""
    import torch.distributed as dist

    moves = [
        dist.P2POp(dist.isend, data, (rank.number + 1) % rank.ranks),
        dist.P2POp(dist.irecv, out, (rank.number - 1) % rank.ranks),
    ]
    for work in dist.batch_isend_irecv(moves):
        work.wait()


def own(op: str, algorithm: str, rank: Rank, elems: int) -> Prepared:
    """The program of an algorithm on `elems` float32 elements."""
    import torch

    program = settled(op, algorithm, rank.ranks, elems * ELEMENT_B, ELEMENT_B)
    scratch = {name: int(extent[rank.number]) for name, extent in extents(program).items() if name != "data"}
    buffers = {name: torch.zeros(size, device=rank.device) for name, size in scratch.items()}
    before = pattern(rank.number, elems, rank.device)
    buffers["data"] = before.clone()
    title = f"{op}_{algorithm}".replace("-", "_")
    runner = Runner(rank, lanes_of(program, rank.number), buffers, title, {})
    whole = buffers["output"] if op == "all-to-all" else buffers["data"]
    own_share = op in ("reduce-scatter", "scatter")
    result = whole[rank.number * (elems // rank.ranks) :] if own_share else whole
    return Prepared(lambda: buffers["data"].copy_(before), runner.run, result, runner.close)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to measure."""

    op: str
    algorithms: tuple[str, ...]
    """`built-in` and names of Lockstep's algorithms."""
    sizes_B: tuple[int, ...]
    repeats: int
    warm_up: int
    budget_s: float
    """Time for one row; with a slow collective its repetitions are fewer, but at least MOST_NEEDED."""


@dataclass(frozen=True, slots=True)
class Row:
    """One implementation at one size: the seconds of every repetition, all ranks together."""

    algorithm: str
    size_B: int
    times_s: tuple[float, ...]
    wrong: int
    clock_error_s: float = 0.0
    """How far off the clocks of two ranks may be, the largest of all."""


def elements(op: str, size_B: int, ranks: int) -> int:
    """float32 elements of a buffer of about `size_B`, in whole shares where the op cuts it."""
    unit = ranks if op in DIVIDED else 1
    return max(1, round(size_B / ELEMENT_B / unit)) * unit


def run_sweep(rank: Rank, sweep: Sweep) -> tuple[Machine, Load]:
    """Body of a rank; rank 0 tells every `Row`, and all ranks return what they ran on."""
    meter, sites = LoadMeter(), gather_sites(rank)
    for size_B in sweep.sizes_B:
        elems = elements(sweep.op, size_B, rank.ranks)
        for algorithm in sweep.algorithms:
            point(f"mid_{sweep.op}_{algorithm}:{elems * ELEMENT_B}".replace("-", "_"))
            ready = built_in(sweep.op, rank, elems) if algorithm == BUILT_IN else own(sweep.op, algorithm, rank, elems)
            row = _row(rank, sweep, algorithm, elems, ready, sites)
            ready.close()
            if rank.number == 0:
                rank.tell(row)
    return this_machine(loopback=sites.loopback), meter.read()


def _row(rank: Rank, sweep: Sweep, algorithm: str, elems: int, ready: Prepared, sites: Sites) -> Row:
    """Warms up, decides the repetitions, measures, and checks one more run."""
    reading = compare_clocks(rank, sites)
    estimate_s = max(_times_s(rank, ready, max(1, sweep.warm_up), reading))
    affordable = int(sweep.budget_s / max(estimate_s, 1e-9))
    repeats = min(sweep.repeats, max(MOST_NEEDED, affordable))
    times_s = _times_s(rank, ready, repeats, reading)
    ready.reset()
    ready.run()
    wrong = wrong_elements(sweep.op, ready.result, rank.number, rank.ranks, elems)
    both = _gathered(rank, [wrong, round(reading.error_ns)])
    clock_error_s = float(np.sort(both[:, 1])[-2:].sum()) / 1e9
    return Row(algorithm, elems * ELEMENT_B, tuple(times_s), int(both[:, 0].sum()), clock_error_s)


def _times_s(rank: Rank, ready: Prepared, repeats: int, reading: Reading) -> list[float]:
    """Seconds of each repetition, the same list on every rank."""
    import torch.distributed as dist

    stamps = []
    for _ in range(repeats):
        dist.barrier()
        start = rank.clock.now_ns() + reading.offset_ns
        ready.run()
        if rank.backend == "nccl":
            import torch

            torch.cuda.synchronize()
        stamps += [start, rank.clock.now_ns() + reading.offset_ns]
    by_rank = _gathered(rank, stamps).reshape(rank.ranks, repeats, 2)
    spans_ns = by_rank[:, :, 1].max(axis=0) - by_rank[:, :, 0].max(axis=0)
    return [float(span) / 1e9 for span in spans_ns]


def _gathered(rank: Rank, numbers: list[int]) -> Array:
    """The numbers of all ranks, shape (ranks, len(numbers))."""
    import torch
    import torch.distributed as dist

    ours = torch.tensor(numbers, dtype=torch.int64, device=rank.device)
    everyone = [torch.empty_like(ours) for _ in range(rank.ranks)]
    dist.all_gather(everyone, ours)
    return torch.stack(everyone).cpu().numpy()
