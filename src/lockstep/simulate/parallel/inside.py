"""`inside`: the equal collectives that an operation is made of, told by its seconds, and the program of their sends.

A layer's traffic is one collective or a few rounds of it, each by the way across levels that is priced: the fastest.
Seconds that tell otherwise are not those of whole collectives of one group: pieces beside products, several groups,
other traffic on the same links.
"""

from __future__ import annotations

from math import isclose, prod

from lockstep.base.records import dataclass, replace
from lockstep.simulate.collectives import best_on_levels, program_on_levels
from lockstep.simulate.collectives.levels import sent_on_levels, work_on_levels
from lockstep.simulate.collectives.op import op_of
from lockstep.simulate.parallel.group import Levels, collective_s
from lockstep.simulate.play import durations_s
from lockstep.simulate.program import Program

ROUNDS = (1, 2)
"""Of tensor-parallel traffic a layer has two: attention and feed-forward."""


@dataclass(frozen=True, slots=True)
class Inside:
    """`rounds` equal collectives of `size_B` each, one behind another."""

    op: str
    size_B: float
    levels: Levels
    rounds: int

    @property
    def way(self) -> str:
        """The way across levels."""
        return str(best_on_levels(self.op, self.levels, self.size_B).algorithm)

    @property
    def operations(self) -> float:
        """About how many sends, receives, reductions and copies all rounds have."""
        if self.op == "all-to-all":
            return float(self.rounds * work_on_levels(self.op, self.levels, self.size_B, self.way))
        messages = sent_on_levels(self.op, self.levels, self.size_B, self.way).total.messages
        return float(self.rounds * messages * (2 + op_of(self.op).adds))

    def program(self) -> Program:
        """One round, whose operations take what the links of the levels let them."""
        program, links = program_on_levels(self.op, self.levels, self.size_B, self.way)
        return replace(program, columns={**program.columns, "duration_s": durations_s(program, links)})


def inside(op: str, group: Levels, ranks: int, size_B: float, seconds: float) -> Inside | None:
    """What `op` of a group of so many ranks is; None if its seconds are not those of whole collectives."""
    levels: Levels = [(int(size), *link) for size, *link in group]
    if ranks == 1 or prod(level[0] for level in levels) != ranks:
        return None
    if op == "send":
        # Blocks go around the ring as those of an all-gather, every hop at the pace of the outermost level.
        _, *link = [level for level in levels if level[0] > 1][-1]
        op, levels = "all-gather", [(ranks, link[0], link[1], link[2], None)]
        size_B *= ranks / (ranks - 1)
    for rounds in ROUNDS:
        if isclose(rounds * float(collective_s(op, levels, size_B / rounds)), seconds, rel_tol=1e-9):
            return Inside(op, size_B / rounds, levels, rounds)
    return None
