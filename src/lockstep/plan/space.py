"""`Space`: the declared set of layouts that the planner searches, every combination of its axes.

tp, cp, ep and pp are the divisors that the model and the device count allow, dp is what is left of the devices, and
micro-batch, sharding, recomputation, sequence parallelism and (schedule, chunks) are listed. The grid gives each axis
its own dimension; combinations that break a rule of `layout/rules.py` are counted as rejected, never skipped silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from lockstep.layout import AXES, Job, LayoutGrid, divisors
from lockstep.pipelines import code
from lockstep.workload import FULL, NONE, SELECTIVE

SHARDING = ((0, False), (1, False), (2, False), (3, False), (3, True))
"""(zero, HSDP): HSDP keeps one sharded copy per innermost unit that holds several data-parallel ranks."""

MAX_TP = 64
MAX_CP = 64
MICRO_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
SCHEDULES = ("1f1b", "interleaved", "zb-h1", "gpipe")
FOLDED = ("micro_batch", "sharding", "recompute", "sequence_parallel", "schedule")


@dataclass(frozen=True, slots=True)
class Space:
    """The axes of a search. Every field is a tuple of allowed values, in the order that breaks ties (first wins)."""

    tp: tuple[int, ...]
    cp: tuple[int, ...]
    ep: tuple[int, ...]
    pp: tuple[int, ...]
    micro_batch: tuple[int, ...]
    schedule: tuple[tuple[str, int], ...]
    """(schedule, chunks per stage)."""
    sharding: tuple[tuple[int, bool], ...] = SHARDING
    recompute: tuple[int, ...] = (NONE, SELECTIVE, FULL)
    sequence_parallel: tuple[int, ...] = (0, 1)
    offload: int = 0
    order: tuple[str, ...] = AXES
    unit: int = field(default=1)
    """Devices of the innermost unit (a node), inside which HSDP keeps a copy."""

    @property
    def size(self) -> int:
        """Combinations in the whole space."""
        axes = (self.tp, self.cp, self.ep, self.pp, *(getattr(self, name) for name in FOLDED))
        return int(np.prod([len(axis) for axis in axes], dtype=np.int64))

    def blocks(self, devices: int) -> Iterator[LayoutGrid]:
        """Grids that make up the space, one for each (tp, cp, pp) whose product divides the devices.

        Each has axes (ep, micro-batch, sharding, recompute, sequence-parallel, schedule), in this order.
        """
        for tp, cp, pp in product(self.tp, self.cp, self.pp):
            if devices % (tp * cp * pp) == 0:
                yield self.block(tp, cp, pp, devices // (tp * cp * pp))

    def block(self, tp: int, cp: int, pp: int, dp: int) -> LayoutGrid:
        """The grid of all layouts with these degrees."""
        zero, hsdp = (_axis([pair[i] for pair in self.sharding], 2) for i in (0, 1))
        inner = np.gcd(max(1, self.unit // tp), dp * cp)
        return LayoutGrid(
            tp=_axis([tp], 0),
            cp=_axis([cp], 0),
            pp=_axis([pp], 0),
            dp=_axis([dp], 0),
            ep=_axis(self.ep, 0),
            micro_batch=_axis(self.micro_batch, 1),
            zero=zero,
            shard=np.where(hsdp > 0, inner, 0),
            recompute=_axis(self.recompute, 3),
            sequence_parallel=_axis(self.sequence_parallel, 4),
            schedule=_axis([code(name) for name, _ in self.schedule], 5),
            vpp=_axis([chunks for _, chunks in self.schedule], 5),
            offload=_axis([self.offload], 0),
            order=self.order,
        )


def _axis(values: Sequence[int], dimension: int, dimensions: int = 6) -> Any:
    """`values` along one dimension of a grid."""
    shape = [1] * dimensions
    shape[dimension] = len(values)
    return np.asarray(values, dtype=np.int64).reshape(shape)


def default_space(job: Job, unit: int) -> Space:
    """Every factorisation that `job` allows, times micro-batch, sharding, recomputation and schedule.

    `unit` is the number of devices in the innermost unit of the cluster (a node).
    """
    devices = job.devices
    if job.transformer is None:
        return Space((1,), (1,), (1,), (1,), _micro_batches(job), (("1f1b", 1),), recompute=(NONE,),
                     sequence_parallel=(0,), unit=unit)  # fmt: skip
    pp = tuple(d for d in divisors(devices) if d <= job.layers)
    chunks = sorted({layers // stages for stages in pp if stages > 1 for layers in [job.layers] if layers % stages == 0})
    vpp = tuple(v for v in divisors(job.layers) if v > 1 and any(c % v == 0 for c in chunks))
    schedules = [(name, v) for name in SCHEDULES for v in ((1,) if name != "interleaved" else vpp)]
    return Space(
        tp=tuple(d for d in divisors(devices, MAX_TP) if job.heads % d == 0),
        cp=tuple(d for d in divisors(devices, MAX_CP) if d == 1 or job.recipe.seq % (2 * d) == 0),
        ep=tuple(d for d in divisors(job.num_experts or 1) if devices % d == 0),
        pp=pp,
        micro_batch=_micro_batches(job),
        schedule=tuple(schedules),
        unit=unit,
    )


def _micro_batches(job: Job) -> tuple[int, ...]:
    """Micro-batch sizes that divide the batch."""
    return tuple(size for size in MICRO_BATCHES if job.recipe.batch % size == 0) or (1,)
