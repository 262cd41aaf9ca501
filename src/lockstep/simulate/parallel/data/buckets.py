"""Bucketed data parallelism (DDP): gradients are all-reduced in buckets while the backward pass goes on.

    ready_j = ready_{j-1} + w_j + (1 - e) min(d, w_j / e),   d = max(0, done_{j-1} - ready_{j-1})
    done_j  = max(ready_j, done_{j-1}) + t_j
w_j seconds of backward work of bucket j, t_j seconds of its all-reduce, e overlap efficiency (`parallel.lanes`). All
collectives run one after another on one stream. With e = 1, ready_j is the plain sum of the work.

The step takes at least backward + t_last: the last bucket becomes ready when nothing is left to hide behind, so
max(backward, communication) is a bound and never reached unless the last bucket is free. Small buckets pay latency,
large ones start late: a U-shaped curve with an exact optimum (`optimum`).

Source: S. Li et al., VLDB 13(12), 2020, section 3.2.3 (bucketing and overlap).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Number
from lockstep.base.types.plain import Json, picked, plain
from lockstep.simulate.parallel.data.layers import Layers
from lockstep.simulate.parallel.group import Traffic
from lockstep.simulate.parallel.lanes import COMM, COMPUTE, Op, check_efficiency, program_of, run
from lockstep.simulate.parallel.overlapped import Overlapped
from lockstep.simulate.program import Program, ProgramBuilder, Timeline


def price(
    layers: Layers, traffic: Traffic, counts: Sequence[int], *, efficiency: float = 1.0, overlap: bool = True
) -> Overlapped:
    """One step with buckets of `counts` layers; without `overlap` all buckets wait for the whole backward pass.

    The link's latency and rate may be arrays; the answer then has their shape.
    """
    check_efficiency(efficiency)
    work_s, size_B = layers.in_buckets(counts)
    return price_seconds(
        layers.forward_s, work_s, [traffic.time_s("all-reduce", size) for size in size_B], efficiency, overlap
    )


def price_seconds(
    forward_s: float,
    work_s: Sequence[Number] | Floats,
    comm_s: Sequence[Number],
    efficiency: float,
    overlap: bool = True,
) -> Overlapped:
    """The recurrence itself; `work_s` and `comm_s` [buckets] in seconds."""
    backward_s = sum(work_s)
    pieces = list(work_s) if overlap else [backward_s, *([0.0] * (len(comm_s) - 1))]
    ready_s: Number = forward_s
    done_s: Number = 0.0
    for piece_s, time_s in zip(pieces, comm_s, strict=True):
        beside_s = np.minimum(np.maximum(done_s - ready_s, 0.0), piece_s / efficiency)
        ready_s = ready_s + piece_s + (1 - efficiency) * beside_s
        done_s = np.maximum(ready_s, done_s) + time_s
    total_s = sum(comm_s)
    after_first_s = forward_s + work_s[0] + total_s
    return Overlapped(
        step_s=done_s,
        compute_s=forward_s + backward_s,
        comm_s=total_s,
        exposed_comm_s=done_s - ready_s,
        slowdown_s=ready_s - forward_s - backward_s,
        bound_s=np.maximum(forward_s + backward_s + comm_s[-1], after_first_s),
    )


def operations(layers: Layers, traffic: Traffic, counts: Sequence[int], overlap: bool = True) -> list[Op]:
    """Forward pass, then per bucket its backward work and, beside the next ones, its all-reduce."""
    work_s, size_B = layers.in_buckets(counts)
    forward = Op(COMPUTE, layers.forward_s, label="forward")
    backward = [Op(COMPUTE, piece_s, (0,), label=f"B{j}") for j, piece_s in enumerate(work_s.tolist())]
    reductions = [
        Op(COMM, traffic.time_s("all-reduce", size), (j + 1 if overlap else len(counts),), "all-reduce",
           size_B=size, label=f"reduce{j}")
        for j, size in enumerate(size_B.tolist())
    ]  # fmt: skip
    return [forward, *backward, *reductions]


def program(
    layers: Layers, traffic: Traffic, counts: Sequence[int], *, efficiency: float = 1.0, overlap: bool = True,
    ranks: int | None = None,
) -> Program:  # fmt: skip
    """The step on `ranks` devices (default: all of the group), one operation per bucket and pass."""
    return program_of(
        operations(layers, traffic, counts, overlap), ranks or traffic.ranks, traffic.algorithm, efficiency
    )


def timeline(layers: Layers, traffic: Traffic, counts: Sequence[int], *, efficiency: float = 1.0) -> Timeline:
    """When one device, for all of them, does what: bucket j is computed as B[j] and reduced as reduce[j]."""
    ops, builder = operations(layers, traffic, counts), ProgramBuilder(1, (COMPUTE, COMM))
    start_s, end_s = run(ops, efficiency)
    for op, begin, end in zip(ops, start_s, end_s, strict=True):
        seconds = float(end - begin)
        if op.op:
            builder.collective([0], op.op, op.size_B, duration_s=seconds, label=op.label, stream=op.lane)
        else:
            builder.compute(0, seconds, label=op.label, stream=op.lane)
    return Timeline(builder.build(), np.array(start_s, dtype=float), np.array(end_s, dtype=float))


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One bucket size: how many buckets it makes and the step it gives."""

    bucket_B: float
    buckets: int
    step: Overlapped

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "bucket_B buckets") | self.step.to_dict()


@dataclass(frozen=True, slots=True)
class BucketSweep:
    """Rows in the order given and what any cutting into buckets, equal or not, can reach at best."""

    rows: tuple[BucketRow, ...]
    no_overlap_s: float
    optimum_counts: tuple[int, ...]
    optimum_s: float

    @property
    def best(self) -> BucketRow:
        """Row with the shortest step; ties go to the first."""
        return min(self.rows, key=lambda row: float(row.step.step_s))

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return {
            "rows": plain(self.rows),
            "best_bucket_B": self.best.bucket_B,
            **picked(self, "no_overlap_s optimum_s"),
            "optimum_layers_per_bucket": plain(self.optimum_counts),
        }


def sweep(
    layers: Layers, traffic: Traffic, sizes_B: Iterable[float] | None = None, *, efficiency: float = 1.0
) -> BucketSweep:
    """Steps for all `sizes_B` (default: every size that closes the first bucket after another layer)."""
    sizes = np.cumsum(layers.gradient_B[::-1]).tolist() if sizes_B is None else list(sizes_B)
    sizes = sorted({size for size in sizes if size > 0})
    if not sizes:
        raise BadInput("the layers have no gradients, so there is nothing to put into buckets", "layers")
    rows = []
    for size in sizes:
        counts = layers.buckets(size)
        rows.append(BucketRow(size, len(counts), price(layers, traffic, counts, efficiency=efficiency)))
    best = optimum(layers, traffic)
    one_after_another = price(layers, traffic, (len(layers.backward_s),), overlap=False)
    reached = price(layers, traffic, best, efficiency=efficiency)
    return BucketSweep(tuple(rows), float(one_after_another.step_s), best, float(reached.step_s))


def optimum(layers: Layers, traffic: Traffic) -> tuple[int, ...]:
    """The fastest cutting into buckets without interference, exactly: dynamic programming over the last bucket.

    done(i) = min over j < i of max(ready_i, done(j)) + t(bytes of layers j .. i), and an earlier end is never worse.
    Ties go to fewer layers in the last bucket.
    """
    ready_s = layers.forward_s + np.cumsum(layers.backward_s[::-1])
    until_B = np.concatenate(([0.0], np.cumsum(layers.gradient_B[::-1])))
    number = len(ready_s)
    done_s, previous = np.zeros(number + 1), np.zeros(number + 1, dtype=np.int64)
    for i in range(1, number + 1):
        time_s = traffic.time_s("all-reduce", until_B[i] - until_B[:i])
        ends_s = np.maximum(ready_s[i - 1], done_s[:i]) + time_s
        previous[i] = i - 1 - int(np.argmin(ends_s[::-1]))
        done_s[i] = ends_s[previous[i]]
    counts: list[int] = []
    while number:
        counts.append(number - int(previous[number]))
        number = int(previous[number])
    return tuple(reversed(counts))
