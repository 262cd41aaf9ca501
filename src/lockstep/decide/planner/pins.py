"""`Pins`: what is already decided of a layout; a search is free in the rest.

A field with values restricts its axis of the space to them, also to values that the planner would not try by itself
(a micro-batch of 5, a schedule such as zb-v). The rules of `price/layout/rules.py` hold for them as for all others.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.decide.planner.space import ALL_RANKS, SHARDING, Space, default_space
from lockstep.describe.workload import RECOMPUTE
from lockstep.price.layout import AXES, OFFLOAD, Job

SAME = ("tp", "cp", "ep", "etp", "pp", "dp", "vpp", "micro_batch")
"""Fields that are called so in a space too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Allowed values of the fields of a `Layout`; () where the search is free."""

    tp: tuple[int, ...] = ()
    pp: tuple[int, ...] = ()
    dp: tuple[int, ...] = ()
    cp: tuple[int, ...] = ()
    ep: tuple[int, ...] = ()
    etp: tuple[int, ...] = ()
    vpp: tuple[int, ...] = ()
    micro_batch: tuple[int, ...] = ()
    zero: tuple[int, ...] = ()
    shard: tuple[int, ...] = ()
    recompute: tuple[str, ...] = ()
    sequence_parallel: tuple[bool, ...] = ()
    schedule: tuple[str, ...] = ()
    offload: tuple[str, ...] = ("none",)
    order: tuple[str, ...] = AXES
    stages: tuple[int, ...] = ()
    """Layers of every stage, or chunk."""
    mtp_stage: int | None = None
    memory_frac: float = 1.0
    """Share of a device's memory that a layout may need."""

    def space(self, job: Job, unit: int) -> Space:
        """The layouts of `job` that agree; `unit` is the number of devices of a node."""
        free = default_space(job, unit)
        axes: Json = {name: values for name in SAME if (values := getattr(self, name))}
        if self.zero or self.shard:
            axes["sharding"] = self._sharding()
        if self.recompute:
            axes["recompute"] = tuple(map(RECOMPUTE.index, self.recompute))
        if self.sequence_parallel:
            axes["sequence_parallel"] = tuple(map(int, self.sequence_parallel))
        if self.schedule:
            axes["schedules"] = self.schedule
        return replace(
            free,
            **axes,
            offload=tuple(map(OFFLOAD.index, self.offload)),
            order=self.order,
            split=self.stages,
            mtp_stage=-1 if self.mtp_stage is None else self.mtp_stage,
            memory_frac=self.memory_frac,
        )

    def _sharding(self) -> tuple[tuple[int, int], ...]:
        """ZeRO stages, and the ranks that share a copy: those that the planner tries, or those that are given."""
        if not self.shard:
            return tuple(pair for pair in SHARDING if pair[0] in self.zero)
        stages = self.zero or (1, 2, 3)
        return tuple((zero, shard) for zero in stages for shard in self.shard if zero or shard == ALL_RANKS)


FREE = Pins()
"""Nothing is decided."""
