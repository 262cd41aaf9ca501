"""`RlStep`: a whole step of reinforcement learning: generate, train, send the weights; together or apart.

    together (colocated)         T = G + U + W + H            all devices generate, then all train
    apart, in step               T = G + U + W                some generate while the others wait, and the reverse
    apart, k >= 1 steps stale    T = max(G_k + W, U)          both work at once, on answers of weights k steps old

G generation (`rollout.py`), G_k where engines begin the next k steps' answers while the longest of one still run
(`ahead.py`); U all updates with the forward passes that they need, through the model that generated and
the reference, as `estimate --train grpo` prices them; W weights to the engines; H states to host memory before
generation and back after it. Rewards, advantages and what software does between phases are not in it.

    W    every device gets all tensors one after another and keeps what its engine needs: the longer of an all-gather
         of the whole model over all devices, so that each node receives it once, through all of its ports, and of what
         engines take to load so many bytes
    H    2 (parameters, gradients and states of a rank) / rate of the host link; none where no host is known

Memory of a device, phase by phase: while it generates, the engine's share; while it trains, the trainer's, of a usual
micro-batch or of the longest sequence, which is alone in its own (`longest.py`), whichever is more; while
weights are sent, the trainer's parameters and the engine's weights. Together, states stay on the device through all
phases where no host is known.
"""

from __future__ import annotations

import math

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.ahead import ahead_s
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.generation_interval import interval_of
from lockstep.decide.planner.interval import Interval
from lockstep.decide.planner.longest import longest_B
from lockstep.decide.planner.rollout import Rollout
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import parameters
from lockstep.simulate.parallel.group import collective_s

SENT_B = 2.0
"""Bytes per parameter: weights are sent in half precision, and cast where engines keep a narrower format."""

UNCOUNTED = 0.82
"""95th percentile of ln(measured / predicted) of 50 steps of NeMo-RL (`check/validation/rl_steps.py`), in sample: they
took 1.1 to 2.3 times as long as what is priced here, 1.5 times in the median."""
LOAD_Bps = 65e9
"""Bytes of a model that engines load in a second: 59 to 75 GB/s in updates of GLM-4.5-Air, Qwen3-235B, DeepSeek-V3.1
and Kimi-K2 (212 GB to 1 TB) on 8 to 256 H800 and H20 by broadcasts, whatever the number of nodes, where links alone
would take a sixth of the time on one node (MoonshotAI/checkpoint-engine@59a3c4f, README)."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a step: how long, and what a device holds meanwhile."""

    name: str
    time_s: float
    device_B: float
    capacity_B: float

    @property
    def fits(self) -> bool:
        """Whether the device holds it."""
        return self.device_B <= self.capacity_B

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {**picked(self), "fits": self.fits}


@dataclass(frozen=True, slots=True)
class RlStep:
    """A whole step."""

    trainer: Estimate
    updates: int
    """Of a step: mini-batches of answers."""
    colocated: bool
    staleness: int
    """Steps that the weights of answers may be older than those that learn from them."""
    generate_s: float
    generate_interval: Interval
    train_s: float
    weights_s: float
    offload_s: float
    samples: int
    tokens: int
    phases: tuple[Phase, ...]
    pads: bool = False
    """Whether micro-batches are as long as their longest sequence."""

    @property
    def step_time_s(self) -> float:
        """Seconds of the step in the long run."""
        return self._together(self.generate_s, self.train_s)

    def _together(self, generate_s: float, train_s: float) -> float:
        if self.staleness and not self.colocated:
            return max(generate_s + self.weights_s, train_s)
        return generate_s + train_s + self.weights_s + self.offload_s

    @property
    def interval(self) -> Interval:
        """Where the step's time is expected: from both parts at the lower ends of their own intervals, to both at the
        higher ones, or to what software between phases adds if that is more.
        """
        of, one = self.generate_interval, self.trainer.interval
        ends = ((of.low, one.low), (of.high, one.high))
        low, high = (self._together(generate_s, self.updates * update_s) for generate_s, update_s in ends)
        return Interval(low, max(high, self.step_time_s * math.exp(UNCOUNTED)), of.level_frac)

    @property
    def bound_by(self) -> str:
        """The longest part."""
        parts = {"generation": self.generate_s, "training": self.train_s, "weights": self.weights_s}
        parts["offloading"] = self.offload_s
        return max(parts, key=lambda part: parts[part])

    @property
    def fits(self) -> bool:
        """Whether every phase fits."""
        return all(phase.fits for phase in self.phases)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        own = "step_time_s interval generate_s train_s weights_s offload_s updates colocated staleness bound_by fits "
        own += "phases"
        per_s = {"samples_per_s": self.samples / self.step_time_s, "tokens_per_s": self.tokens / self.step_time_s}
        return {**picked(self, own), **per_s, "trainer_devices": self.trainer.cluster.num_devices}


def rl_step(generation: Rollout, trainer: Estimate, whole: Cluster, staleness: int = 0, pads: bool = False) -> RlStep:
    """The step of a rollout and its trainer; they are colocated where both have all devices of the `whole` cluster.

    The trainer's batch is that of an update; `pads`: whether its micro-batches are as long as their longest
    sequence. Raises BadInput where the answers are not whole batches, and where a colocated step is to be stale.
    """
    updates, samples = _updates(generation, trainer), generation.answers
    colocated = generation.devices == trainer.cluster.num_devices == whole.num_devices
    if colocated and staleness:
        raise BadInput("devices that generate and train in turn work in step; give --split too", "--staleness")
    generate_s = ahead_s(generation, staleness) if staleness else generation.time_s
    tokens = generation.tokens + samples * generation.prompt_tokens
    return RlStep(
        trainer=trainer,
        updates=updates,
        colocated=colocated,
        staleness=staleness,
        generate_s=generate_s,
        generate_interval=interval_of(generate_s),
        train_s=updates_s(generation, trainer),
        weights_s=_weights_s(trainer, whole),
        offload_s=_offload_s(trainer) if colocated else 0.0,
        samples=samples,
        tokens=tokens,
        phases=_phases(generation, trainer, (generate_s, updates), colocated, whole, pads),
        pads=pads,
    )


def _updates(generation: Rollout, trainer: Estimate) -> int:
    """Updates of a step. Raises BadInput where answers are not whole ones."""
    batch = trainer.job.step_units // trainer.job.sequence_units
    if generation.answers % batch:
        told = f"{batch} sequences of an update do not divide the {generation.answers:,} answers"
        raise BadInput(told, "--train-batch")
    return generation.answers // batch


def updates_s(generation: Rollout, trainer: Estimate) -> float:
    """Seconds of all updates of a step. Raises BadInput."""
    return _updates(generation, trainer) * trainer.step_time_s


def _weights_s(trainer: Estimate, whole: Cluster) -> float:
    """Seconds until all engines have the trainer's weights."""
    model_B = parameters(trainer.job.model).total * SENT_B
    loaded_s = model_B / LOAD_Bps
    if whole.num_devices == 1:
        return loaded_s
    return max(loaded_s, float(collective_s("all-gather", whole.levels_of(whole.num_devices), model_B)))


def _states_B(trainer: Estimate) -> float:
    """Parameters, gradients and states of a rank of the trainer."""
    held = trainer.memory
    return float(held.parameters_B + held.gradients_B + held.optimizer_B)


def _offload_s(trainer: Estimate) -> float:
    """Seconds for the trainer's states to go to host memory and back."""
    cluster = trainer.cluster
    return 0.0 if cluster.host is None else 2.0 * _states_B(trainer) / cluster.host_bandwidth_Bps


def _phases(
    generation: Rollout, trainer: Estimate, taken: tuple[float, int], colocated: bool, whole: Cluster, pads: bool
) -> tuple[Phase, ...]:
    """What a device holds in each phase; of devices apart, the one that the phase is about. `taken`: seconds of
    generation, and updates.
    """
    memory_B, pool = whole.device.memory_B, generation.pool
    stays_B = _states_B(trainer) if colocated and whole.host is None else 0.0
    engine_B = pool.weights_B + pool.working_B + max(0.0, pool.pool_B)
    sent_B = float(trainer.memory.parameters_B) + pool.weights_B if colocated else pool.weights_B
    long_B = float(longest_B(trainer.job, trainer.cluster, trainer.layout.grid(), generation.most_tokens, pads))
    train_B, capacity_B = max(float(trainer.memory.total_B), long_B), float(trainer.memory.capacity_B)
    return (
        Phase("generate", taken[0], engine_B + stays_B, memory_B),
        Phase("train", taken[1] * trainer.step_time_s, train_B, capacity_B),
        Phase("send weights", _weights_s(trainer, whole), sent_B, memory_B),
    )


def with_step(generation: Rollout, step: RlStep) -> Rollout:
    """The rollout that knows the step that it is part of."""
    left_out = generation.assumptions[:-1]
    more = (
        "rewards, advantages and what software does between phases are not counted",
        "every device gets all tensors one after another when weights are sent",
        f"updates take the time of sequences of the mean length, {generation.sequence_tokens:,} tokens, without "
        f"padding; memory is also that of the longest, {generation.most_tokens:,}, "
        + ("which others in its micro-batch are padded to" if step.pads else "alone in its micro-batch"),
    )
    return replace(generation, step=step, assumptions=(*left_out, *more))
