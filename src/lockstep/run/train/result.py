"""What a run of training gives back: loss against step, seconds and bytes, and how the trained weights do.

`Lateness`: what a rank that is made late costs the others, measured in one run against the steps without. Before every
second step the rank sleeps for the delay. A synchronous step takes what its slowest rank takes, so the steps of the
others are as much longer; where nobody waits for the slowest, they are not.

    predicted late step = step on time + delay
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import asdict, dataclass, field
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked, plain
from lockstep.run.machine import Load, Machine, with_load

if TYPE_CHECKING:
    from lockstep.run.train.method import Method
    from lockstep.run.train.task import Task
    from lockstep.simulate.failures.stragglers import LateRank

LEAST_STEPS = 4
"""One step to warm up, then at least one with and one without."""


WINDOW = 20
"""Steps of whose mini-batches the mean loss counts as reached."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Median seconds of a step, of the ranks other than the late one."""

    rank: int
    delay_s: float
    on_time_s: float
    late_s: float

    @classmethod
    def of(cls, late: LateRank, steps: Sequence[Sequence[Step]], first_step: int) -> Lateness:
        """From what every rank (outer) saw of every step (inner) after `first_step` steps."""
        others = [one for rank, one in enumerate(steps) if rank != late.rank]
        by_step_s = [median(step.time_s for step in ranks) for ranks in zip(*others, strict=True)]
        numbered = list(enumerate(by_step_s, first_step + 1))[1:]
        late_s, on_time_s = (
            median(time_s for number, time_s in numbered if is_late(number) == which) for which in (True, False)
        )
        return cls(late.rank, late.delay_s, on_time_s, late_s)

    @property
    def growth_s(self) -> float:
        """How much longer the others' steps are when the rank is late."""
        return self.late_s - self.on_time_s

    @property
    def predicted_s(self) -> float:
        """A late step of a method that waits for all ranks in every step."""
        return self.on_time_s + self.delay_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self) | {"growth_s": self.growth_s, "predicted_late_s": self.predicted_s}


def is_late(number: int) -> bool:
    """Whether the rank is late for step `number`, counted from 1."""
    return number % 2 == 0


def refuse_straggler(late: LateRank, ranks: int, steps: int) -> None:
    """Raises BadInput for a straggler that cannot be measured."""
    if late.factor != 1:
        raise BadInput("training is delayed by a time, e.g. 1:20ms")
    if not late.rank < ranks or ranks < 2:
        raise BadInput(f"rank {late.rank} is not one of 0 to {ranks - 1}, or nothing waits for it")
    if steps < LEAST_STEPS:
        raise BadInput(f"needs at least {LEAST_STEPS} steps, with and without it, got {steps}")


@dataclass(frozen=True, slots=True)
class Step:
    """One step on one rank."""

    loss: float | None
    time_s: float
    sent_B: int
    scalars: Mapping[str, float] = field(default_factory=dict)
    """What else the method says of it."""

    def to_dict(self) -> Json:
        """Every number by name, as a kept run's event."""
        return {**picked(self, "loss time_s sent_B"), **self.scalars}


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one rank saw."""

    steps: tuple[Step, ...]
    test_loss: float
    accuracy_frac: float
    weights: Array
    notes: Mapping[str, object]
    machine: Machine
    load: Load
    first_step: int = 0
    """Steps that were done before, in the run that it goes on from."""
    saves: Mapping[str, object] = field(default_factory=dict)
    """What its checkpoints took."""
    passed_over: tuple[str, ...] = ()
    """Checkpoints that could not be used, and why."""


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """A run that Ctrl-C ended. Lists have one entry per step that was done, from `first_step` on."""

    method: str
    task: Task
    ranks: int
    settings: Mapping[str, object]
    first_step: int
    steps: tuple[Step, ...]
    """As one rank that sees losses saw them: its share's loss, its seconds, its bytes."""

    @property
    def loss(self) -> tuple[float | None, ...]:
        """Training loss of the rank's share, in nats; None where the rank sees none."""
        return tuple(step.loss for step in self.steps)

    @property
    def done(self) -> int:
        """Steps done, those of runs before included."""
        return self.first_step + len(self.steps)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "method ranks"),
            **picked(self.task),
            **picked(self, "settings first_step"),
            "steps_done": self.done,
            "loss": plain(self.loss),
            "time_s": [step.time_s for step in self.steps],
            "sent_B": [step.sent_B for step in self.steps],
        }


@dataclass(frozen=True, slots=True, eq=False)
class TrainRun:
    """One run of a method. Lists have one entry per step, from `first_step` on."""

    method: str
    task: Task
    ranks: int
    settings: Mapping[str, Any]
    loss: tuple[float, ...]
    """Training loss, the mean of the workers' shares, in nats."""
    time_s: tuple[float, ...]
    """Of the slowest rank."""
    sent_B: tuple[float, ...]
    """By all ranks together."""
    test_loss: float
    accuracy_frac: float
    """Share of right answers on the test data: digits, or next characters."""
    weights: Array = field(repr=False)
    """Trained weights of rank 0, flat."""
    replicas_equal: bool
    """Whether all ranks ended with the same bits."""
    notes: Mapping[str, Any]
    machine: Machine
    """What it ran on, with the load of others."""
    assumptions: tuple[str, ...]
    first_step: int = 0
    """Steps done before, in the run that it went on from."""
    saves: Mapping[str, Any] = field(default_factory=dict)
    """Checkpoints: how many, bytes of all ranks together, seconds of the slowest rank."""
    passed_over: tuple[str, ...] = ()
    """Checkpoints that could not be used, and why."""
    failures: tuple[str, ...] = ()
    """Attempts that failed before this one, which went on from their checkpoints."""
    lateness: Lateness | None = None
    """What the rank that was made late cost the others; None when none was."""

    @classmethod
    def of(
        cls, method: Method, task: Task, settings: Any, outcomes: Sequence[Outcome], failures: tuple[str, ...] = (),
        straggler: LateRank | None = None,
    ) -> TrainRun:  # fmt: skip
        """The run from what every rank saw."""
        first = outcomes[0]
        machine = with_load(first.machine, [outcome.load for outcome in outcomes])
        steps = list(zip(*(outcome.steps for outcome in outcomes), strict=True))
        lateness, too_few = None, list[str]()
        if straggler is not None and len(steps) < LEAST_STEPS:
            too_few = [f"the late rank was not measured: {len(steps)} steps were left to do, {LEAST_STEPS} are needed"]
        elif straggler is not None:
            lateness = Lateness.of(straggler, [outcome.steps for outcome in outcomes], first.first_step)
        return cls(
            method=method.name,
            task=task,
            ranks=len(outcomes),
            settings=asdict(settings),
            loss=tuple(_mean([step.loss for step in ranks if step.loss is not None]) for ranks in steps),
            time_s=tuple(max(step.time_s for step in ranks) for ranks in steps),
            sent_B=tuple(float(sum(step.sent_B for step in ranks)) for ranks in steps),
            test_loss=first.test_loss,
            accuracy_frac=first.accuracy_frac,
            weights=first.weights,
            replicas_equal=all(outcome.weights.tobytes() == first.weights.tobytes() for outcome in outcomes),
            notes=first.notes,
            machine=machine,
            assumptions=(*method.assumptions, *machine.warnings(len(outcomes)), *too_few),
            first_step=first.first_step,
            saves=_together([outcome.saves for outcome in outcomes]),
            passed_over=first.passed_over,
            failures=failures,
            lateness=lateness,
        )

    @property
    def final_loss(self) -> float | None:
        """Training loss of the last step; None where every step was done before."""
        return self.loss[-1] if self.loss else None

    @property
    def step_time_s(self) -> float | None:
        """Median seconds of a step, the first left out where there are others: it warms up. None without a step."""
        return median(self.time_s[1:] or self.time_s) if self.time_s else None

    @property
    def step_sent_B(self) -> float | None:
        """Mean bytes that a rank sends in a step; None without a step."""
        return sum(self.sent_B) / len(self.sent_B) / self.ranks if self.sent_B else None

    def reached(self, loss: float) -> tuple[int, float] | None:
        """(steps, seconds) until the mean training loss of WINDOW steps is that low; None where it never is."""
        for last in range(WINDOW, len(self.loss) + 1):
            if sum(self.loss[last - WINDOW : last]) / WINDOW <= loss:
                return last, sum(self.time_s[:last])
        return None

    def summary(self) -> Json:
        """Plain JSON form without the steps, as a kept run's answer."""
        return {name: value for name, value in self.to_dict().items() if name not in ("loss", "time_s", "sent_B")}

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "method ranks"),
            **asdict(self.task),
            **picked(self, "settings final_loss test_loss accuracy_frac step_time_s"),
            "bytes_per_step_B": self.step_sent_B,
            "parameters": len(self.weights),
            **picked(self, "replicas_equal loss time_s sent_B notes first_step"),
            "checkpoints": dict(self.saves) or None,
            **picked(self, "passed_over failures lateness machine assumptions"),
        }


def _together(saves: Sequence[Mapping[str, Any]]) -> Json:
    """The checkpoints of all ranks: bytes add up, the slowest rank's seconds count."""
    wrote = [one for one in saves if one.get("saves")]
    if not wrote:
        return dict(saves[0])
    slowest = {name: max(one[name] for one in wrote) for name in ("saves", "write_s", "blocking_s")}
    return {**slowest, "size_B": sum(one["size_B"] for one in wrote)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
