"""`Overlapped`: one step with computing and communicating beside each other; exposed communication is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked, plain
from lockstep.simulate.parallel.lanes import COMPUTE, Op, run

ROUNDING = 1e-12
"""Share of a step below which hidden communication is the rounding of differences of times."""


@dataclass(frozen=True, slots=True)
class Overlapped:
    """Seconds of one step; numbers or arrays.

    step_s = compute_s + slowdown_s + exposed_comm_s + idle_s: work at full rate, what sharing the device adds to it,
    communication with nothing computed beside it, and neither (zero for the policies here).
    """

    step_s: Number
    compute_s: Number
    comm_s: Number
    exposed_comm_s: Number
    slowdown_s: Number
    bound_s: Number
    """No order of the same work is faster: max(computing, communicating, and what must come after the last of each)."""

    @staticmethod
    def of(ops: Sequence[Op], efficiency: float, bound_s: Number) -> Overlapped:
        """The step that ends with the last of `ops` on the two lanes of a device."""
        start, end = run(ops, efficiency)
        computing = [i for i, op in enumerate(ops) if op.lane == COMPUTE]
        compute_s, busy_s = sum(ops[i].seconds for i in computing), sum(end[i] - start[i] for i in computing)
        comm_s, step_s = sum(op.seconds for op in ops if op.lane != COMPUTE), reduce(np.maximum, end)
        return Overlapped(step_s, compute_s, comm_s, step_s - busy_s, busy_s - compute_s, bound_s)

    @property
    def overlap_frac(self) -> Number:
        """Share of the communication that something is computed beside; 1 when there is none."""
        comm_s, hidden_s = np.asarray(self.comm_s), np.subtract(self.comm_s, self.exposed_comm_s)
        hidden_s = np.where(hidden_s > ROUNDING * np.asarray(self.step_s), hidden_s, 0.0)
        hidden = np.divide(hidden_s, comm_s, out=np.ones_like(comm_s, dtype=float), where=comm_s > 0)
        found: Number = plain(np.clip(hidden, 0.0, 1.0)[()])
        return found

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self) | {"overlap_frac": plain(self.overlap_frac)}
