"""The worker of `bench` for collectives: times every implementation at every size, and checks each once.

A repetition begins together, behind a barrier, and takes from the last rank's start to the last rank's end, on one
clock. Results are told row by row, so a failure keeps what was finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.measure.bench.built_in import Prepared, built_in
from lockstep.measure.bench.definition import DIVIDED, wrong_elements
from lockstep.measure.bench.own import own
from lockstep.measure.execute.clock import Reading, compare_clocks
from lockstep.measure.launch import Rank, point
from lockstep.measure.machine import Load, LoadMeter, Machine, this_machine
from lockstep.measure.sites import Sites, gather_sites

Array = npt.NDArray[Any]
BUILT_IN = "built-in"


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


MOST_NEEDED = 5
ELEMENT_B = 4


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
