"""PowerSGD: a matrix of rank r, from one step of subspace iteration that continues where the last one ended.

    M: gradient as a matrix, m x n;   Q: n x r, kept from the last step, at first Gaussian
    P = M Q, averaged over ranks;   P = orthonormal columns of P;   Q = M' P, averaged over ranks;   C(M) = P Q'
    C(M) = P P' M is a projection:  |C(M) - M|^2 = |M|^2 - |M' P|^2 >= sum of the squared singular values after the r-th
    best rank r: q = r / min(m, n), reached where all singular values are equal; a lasting M is approached at the rate
    (sigma_{r+1} / sigma_r)^2 per step
    payload = r (m + n) values
Biased. Both averages are of plain matrices, so an all-reduce does; rank 0's P and the mean's are the same matrix.
A vector is laid out as the matrix nearest to a square, padded with zeros.

Source: Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization",
NeurIPS 2019, algorithms 1 and 2.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.base.types.plain import Json
from lockstep.learn.methods.arrays import Array, flat, ieee, like, namespace, wide
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State

FULL_RANK = 2**31
START_SEED = 0
"""Every rank starts from the same Q."""


@dataclass(frozen=True, slots=True)
class PowerSgd(Compressor):
    """State: Q, n x r."""

    name: ClassVar[str] = "power-sgd"
    summary: ClassVar[str] = "two thin factors of every weight matrix"
    source: ClassVar[str] = "Vogels et al. 2019"
    summable: ClassVar[bool] = True
    neutral: ClassVar[Json | None] = {"rank": FULL_RANK}
    rank: int = setting(2, "Rank of the matrix that stands for a weight matrix's gradient.")
    """Of the matrix that stands for the gradient; capped at the smaller side."""

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise BadInput(f"rank = {self.rank}: at least 1", "rank")

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """r (m + n) values, for a vector without a shape of its own."""
        rows, columns = nearest_square(num_elems)
        return value_B * min(self.rank, rows, columns) * (rows + columns)

    def start(self, vector: Array) -> State:
        """Gaussian Q."""
        rows, columns = shape_of(vector)
        generator = Generator(PCG64(SeedSequence(START_SEED)))
        return like(generator.standard_normal((columns, min(self.rank, rows, columns))), vector)

    @ieee
    def agree(self, vector: Array, state: State) -> Array:
        """M Q."""
        return matrix_of(vector) @ state

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """M' P, on the basis P of what the ranks agreed on."""
        matrix = matrix_of(vector)
        product = matrix @ state if agreed is None else agreed
        basis = like(namespace(matrix).linalg.qr(wide(product))[0], product)
        back = matrix.T @ basis
        return Payload((back,), len(flat(vector)), agreed=product, shared=basis), back

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """P Q', without the padding."""
        return flat(payload.shared @ payload.arrays[0].T)[: payload.num_elems]

    def settle(self, state: State, mean: Payload) -> State:
        """The mean M' P."""
        return mean.arrays[0]


def nearest_square(num_elems: int) -> tuple[int, int]:
    """Rows and columns of the matrix a vector is laid out as."""
    rows = max(1, math.isqrt(num_elems))
    return rows, -(-num_elems // rows)


def shape_of(vector: Array) -> tuple[int, int]:
    """(rows, columns) of `vector` [...]: the first axis by all others, or the nearest to a square for a single row."""
    if vector.ndim >= 2:
        return vector.shape[0], int(np.prod(vector.shape[1:]))
    return nearest_square(len(vector))


def matrix_of(vector: Array) -> Array:
    """`vector` [...] as a matrix [rows, columns], padded with zeros."""
    rows, columns = shape_of(vector)
    entries = flat(vector)
    missing = rows * columns - len(entries)
    if missing:
        library = namespace(entries)
        entries = library.concatenate((entries, library.zeros_like(entries[:missing])))
    return entries.reshape(rows, columns)
