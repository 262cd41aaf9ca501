"""The worker of `bench` for collectives: times every implementation at every size, and checks each once.

A repetition begins together, behind a barrier, and takes from the last rank's start to the last rank's end, on one
clock. Results are told row by row, so a failure keeps what was finished.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from lockstep.measure.bench.built_in import Prepared, built_in
from lockstep.measure.bench.definition import DIVIDED, wrong_elements
from lockstep.measure.bench.own import own
from lockstep.measure.execute.clock import offset_ns
from lockstep.measure.launch import Host, Rank, point
from lockstep.measure.machine import Load, LoadMeter, Machine, this_machine

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


def elements(op: str, size_B: int, ranks: int) -> int:
    """float32 elements of a buffer of about `size_B`, in whole shares where the op cuts it."""
    unit = ranks if op in DIVIDED else 1
    return max(1, round(size_B / ELEMENT_B / unit)) * unit


def run_sweep(rank: Rank, sweep: Sweep) -> tuple[Machine, Load]:
    """Body of a rank; rank 0 tells every `Row`, and all ranks return what they ran on."""
    meter, shift = LoadMeter(), offset_ns(rank)
    for size_B in sweep.sizes_B:
        elems = elements(sweep.op, size_B, rank.ranks)
        for algorithm in sweep.algorithms:
            point(f"mid_{sweep.op}_{algorithm}:{elems * ELEMENT_B}".replace("-", "_"))
            ready = built_in(sweep.op, rank, elems) if algorithm == BUILT_IN else own(sweep.op, algorithm, rank, elems)
            row = _row(rank, sweep, algorithm, elems, ready, shift)
            ready.close()
            if rank.number == 0:
                rank.tell(row)
    return this_machine(loopback=rank.host == Host()), meter.read()


def _row(rank: Rank, sweep: Sweep, algorithm: str, elems: int, ready: Prepared, shift_ns: int) -> Row:
    """Warms up, decides the repetitions, measures, and checks one more run."""
    estimate_s = max(_times_s(rank, ready, max(1, sweep.warm_up), shift_ns))
    affordable = int(sweep.budget_s / max(estimate_s, 1e-9))
    repeats = min(sweep.repeats, max(MOST_NEEDED, affordable))
    times_s = _times_s(rank, ready, repeats, shift_ns)
    ready.reset()
    ready.run()
    wrong = wrong_elements(sweep.op, ready.result, rank.number, rank.ranks, elems)
    return Row(algorithm, elems * ELEMENT_B, tuple(times_s), int(_gathered(rank, [wrong]).sum()))


def _times_s(rank: Rank, ready: Prepared, repeats: int, shift_ns: int) -> list[float]:
    """Seconds of each repetition, the same list on every rank."""
    import torch.distributed as dist

    stamps = []
    for _ in range(repeats):
        dist.barrier()
        start = time.monotonic_ns()
        ready.run()
        if rank.backend == "nccl":
            import torch

            torch.cuda.synchronize()
        stamps += [start + shift_ns, time.monotonic_ns() + shift_ns]
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
