"""`Overlapped`: one step with computing and communicating beside each other; exposed communication is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from lockstep.collectives.cost import plain
from lockstep.parallel.lanes import COMPUTE, Op, run


@dataclass(frozen=True, slots=True)
class Overlapped:
    """Seconds of one step; numbers or arrays.

    step_s = compute_s + slowdown_s + exposed_comm_s + idle_s: work at full rate, what sharing the device adds to it,
    communication with nothing computed beside it, and neither (zero for the policies here).
    """

    step_s: Any
    compute_s: Any
    comm_s: Any
    exposed_comm_s: Any
    slowdown_s: Any
    bound_s: Any
    """No order of the same work is faster: max(computing, communicating, and what must come after the last of each)."""

    @staticmethod
    def of(ops: Sequence[Op], efficiency: float, bound_s: Any) -> Overlapped:
        """The step that ends with the last of `ops` on the two lanes of a device."""
        start, end = run(ops, efficiency)
        computing = [i for i, op in enumerate(ops) if op.lane == COMPUTE]
        compute_s, busy_s = sum(ops[i].seconds for i in computing), sum(end[i] - start[i] for i in computing)
        comm_s, step_s = sum(op.seconds for op in ops if op.lane != COMPUTE), reduce(np.maximum, end)
        return Overlapped(step_s, compute_s, comm_s, step_s - busy_s, busy_s - compute_s, bound_s)

    @property
    def overlap_frac(self) -> Any:
        """Share of the communication that something is computed beside; 1 when there is none."""
        comm_s = np.asarray(self.comm_s)
        hidden = 1 - np.divide(self.exposed_comm_s, comm_s, out=np.zeros_like(comm_s, dtype=float), where=comm_s > 0)
        return plain(np.clip(hidden, 0.0, 1.0)[()])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        shown = {name: plain(getattr(self, name)) for name in self.__slots__}
        return {**shown, "overlap_frac": self.overlap_frac}
