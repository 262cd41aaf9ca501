"""`Noise`: how times differ from rank to rank and from draw to draw.

    time of a computation or reduction = base * slowdown[rank] * shared[group of rank] * per_rank[rank] * per_operation
    time of a message or collective    = base + message_extra_s

`slowdown` is fixed (heterogeneous devices); `shared` is one factor per draw for all ranks of a node or rack (correlated
slowdown); `per_rank` one per rank and draw (a slow worker for the whole program); `per_operation` one per operation and
draw (jitter). Negative draws count as 0: a time is never negative. Draw d depends on (seed, d) only, so the first 100
of 1000 draws are the draws of a run with 100.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.play.law import Law
from lockstep.simulate.program import Kind, Program


@dataclass(frozen=True, slots=True)
class Noise:
    """Factors on computing times, and seconds added to messages; nothing by default."""

    slowdown: tuple[float, ...] = ()
    """Fixed factor on the computing time of each rank, 1 = nominal; empty = all nominal."""
    shared: Law | None = None
    """Factor common to `ranks_per_group` consecutive ranks."""
    ranks_per_group: int = 1
    per_rank: Law | None = None
    """Factor per rank."""
    per_operation: Law | None = None
    """Factor per computation or reduction."""
    message_extra_s: Law | None = None
    """Seconds added to each message and each collective."""

    def __post_init__(self) -> None:
        if self.ranks_per_group < 1:
            raise BadInput(f"ranks_per_group must be at least 1, got {self.ranks_per_group}")
        if not all(0 < factor < np.inf for factor in self.slowdown):
            raise BadInput(f"slowdown factors must be positive and finite, got {self.slowdown}")

    def apply(self, program: Program, base_s: Array, seed: int, draws: Sequence[int]) -> Array:
        """Times of shape (operations, draws) for the given draw numbers."""
        if self.slowdown and len(self.slowdown) != program.ranks:
            raise BadInput(f"slowdown has {len(self.slowdown)} factors for {program.ranks} ranks")
        computing = np.flatnonzero((program.kind == Kind.COMPUTE) | (program.kind == Kind.REDUCE))
        time_s = np.repeat(base_s[:, np.newaxis], len(draws), axis=1)
        for column, draw in enumerate(draws):
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(draw,))))
            factor = self._rank_factor(program.ranks, generator)[program.rank[computing]]
            if self.per_operation is not None:
                factor = factor * self.per_operation.draw(generator, len(computing))
            time_s[computing, column] *= np.maximum(factor, 0.0)
            if self.message_extra_s is not None:
                _delay_messages(self.message_extra_s, program, time_s[:, column], generator)
        return time_s

    def _rank_factor(self, ranks: int, generator: np.random.Generator) -> Array:
        factor = np.array(self.slowdown) if self.slowdown else np.ones(ranks)
        if self.shared is not None:
            groups = -(-ranks // self.ranks_per_group)
            shared = np.maximum(self.shared.draw(generator, groups), 0.0)
            factor = factor * np.repeat(shared, self.ranks_per_group)[:ranks]
        if self.per_rank is not None:
            factor = factor * np.maximum(self.per_rank.draw(generator, ranks), 0.0)
        return factor


def _delay_messages(law: Law, program: Program, time_s: Array, generator: np.random.Generator) -> None:
    """One delay per message or collective, the same at all its members."""
    kind = program.kind
    first = np.flatnonzero((kind == Kind.SEND) | (kind == Kind.COLLECTIVE))
    nodes = program.graph.node
    delay = np.zeros(program.graph.num_nodes)
    unique = np.unique(nodes[first])
    delay[unique] = np.maximum(law.draw(generator, len(unique)), 0.0)
    time_s += delay[nodes]
