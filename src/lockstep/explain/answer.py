"""What a diagnosis consists of: inputs, parts of the step, ranks, collectives, kernels, memory, causes.

Seconds are of one optimizer step, the mean over the steps seen and, where several ranks were seen, over ranks. None is
what nobody measured or predicted; it is never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json, picked

if TYPE_CHECKING:
    from lockstep.explain.layer_operations import LayerOperation
    from lockstep.explain.refit import Refit

UNCLEAR = "is of kernels whose class is unknown"
"""What is said of kernels that nothing tells apart, before anything else."""
COMPUTE = ("compute.matmul", "compute.attention", "compute.stream")
GROUPS = ("dp", "tp", "pp", "cp", "ep", "other")
HOW = ("transfer", "waiting")
REPLAYED_FRAC = 0.25
"""A replay that misses the step by more is of another run than the one measured."""
IDLE = ("idle.host", "idle.sync", "idle.input", "idle.dependency", "idle.gaps", "idle.unknown")
PARTS = (
    *COMPUTE,
    *(f"{group}_comm.{how}" for group in GROUPS for how in HOW),
    *IDLE,
    "bubble.schedule",
    "bubble.imbalance",
    "optimizer",
    "copies",
    "outside_step",
    "other",
)
"""Parts of a step, which add up to it. Of one rank alone, transfer and waiting are one part: `dp_comm`."""


@dataclass(frozen=True, slots=True)
class Quality:
    """How far an input can be trusted; None where it has no such measure."""

    matched_frac: float | None = None
    """Of the collectives of several ranks, the share whose partners were found."""
    end_skew_s: float | None = None
    """Median difference of the ends of matched collectives on one clock: the test of a match."""
    clock_drift_frac: float | None = None
    """By how much faster than the first rank's the clock of this one goes; 0 where no drift shows."""
    unclassified_frac: float | None = None
    """Share of kernel time whose class is unknown."""
    profiler_slowdown_frac: float | None = None
    """Profiled over unprofiled step time, minus 1."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Input:
    """A file that was read."""

    path: str
    kind: str
    rank: int | None = None
    steps: tuple[int, ...] = ()
    """Numbers of the steps that were used."""
    quality: Quality = field(default_factory=Quality)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the step, predicted and measured."""

    part: str
    """One of `PARTS`, or the first word of one: `dp_comm` where transfer and waiting cannot be separated."""
    measured_s: float | None = None
    predicted_s: float | None = None
    gap_share_frac: float | None = None
    """Share of the gap between measured and predicted step that this part explains."""
    first_s: float | None = None
    """What it costs when it is substituted first, before all other parts."""
    last_s: float | None = None
    evidence: str = ""
    """What the trace shows of it, in a few words."""

    @property
    def difference_s(self) -> float | None:
        """Measured less predicted."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.measured_s - self.predicted_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "part predicted_s measured_s difference_s gap_share_frac first_s last_s evidence")


@dataclass(frozen=True, slots=True)
class Rank:
    """The step of one rank."""

    rank: int
    stage: int | None
    parts: Mapping[str, float]
    """Seconds by part; they add up to the step."""
    late_s: float | None = None
    """Seconds per step that others wait for it."""
    host_late_s: float | None = None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that others wait for."""

    rank: int
    kind: str
    """`stays` or `rotates`."""
    steps_frac: float
    """Share of the steps in which it was the last."""
    cost_s: float
    why: str = ""
    """What takes it longer than its peers: `host`, `kernels`, or `interrupted`, which is that most kernels are as fast
    as those of its peers and some stop for many times as long.
    """

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Collective:
    """Collectives of one kind and size, in one group."""

    group: str
    op: str
    size_B: float | None
    count: float
    """Per step."""
    busbw_Bps: float | None = None
    predicted_busbw_Bps: float | None = None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernels of one name."""

    kind: str
    """Their class, as `matmul`."""
    name: str
    count: float
    """Per step."""
    seconds: float
    flops_per_s: float | None = None
    """Of a product whose shapes were recorded."""
    shape: tuple[int, ...] | None = None
    """(m, n, k, number of products), where all its launches had the same."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"class": self.kind} | picked(self, "name count seconds flops_per_s shape")


@dataclass(frozen=True, slots=True)
class Held:
    """Device memory at its peak."""

    peak_B: float
    by_category_B: Mapping[str, float]
    predicted_peak_B: float | None = None
    predicted_by_category_B: Mapping[str, float] | None = None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Cause:
    """What would explain seconds of the gap, and what to change."""

    cause: str
    seconds: float | None
    """Of a step; None where only a number's definition is in question."""
    ceiling_mfu_frac: float | None = None
    """MFU if all of these seconds went: a ceiling, not a forecast."""
    confidence: str = "candidate"
    """`measured`, `replayed` or `candidate`."""
    change: str = ""
    kind: str = ""
    """Its name in `causes.toml`; empty for a deviation of a number."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast kernels, links and host are, relative to what the cluster's file says."""

    matmul_scale: float | None = None
    """Measured over predicted rate."""
    attention_scale: float | None = None
    links: Mapping[str, float] = field(default_factory=dict)
    """Bytes per second reached, by level."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """A step replayed with the measured times of one thing and ideal ones of all others, over the ideal step."""

    replayed_s: float
    """All times as measured."""
    ideal_s: float
    by_op: Mapping[str, float]
    by_stage: Mapping[int, float]
    by_replica: Mapping[int, float]

    @property
    def whole(self) -> float:
        """Of everything together."""
        return self.replayed_s / self.ideal_s if self.ideal_s else 1.0

    @property
    def worst_stage(self) -> int | None:
        """The stage that alone costs most."""
        return max(self.by_stage, key=lambda stage: self.by_stage[stage], default=None)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        by_stage = {str(stage): value for stage, value in self.by_stage.items()}
        return (
            picked(self, "replayed_s ideal_s whole worst_stage by_op")
            | {"by_stage": by_stage}
            | picked(self, "by_replica")
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """What traces, or a table of operations, show of a step without any prediction."""

    inputs: tuple[Input, ...]
    step_time_s: float
    """Median over steps; the parts add up to it."""
    spread_s: float | None
    """Between the slowest and the fastest of the steps used."""
    parts: tuple[Part, ...]
    ranks: tuple[Rank, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    collectives: tuple[Collective, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    not_known: tuple[str, ...] = ()
    slowdowns: Slowdowns | None = None
    """Of a table of operations."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A measured step and the predicted one."""

    replayed_s: float | None
    """The predicted program with measured durations, simulated."""
    parts: tuple[Part, ...]
    causes: tuple[Cause, ...]
    rates: Rates | None = None
    not_known: tuple[str, ...] = ()
    predicted_s: float | None = None
    measured_s: float | None = None
    as_predicted: bool = False
    """Whether the gap is inside the prediction's own interval and the measured run alone shows no cause."""
    refit: Refit | None = None
    """The cluster as the run shows it."""
    collectives: tuple[Collective, ...] = ()
    """Those measured, beside the rates predicted."""
    products_times: float | None = None
    """FLOPs of the recorded products over those predicted; None where shapes do not determine it."""
    layer_operations: tuple[LayerOperation, ...] = ()
    """What a layer's operations take beside what they are priced at, where kernels tell."""
    of_another_run: bool = False
    """Whether the replay misses the step, or the products those predicted, by so much that another run was measured."""

    @property
    def replay_off_frac(self) -> float | None:
        """By how much the replay misses the measured step."""
        return self.replayed_s / self.measured_s - 1.0 if self.replayed_s is not None and self.measured_s else None
