"""`Schedule`: one pipeline schedule as a record of functions, and `PipelineCost`, its price."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.registry import Registry
from lockstep.base.types.arrays import Number, Truth
from lockstep.base.types.plain import Json
from lockstep.simulate.parallel.pipeline.times import Times

# What one device does, in order: (pass, micro-batch, chunk). Passes: F forward, B whole backward, I gradients of the
# inputs, W gradients of the weights (I and W together are B).
Pass = tuple[str, int, int]
Order = list[list[Pass]]
# Per device: places in its order where a forward pass and the backward pass behind it run as one cell (F&B).
Cells = list[frozenset[int]]


class Placement(Enum):
    """Which device holds chunk c of device s, along the way of one micro-batch through p devices with v chunks each."""

    LOOPED = "looped"  # chunk c of device s is virtual stage c p + s
    VEE = "vee"  # chunk 0 goes down, chunk 1 comes back up: virtual stages s and 2p - 1 - s
    BOTH_WAYS = "both ways"  # two copies of the model: chunk 0 is stage s, chunk 1 is stage p - 1 - s


@dataclass(frozen=True, slots=True)
class PipelineCost:
    """Price of one step of a pipeline, arrays or scalars.

    makespan_s   first start to last end over all devices.
    stage_s      longest time of one device, from its own first start to its own last end: the step time when devices
                 need not wait for one another between steps (Qi et al. 2024 call it cost). Equal to the makespan
                 unless the schedule is a parallelogram (zb-h2, zb-v).
    ideal_s      mean computing time of the devices.
    """

    makespan_s: Number
    stage_s: Number
    ideal_s: Number

    @property
    def bubble_s(self) -> Number:
        """Mean seconds a device does not compute within the makespan."""
        return self.makespan_s - self.ideal_s

    @property
    def bubble_frac(self) -> Number:
        """Share of the makespan in which a device does not compute."""
        return 1.0 - self.utilization_frac

    @property
    def utilization_frac(self) -> Number:
        """Share of the makespan in which a device computes; 1 when nothing takes any time."""
        makespan_s = np.asarray(self.makespan_s, dtype=float)
        share = np.divide(self.ideal_s, makespan_s, out=np.ones_like(makespan_s), where=makespan_s > 0)
        return share if share.ndim else float(share)

    @property
    def stage_bubble_frac(self) -> Number:
        """Bubble rate of Qi et al. 2024: (cost - m (F + B + W)) / cost, with cost = `stage_s`."""
        stage_s = np.asarray(self.stage_s, dtype=float)
        share = np.divide(self.ideal_s, stage_s, out=np.ones_like(stage_s), where=stage_s > 0)
        return 1.0 - share if share.ndim else 1.0 - float(share)


def _none(stages: Number, microbatches: Number, chunks: Number, stage: Number) -> Number:
    return 0 * (stages + microbatches + stage)


def _always(stages: Number, microbatches: Number, chunks: Number) -> Truth:
    return np.broadcast_to(True, np.broadcast_shapes(np.shape(stages), np.shape(microbatches), np.shape(chunks)))


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a closed form equals the simulation of its program, and how far it is off elsewhere.

    Equal stages are meant, unless `ends` says which stages may be heavier. The conformance tests hold a schedule to it.
    """

    when: Callable[[int, int, float, float, float], bool] = lambda p, m, f, i, w: True
    """Of p, m and the seconds of forward passes, gradients of inputs and of weights."""
    ends: tuple[str, ...] = ()
    """Stages that may be heavier than the others: "first", "last"."""
    held: bool = True
    """Whether messages count that hold up both devices."""
    overlapped: bool = False
    """Whether messages count that do not, each shorter than a pass."""
    error_frac: tuple[float, float] = (0.0, 0.0)
    """Lowest and highest error elsewhere: passes within a factor of two, ends a third heavier, messages up to 5 %."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule: p stages (devices), m micro-batches, v chunks per device, s device. All but `order` broadcast.

    makespan     (p, m, v, times) -> s
    stage        (p, m, v, times) -> s, or None when it equals the makespan
    peak_live    (p, m, v, s) -> most micro-batches whose activations device s holds at once, in units of one
                 micro-batch through all layers of the device; held from F to the end of B (of W where B is split)
    order        (p, m, v) -> what each device does
    tuned        (p, m, times) -> the same for given times, where the schedule looks at them; `order` is then that of
                 passes that all take equally long
    allowed      (p, m, v) -> bool; `rule` says it in words
    cells        (p, m, v) -> the cells of each device, or None for a schedule without
    num_cells    (p, m, v, s) -> how many cells device s runs, in units of one micro-batch through all layers of it
    num_chunks   fixed number of chunks per device, or None when the user chooses
    """

    name: str
    source: str
    formula: str
    exact: str
    makespan: Callable[[Number, Number, Number, Times], Number]
    peak_live: Callable[[Number, Number, Number, Number], Number]
    order: Callable[[int, int, int], Order]
    domain: Domain
    papers: tuple[str, ...] = ()
    """Keys of `decide/planner/citations.toml`; without any, `source` is cited."""
    stage: Callable[[Number, Number, Number, Times], Number] | None = None
    cells: Callable[[int, int, int], Cells] | None = None
    num_cells: Callable[[Number, Number, Number, Number], Number] = _none
    tuned: Callable[[int, int, Times], Order] | None = None
    allowed: Callable[[Number, Number, Number], Truth] = _always
    rule: str = "any number of stages and micro-batches"
    num_chunks: int | None = 1
    placement: Placement = Placement.LOOPED
    copies: int = 1

    def price(self, stages: Number, microbatches: Number, *, chunks: Number = 1, **times: Number) -> PipelineCost:
        """Price of a step; `times` are the fields of `Times`."""
        given: Json = dict(times)
        return self.cost(stages, microbatches, chunks, Times(**given))

    def cost(self, stages: Number, microbatches: Number, chunks: Number, times: Times) -> PipelineCost:
        """Price of a step, with the times as one object."""
        makespan_s = self.makespan(stages, microbatches, chunks, times)
        stage_s = self.stage(stages, microbatches, chunks, times) if self.stage else makespan_s
        return PipelineCost(makespan_s, stage_s, times.ideal_s(stages, microbatches))

    def order_for(self, stages: int, microbatches: int, chunks: int, times: Times) -> Order:
        """What each device does where passes take `times`."""
        return self.tuned(stages, microbatches, times) if self.tuned else self.order(stages, microbatches, chunks)

    def valid(self, stages: Number, microbatches: Number, chunks: Number = 1) -> Truth:
        """Whether the schedule exists for these numbers; see `rule`."""
        positive: Truth = np.greater_equal(stages, 1) & np.greater_equal(microbatches, 1) & np.greater_equal(chunks, 1)
        fits: Truth = True if self.num_chunks is None else np.equal(chunks, self.num_chunks)
        return positive & fits & self.allowed(stages, microbatches, chunks)


REGISTRY = Registry("pipeline schedule", "lockstep.schedules", Schedule)
register = REGISTRY.register
