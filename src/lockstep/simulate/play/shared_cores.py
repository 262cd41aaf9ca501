"""`simulate_shared_cores`: ranks of one machine, whose messages and additions are work for the same cores and memory.

    alone        t_1(S): seconds of an operation of S bytes while no other rank works
    together     t_n(S): seconds until each of n ranks has done one
    k at once    max(t_1, k w) seconds each,   w = t_n / n
    first        messages that wait for nothing go `start_s` late
w is work in seconds of the whole machine; alone, an operation takes w / t_1 of it. Operations under way together share
the machine max-min fairly (`fluid`). With a core for every rank t_n = t_1, and n at once do not slow one another down;
on one core t_n = n t_1. Computations that a program gives a time for take that time: accelerators do them.

Source: none; the two limits of k are what is measured, and max-min fairness is what the scheduler aims at.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import asdict, dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.simulate.play.fluid import Flow, Fluid, Unlimited
from lockstep.simulate.play.prices import durations_s
from lockstep.simulate.program import Kind, Program, Timeline

MACHINE = 0
"""The resource that all share; capacity: a second of work per second."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of a message of `size_B`, and of adding it where it arrives: alone, and on all ranks at once."""

    size_B: float
    alone_s: float
    together_s: float
    add_alone_s: float
    add_together_s: float

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < np.inf:
                raise BadInput(f"{name} must be finite and at least 0, got {value:g}")


@dataclass(frozen=True, slots=True)
class SharedCores:
    """What `ranks` ranks of one machine need for messages of a few sizes, smallest first."""

    ranks: int
    timed: tuple[Timed, ...]
    start_s: float = 0.0
    """Until the first messages of a run go, longer than between messages: ranks wake up one by one."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "ranks start_s timed")

    def messages_s(self, sizes_B: Array) -> tuple[Array, Array]:
        """(alone, together) of messages; linear between the sizes timed, in proportion beyond the largest."""
        return self._at(sizes_B, "alone_s"), self._at(sizes_B, "together_s")

    def additions_s(self, sizes_B: Array) -> tuple[Array, Array]:
        """(alone, together) of additions."""
        return self._at(sizes_B, "add_alone_s"), self._at(sizes_B, "add_together_s")

    def _at(self, sizes_B: Array, name: str) -> Array:
        known_B, times_s = ([getattr(one, field) for one in self.timed] for field in ("size_B", name))
        beyond = np.maximum(np.asarray(sizes_B) / known_B[-1], 1.0)
        return np.asarray(np.interp(sizes_B, known_B, times_s) * beyond)


def simulate_shared_cores(program: Program, cores: SharedCores) -> Timeline:
    """When every operation of a program without collectives starts and ends on that machine, in seconds."""
    node = program.graph.node
    duration_s = np.zeros(program.graph.num_nodes)
    duration_s[node] = durations_s(program, Unlimited())
    flows, capacity = _work(program, cores)
    run = Fluid(program, duration_s, flows, capacity)
    run.advance()
    return Timeline(
        program, run.start_s[node], run.end_s[node],
        assumptions=("messages and additions under way together share the machine max-min fairly (fluid model)",),
    )  # fmt: skip


def _work(program: Program, cores: SharedCores) -> tuple[dict[int, Flow], Array]:
    """The flow of every message and addition, and the capacities: of the machine, and of each operation alone."""
    open_ = np.isnan(program.duration_s)
    sends = np.flatnonzero(open_ & (program.kind == Kind.SEND))
    additions = np.flatnonzero(open_ & (program.kind == Kind.REDUCE))
    ids = np.concatenate((sends, additions))
    both = (cores.messages_s(program.size_B[sends]), cores.additions_s(program.size_B[additions]))
    alone_s, together_s = (np.concatenate(columns) for columns in zip(*both, strict=True))
    work_s = together_s / cores.ranks
    share = np.divide(work_s, alone_s, out=np.ones(len(ids)), where=alone_s > work_s)
    node = program.graph.node[ids]
    first = ~np.any([before[node] > 0 for before in program.graph.before], axis=0)
    delay_s = np.where(first, cores.start_s, 0.0)
    flows = {
        v: Flow(wait_s, amount, (MACHINE, number))
        for number, (v, wait_s, amount) in enumerate(
            zip(node.tolist(), delay_s.tolist(), work_s.tolist(), strict=True), MACHINE + 1
        )
    }
    return flows, np.concatenate(([1.0], share))
