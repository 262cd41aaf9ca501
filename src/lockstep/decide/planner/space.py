"""`Space`: the declared set of layouts that the planner searches, every combination of its axes.

tp, cp, ep and pp are the divisors that the model and the device count allow, dp is what is left of the devices;
micro-batch, sharding, recomputation and sequence parallelism are listed; the schedules go with the stages: one stage
needs none, and interleaving takes the chunk counts that divide a stage's layers. Schedules that hide the experts'
exchange are listed for models with experts, whose experts are cut like dense layers or not at all. One grid of layouts
per stage count and placement of layers has a row for every combination of degrees, micro-batch and sequence
parallelism, and an axis for each of the other choices.
Combinations that break a rule of `price/layout/rules.py` are counted, never skipped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Ints
from lockstep.describe.workload import FULL, NONE, SELECTIVE
from lockstep.price.layout import AXES, KEEP, Job, LayoutGrid, divisors, splits_evenly
from lockstep.simulate.parallel.pipeline import Placement, code, get

ALL_RANKS, NODE = 0, -1
"""Ranks that share one sharded copy: all that hold the same parameters, or those in one innermost unit (HSDP)."""
SHARDING = ((0, ALL_RANKS), (1, ALL_RANKS), (2, ALL_RANKS), (3, ALL_RANKS), (3, NODE))
"""(zero, ranks that share one sharded copy)."""
MAX_TP = 64
MAX_CP = 64
MICRO_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
SCHEDULES = ("1f1b", "zb-h1", "gpipe")
EXPERT_SCHEDULES = ("dualpipe", "dualpipe-v")
EXPERT_CUTS = (0, 1)
"""Experts cut as dense layers are, or not at all: what torchtitan v0.2 has (job_config.py), and what Megatron Core's
page on experts recommends first ("prefer EP over TP for the expert layer")."""
DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Space:
    """The axes of a search. Every field is a tuple of allowed values, in the order that breaks ties (first wins)."""

    tp: tuple[int, ...]
    cp: tuple[int, ...]
    ep: tuple[int, ...]
    pp: tuple[int, ...]
    micro_batch: tuple[int, ...]
    layers: int
    """Layers that stages share out, which decides the chunk counts of the interleaved schedule."""
    unit: int
    """Devices of the innermost unit of the cluster, inside which HSDP keeps a copy."""
    sharding: tuple[tuple[int, int], ...] = SHARDING
    recompute: tuple[int, ...] = (NONE, SELECTIVE, FULL)
    sequence_parallel: tuple[int, ...] = (0, 1)
    schedules: tuple[str, ...] = (*SCHEDULES, "interleaved")
    offload: tuple[int, ...] = (KEEP,)
    etp: tuple[int, ...] = (0,)
    dp: tuple[int, ...] = ()
    """Replicas; () for whatever is left of the devices."""
    vpp: tuple[int, ...] = ()
    """Chunks per stage; () for all that the schedules can have."""
    order: tuple[str, ...] = AXES
    split: tuple[int, ...] = ()
    """Layers of every stage or chunk, as in `Layout.stages`; () shares them out evenly."""
    mtp_stage: int = -1
    """Of `split`, the one with the multi-token-prediction modules; -1 for the last."""
    memory_frac: float = 1.0
    """Share of a device's memory that a layout may need."""

    def schedules_of(self, stages: int) -> list[tuple[str, int]]:
        """(schedule, chunks per stage) for a number of stages; they are all the same for a single one."""
        if stages == 1:
            found = [("1f1b", 1)]
        else:
            found = [(name, count) for name in self.schedules for count in self._chunks(name, stages)]
        return [(name, count) for name, count in found if not self.vpp or count in self.vpp]

    def _chunks(self, schedule: str, stages: int) -> list[int]:
        """Chunks per stage that a schedule can have."""
        fixed = get(schedule).num_chunks
        if fixed is not None:
            return [fixed]
        if self.split:
            return [len(self.split) // stages] if len(self.split) >= 2 * stages else []
        most = -(-self.layers // stages)
        return [count for count in range(2, most + 1) if splits_evenly(self.layers, stages * count)]

    @property
    def size(self) -> int:
        """Combinations in the whole space."""
        axes = (self.tp, self.cp, self.ep, self.etp, self.micro_batch, self.sharding, self.recompute, self.offload)
        per_schedule = int(np.prod([len(axis) for axis in (*axes, self.sequence_parallel)], dtype=np.int64))
        return per_schedule * sum(len(self.schedules_of(stages)) for stages in self.pp)

    def parts(self, stages: int) -> list[Space]:
        """This space with the schedules of one placement at a time, in order; a single stage has no schedules."""
        if stages == 1:
            return [self] if self.schedules_of(1) else []
        names: dict[Placement, list[str]] = {}
        for name in self.schedules:
            names.setdefault(get(name).placement, []).append(name)
        several = (replace(self, schedules=tuple(some)) for some in names.values())
        return [one for one in several if one.schedules_of(stages)]

    def grid(self, stages: int, devices: int) -> LayoutGrid:
        """All layouts with `stages` stages, on four axes.

        They are the rows (tp, cp, ep, etp, micro-batch, sequence parallelism and offload together), sharding,
        recomputation and the schedule.
        """
        choices = (self.tp, self.cp, self.ep, self.etp, self.micro_batch, self.sequence_parallel, self.offload)
        several = np.array(np.meshgrid(*choices, indexing="ij")).reshape(len(choices), -1)
        replicas = np.maximum(1, devices // (several[0] * several[1] * stages))
        if self.dp:
            some = np.isin(replicas, self.dp)
            several, replicas = several[:, some], replicas[some]
        tp, cp, ep, etp, micro_batch, sequence_parallel, offload = (_axis(values, 0) for values in several)
        dp = _axis(replicas, 0)
        zero, shard = (_axis([pair[i] for pair in self.sharding], 1) for i in (0, 1))
        inner = np.gcd(np.maximum(1, self.unit // tp), dp * cp)
        pairs = self.schedules_of(stages)
        return LayoutGrid(
            tp=tp,
            cp=cp,
            pp=_axis([stages], 0),
            dp=dp,
            ep=ep,
            etp=etp if any(self.etp) else _axis([0], 0),
            micro_batch=micro_batch,
            zero=zero,
            shard=np.where(shard == NODE, inner, shard),
            recompute=_axis(self.recompute, 2),
            sequence_parallel=sequence_parallel,
            schedule=_axis([code(name) for name, _ in pairs], 3),
            vpp=_axis([chunks for _, chunks in pairs], 3),
            offload=offload if len(self.offload) > 1 else _axis(self.offload, 0),
            order=self.order,
            split=self.split,
            mtp_stage=self.mtp_stage,
        )


def _axis(values: ArrayLike, dimension: int) -> Ints:
    """`values` along one dimension of a grid."""
    array, shape = np.asarray(values, dtype=np.int64), [1] * DIMENSIONS
    shape[dimension] = array.size
    return array.reshape(shape)


def default_space(job: Job, unit: int) -> Space:
    """Every factorisation that `job` allows, times micro-batch, sharding, recomputation and schedule.

    `unit` is the number of devices in the innermost unit of the cluster (a node).
    """
    micro_batch = tuple(size for size in MICRO_BATCHES if job.recipe.batch % size == 0)
    devices = job.devices
    if job.transformer is None:
        one = (1,)
        return Space(one, one, one, one, micro_batch, 1, unit, recompute=(NONE,), sequence_parallel=(0,))
    # Sequences of images stay whole, and both sequences of an encoder with a decoder, which has no stages either.
    longest, stages = (1 if job.images or job.crosses else MAX_CP), 1 if job.crosses else job.layers
    return Space(
        tp=tuple(d for d in divisors(devices, MAX_TP) if job.heads % d == 0),
        cp=tuple(d for d in divisors(devices, longest) if d == 1 or job.recipe.seq % (2 * d) == 0),
        ep=tuple(d for d in divisors(max(job.num_experts, 1)) if devices % d == 0),
        pp=tuple(d for d in divisors(devices) if d <= stages),
        micro_batch=micro_batch,
        layers=job.layers,
        unit=unit,
        schedules=(*SCHEDULES, "interleaved", *(EXPERT_SCHEDULES if job.num_experts else ())),
        etp=EXPERT_CUTS if job.num_experts else (0,),
    )
