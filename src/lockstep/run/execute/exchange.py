"""Sends, receives and additions alone: what a link between machines is calibrated on.

In a program's round a rank sends and receives at the same time, and gloo's messages are a rendezvous: the receiver's
notice travels to the sender before the data leaves. An exchange of two ranks costs what a round costs; a one-way
ping-pong, whose receives wait long before, would not.

Its times over sizes are fitted by a straight line, by weighted least squares on relative errors (`fit_line`).

    minimise  sum_i ((latency + size_i s_per_B - time_i) / time_i)^2
so that a microsecond at 8 B counts as much as a second at 1 GB; unweighted squares would see the largest sizes only.
Covariance: s^2 (X'X)^-1 with s^2 the mean squared relative residual over the degrees of freedom.

Source: ordinary weighted least squares, e.g. N. Draper, H. Smith, "Applied regression analysis" (1998), chapter 9.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.run.launch import Rank
from lockstep.simulate.collectives import PlainLink

if TYPE_CHECKING:
    from torch import Tensor


Sample = tuple[float, float]
"""(bytes of a message, seconds of an exchange)."""
USUAL_B = (64, 4096, 65536, 1 << 20)


@dataclass(frozen=True, slots=True)
class Line:
    """time = latency_s + size_B * s_per_B, with standard errors."""

    latency_s: float
    s_per_B: float
    latency_error_s: float
    s_per_B_error: float
    points: int

    def time_s(self, size_B: Array | float) -> Array | float:
        """Predicted time of a size."""
        return self.latency_s + size_B * self.s_per_B


def fit_line(sizes_B: Array, times_s: Array) -> Line:
    """The line through at least two different sizes; a latency below zero is set to zero and the slope fitted again.

    Raises BadInput for fewer sizes, or times that are not positive.
    """
    sizes_B, times_s = np.asarray(sizes_B, dtype=float), np.asarray(times_s, dtype=float)
    if len(np.unique(sizes_B)) < 2:
        raise BadInput(f"a line needs times at 2 sizes or more, got {len(np.unique(sizes_B))}")
    if not (np.isfinite(times_s).all() and (times_s > 0).all()):
        raise BadInput("times must be positive and finite")
    design = np.stack((1 / times_s, sizes_B / times_s), axis=1)
    solved, errors = _solve(design)
    if solved[0] < 0:
        (slope,), (error,) = _solve(design[:, 1:])
        return Line(0.0, slope, 0.0, error, len(sizes_B))
    return Line(solved[0], solved[1], errors[0], errors[1], len(sizes_B))


def _solve(design: Array) -> tuple[list[float], list[float]]:
    """Coefficients that bring every row of `design` nearest to one, and their standard errors."""
    scale = np.linalg.norm(design, axis=0)
    solution = np.linalg.lstsq(design / scale, np.ones(len(design)), rcond=None)[0]
    residual = design / scale @ solution - 1
    freedom = len(design) - design.shape[1]
    variance = float(residual @ residual) / freedom if freedom else 0.0
    covariance = np.linalg.pinv((design / scale).T @ (design / scale)) * variance
    return (solution / scale).tolist(), (np.sqrt(np.diag(covariance)) / scale).tolist()


def exchange_samples(rank: Rank, largest_B: int, repeats: int = 15, warm_up: int = 3) -> list[Sample]:
    """Shortest seconds of an exchange between ranks 0 and 1, per size up to `largest_B`; the same list on every rank.

    All ranks call it together; the others wait. With one rank there is nothing to measure.
    """
    import torch
    import torch.distributed as dist

    if rank.ranks < 2:
        return []
    found: list[Sample] = []
    for size_B in (*USUAL_B, *((largest_B,) if largest_B > USUAL_B[-1] else ())):
        dist.barrier()
        if rank.number > 1:
            continue
        ours = torch.zeros(size_B, dtype=torch.uint8, device=rank.device)
        theirs = torch.empty_like(ours)
        times_s = [_exchange_s(rank.number, ours, theirs) for _ in range(warm_up + repeats)]
        found.append((size_B, min(times_s[warm_up:])))
    shared = [found]
    dist.broadcast_object_list(shared, 0)
    return shared[0]


def _exchange_s(number: int, ours: Tensor, theirs: Tensor) -> float:
    """Seconds of one exchange with the other rank of the pair."""
    import torch.distributed as dist

    began = time.perf_counter()
    works = [dist.isend(ours, 1 - number), dist.irecv(theirs, 1 - number)]
    for work in works:
        if work is not None:
            work.wait()
    return time.perf_counter() - began


def link_through(samples: Sequence[Sample], gamma: float) -> PlainLink:
    """Latency and bandwidth of timed messages, by least squares on relative errors; `gamma`, seconds per byte added.

    Where noise hides the slope, the largest message is all bandwidth: slow rather than infinitely fast.
    """
    if not samples:
        return PlainLink(0.0, 1.0)
    sizes_B, times_s = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    line = fit_line(sizes_B, times_s)
    if line.s_per_B <= 0:
        return PlainLink(0.0, float(sizes_B[-1] / times_s[-1]), gamma)
    return PlainLink(line.latency_s, 1.0 / line.s_per_B, gamma)


def reduce_s_per_B(rank: Rank, elems: int = 1 << 20, repeats: int = 9) -> float:
    """Median seconds to add one byte of float32 to a buffer, on this rank."""
    import torch

    total, part = torch.zeros(elems, device=rank.device), torch.ones(elems, device=rank.device)
    times_s = []
    for _ in range(repeats):
        began = time.perf_counter()
        total.add_(part)
        if rank.backend == "nccl":
            torch.cuda.synchronize()
        times_s.append(time.perf_counter() - began)
    return statistics.median(times_s) / (4 * elems)
