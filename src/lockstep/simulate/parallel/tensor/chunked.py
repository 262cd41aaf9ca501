"""Chunked overlap inside one layer: a matrix product and its collective cut into c parts that alternate.

Tensor parallelism cannot hide the collective behind other layers: the next layer needs its result. Cut into chunks,
chunk j is communicated while chunk j + 1 is computed (product then reduction), or the other way round (gather first):

    time = C/c + t + (c - 1) max(C/c, t),   t = time of the collective on S/c bytes,  C = product + (c - 1) overhead
S bytes, C seconds of computing; `overhead_s` per further chunk (launch, worse shape). c = 1 is no overlap. At least one
chunk of both is always exposed. Below efficiency 1 computing slows beside collectives (`parallel.lanes`).

Source: S. Wang et al., "Overlap communication with dependent computation via decomposition in large deep learning
models", ASPLOS 2023; A. Jangda et al., "CoCoNet", ASPLOS 2022.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number, Whole
from lockstep.simulate.parallel.group import Traffic
from lockstep.simulate.parallel.lanes import COMM, COMPUTE, Op, check_efficiency, program_of
from lockstep.simulate.parallel.overlapped import Overlapped
from lockstep.simulate.program import Program


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of `compute_s` and the collective `op` on `size_B` bytes after it (or before: `gather`)."""

    compute_s: float
    size_B: float
    op: str = "reduce-scatter"
    overhead_s: float = 0.0
    gather: bool = False

    def chunk(self, traffic: Traffic, chunks: Whole) -> tuple[Number, Number]:
        """Seconds of (computing, communicating) one chunk."""
        if np.any(np.asarray(chunks) < 1):
            raise BadInput(f"chunks must be at least 1, got {np.min(chunks)}", "chunks")
        compute_s = (self.compute_s + (chunks - 1) * self.overhead_s) / chunks
        return compute_s, traffic.time_s(self.op, self.size_B / chunks)


def price(product: Product, traffic: Traffic, chunks: Whole, *, efficiency: float = 1.0) -> Overlapped:
    """Product and collective in `chunks` parts; arrays of chunks are welcome when efficiency = 1."""
    check_efficiency(efficiency)
    compute_s, comm_s = product.chunk(traffic, chunks)
    work_s, traffic_s = compute_s * chunks, comm_s * chunks
    bound_s = np.maximum(work_s + comm_s, traffic_s + compute_s)
    if efficiency < 1:
        return Overlapped.of(operations(product, traffic, int(chunks)), efficiency, bound_s)
    step_s = compute_s + comm_s + (chunks - 1) * np.maximum(compute_s, comm_s)
    return Overlapped(step_s, work_s, traffic_s, step_s - work_s, 0.0 * work_s, bound_s)


def operations(product: Product, traffic: Traffic, chunks: int) -> list[Op]:
    """Alternating chunks: each collective after its product, or each product after its gather."""
    compute_s, comm_s = product.chunk(traffic, chunks)
    ops: list[Op] = []
    for j in range(chunks):
        work = Op(COMPUTE, compute_s, label=f"M{j}")
        exchange = Op(COMM, comm_s, op=product.op, size_B=product.size_B / chunks, label=f"{product.op}{j}")
        first, second = (exchange, work) if product.gather else (work, exchange)
        ops += [first, replace(second, after=(2 * j,))]
    return ops


def program(
    product: Product, traffic: Traffic, chunks: int, *, efficiency: float = 1.0, ranks: int | None = None
) -> Program:
    """The chunks on `ranks` devices (default: all of the group)."""
    return program_of(operations(product, traffic, chunks), ranks or traffic.ranks, traffic.algorithm, efficiency)


def best_chunks(product: Product, traffic: Traffic, candidates: Iterable[int] = range(1, 65)) -> int:
    """The number of chunks with the shortest time without interference; ties go to fewer chunks."""
    numbers = np.array(sorted(candidates))
    return int(numbers[int(np.argmin(price(product, traffic, numbers).step_s))])
