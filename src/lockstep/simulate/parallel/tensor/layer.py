"""`Layer`: a tensor-parallel layer as data: what every rank computes and what the ranks exchange, in order.

One list of parts is turned into a `Program`, simulated and run on numpy (`tensor.run`); what a transformer layer's
exchanges cost is `tensor.traffic`. Names: a rank's arrays
live in a dictionary; the gradient of array `y` is `d y`; a weight has the same name on all ranks and is a slice there.

Letters: t = b s tokens, b batch, s sequence, h hidden, f feed-forward width, V vocabulary, k ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.simulate.program import Kind, Program, ProgramBuilder

State: TypeAlias = dict[str, Array]
OPS = ("all-reduce", "all-gather", "reduce-scatter")


@dataclass(frozen=True, slots=True)
class Local:
    """Every rank computes on its own arrays: `kernel(state, rank)`, `flops` per rank."""

    label: str
    kernel: Callable[[State, int], None]
    flops: float = 0.0
    core: bool = False
    """Whether it is attention's core (scores, softmax, sums of values), beside which no traffic is put."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective on the array `source` of every rank into `target`; `elems` in the definition of nccl-tests.

    Rows are split and joined: all-gather stacks the ranks' rows, reduce-scatter leaves each rank its run of rows.
    """

    op: str
    source: str
    target: str
    elems: int
    combine: str = "sum"
    """`sum` or `max`."""

    @property
    def label(self) -> str:
        """What it is called in programs and pictures."""
        return f"{self.op} {self.target}"


Part: TypeAlias = Local | Exchange


@dataclass(frozen=True, slots=True)
class Split:
    """How a weight is cut: along `axis`, each of `blocks` equal blocks for itself (three for stacked q, k, v)."""

    axis: int
    blocks: int = 1

    def shares(self, weight: Array, ranks: int) -> list[Array]:
        """One slice [...] of `weight` [...] per rank."""
        if weight.shape[self.axis] % (self.blocks * ranks):
            raise BadInput(f"{ranks} ranks do not divide a weight of shape {weight.shape} along axis {self.axis}")
        blocks = [np.split(block, ranks, axis=self.axis) for block in np.split(weight, self.blocks, axis=self.axis)]
        return [np.concatenate([block[rank] for block in blocks], axis=self.axis) for rank in range(ranks)]

    def join(self, shares: Sequence[Array]) -> Array:
        """The weight (or gradient) [...] behind the slices [...] of all ranks."""
        blocks = [np.split(share, self.blocks, axis=self.axis) for share in shares]
        parts = [block[i] for i in range(self.blocks) for block in blocks]
        return np.concatenate(parts, axis=self.axis)


@dataclass(frozen=True, slots=True)
class Layer:
    """Forward and backward parts of one layer on `ranks` ranks; `+` puts another layer after it."""

    ranks: int
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    splits: Mapping[str, Split]
    input: str
    output: str
    sequence_parallel: bool = False
    """Whether input and output are split by rows, rather than the same on all ranks."""

    def __add__(self, other: Layer) -> Layer:
        forward, backward = self.forward + other.forward, other.backward + self.backward
        return replace(
            self, forward=forward, backward=backward, splits={**self.splits, **other.splits}, output=other.output
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """Forward, then backward."""
        return self.forward + self.backward

    @property
    def flops_per_rank(self) -> float:
        """FLOPs of one rank, forward and backward, matrix products only."""
        return sum(part.flops for part in self.parts if isinstance(part, Local))

    def program(self, flops_per_s: float, element_B: float = 2.0, algorithm: str = "ring") -> Program:
        """Forward and backward as a program; nothing overlaps, since each part needs the one before."""
        return program_of(self.parts, self.ranks, flops_per_s, element_B, algorithm)


def program_of(
    parts: Sequence[Part], ranks: int, flops_per_s: float, element_B: float = 2.0, algorithm: str = "ring"
) -> Program:
    """Parts one after another on every rank, collectives as one operation each."""
    if not flops_per_s > 0:
        raise BadInput(f"flops_per_s must be above 0, got {flops_per_s}")
    builder, devices = ProgramBuilder(ranks, ("compute", "comm")), np.arange(ranks)
    last: Array | None = None
    for part in parts:
        columns: Json
        if isinstance(part, Local):
            kind, columns = Kind.COMPUTE, {"duration_s": part.flops / flops_per_s, "flops": part.flops}
        else:
            named = {"op": part.op, "algorithm": algorithm, "buffer": part.target}
            kind = Kind.COLLECTIVE
            columns = {"group": 0, "size_B": part.elems * element_B, "chunk_stop": part.elems, **named}
        last = builder.extend(kind, devices, label=part.label, after=last, **columns)
    return builder.build()


def check_divides(ranks: int, **sizes: int) -> None:
    """BadInput unless every size is positive and the number of ranks divides it."""
    if ranks < 1:
        raise BadInput(f"tensor parallelism needs at least 1 rank, got {ranks}", "ranks")
    for name, size in sizes.items():
        if size < 1 or size % ranks:
            raise BadInput(f"{ranks} tensor-parallel ranks do not divide {name} = {size}", "ranks")
