"""`Run`: what a log has said of a run so far, as a state machine that takes steps and starts in their order.

    first-time steps     those with a number above every earlier one; the others are done again after a restart
    goodput              seconds of first-time steps / seconds of the wall clock since the first stamp of the log

A run restarts where the number of its step goes back, or where its program says anew how many devices it runs on. A
number that is printed again without either comes from another rank, or from an evaluation, and counts once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.records import dataclass, field
from lockstep.base.types.plain import Json, picked
from lockstep.explain.read.logs.log import PER_DEVICE_TOKENS, SAMPLES
from lockstep.explain.read.logs.steps import Printed, Started
from lockstep.explain.stated import MFU, RATE, TIME_S, TOKENS
from lockstep.explain.watch.held import WARM_UP, Held, Left
from lockstep.explain.watch.series import Series

MOST_RESTARTS, MOST_RANKS = 1000, 100_000
"""That are kept; more restarts are counted, more ranks are not looked at."""
STATED = (TOKENS, PER_DEVICE_TOKENS, RATE, MFU)


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a run besides its log: from the prediction, or from options."""

    low_s: float | None = None
    high_s: float | None = None
    devices: int | None = None
    batch: float | None = None
    tokens: float | None = None
    """Of a step."""
    steps: int | None = None
    """Of the run."""
    total_tokens: float | None = None
    """Of the run."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of a run."""

    step: int
    """The first that was printed after it."""
    from_step: int
    """The last that had been printed before it."""
    lost_steps: int
    """Those that are done again."""
    line: int
    stopped_s: float | None
    """From the last step before it to the first one after it, by the wall clock; None without stamps."""
    devices: int | None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a run: `step`, `restart`, `left`, `returned`, `devices`."""

    kind: str
    step: int
    line: int
    about: Json

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"event": self.kind, "step": self.step, "line": self.line, **self.about}


@dataclass(slots=True)
class Run:
    """The state; `settings` are those of the reader, which may come to know more."""

    told: Told = field(default_factory=Told)
    settings: dict[str, float] = field(default_factory=dict)
    printed: int = 0
    first: Printed | None = None
    newest: Printed | None = None
    highest: int = -1
    last: int | None = None
    first_time: int = 0
    again: int = 0
    first_time_s: float = 0.0
    again_s: float = 0.0
    first_line_s: float = 0.0
    """Seconds that the first line stands for, which lie before its stamp."""
    untimed: int = 0
    basis: str = ""
    """What the seconds of a step were taken from, last."""
    repeated: int = 0
    restarts: list[Restart] = field(default_factory=list)
    restarted: int = 0
    devices: int | None = None
    most_devices: int | None = None
    seconds: Series = field(default_factory=Series)
    stated: dict[str, Series] = field(default_factory=dict)
    held: dict[int | None, Held] = field(default_factory=dict)
    first_left: Left | None = None
    lead: int | None = None
    """The rank whose steps are counted: the first that printed one."""
    _seen: dict[int | None, Printed] = field(default_factory=dict)
    _since_start: dict[int | None, int] = field(default_factory=dict)
    _stride: int = 1
    _banner: bool = False

    def hear(self, said: Printed | Started) -> Iterator[Event]:
        """Takes what a line said. Calls must be iterated over."""
        if isinstance(said, Started):
            yield from self._start(said)
        elif self.first is None or said.rank == self.lead:
            yield from self._step(said)
        elif len(self._seen) < MOST_RANKS or said.rank in self._seen:
            yield from self._hold(said, self._seconds(said, self._seen.get(said.rank))[0])
            self._seen[said.rank] = said

    def begin(self) -> None:
        """The next step is one of another file, which a program that was started again has written."""
        self._banner = self.newest is not None

    @property
    def comparable(self) -> bool:
        """Whether the run has the devices that its step was predicted for, as far as the log says."""
        return self.devices is None or self.told.devices is None or self.devices == self.told.devices

    @property
    def lost_devices(self) -> bool:
        """Whether it goes on with fewer devices than before, or than were predicted for."""
        before = max(filter(None, (self.most_devices, self.told.devices)), default=0)
        return self.devices is not None and self.devices < before

    def left(self) -> Left | None:
        """Where the earliest rank that is outside the interval left it."""
        found = [one.left for one in self.held.values() if one.left is not None]
        return min(found, key=lambda one: one.line) if found else None

    def inside(self) -> bool | None:
        """Whether no rank is outside the interval; None without a prediction for these devices, or too few steps."""
        if not self.comparable or not any(one.known for one in self.held.values()):
            return None
        return self.left() is None

    def _start(self, said: Started) -> Iterator[Event]:
        self._banner = self.newest is not None
        if self.devices == said.devices:
            return
        before, self.devices = self.devices, said.devices
        self.most_devices = max(said.devices, self.most_devices or 0)
        if before is not None:
            self.seconds, self.stated = Series(), {}
            self.held.clear()
        if before is not None or self.lost_devices:
            at = self.newest.step if self.newest else 0
            yield Event("devices", at, said.line, {"devices": said.devices, "devices_before": before})

    def _step(self, one: Printed) -> Iterator[Event]:
        before = self.newest
        if before is None:
            self.first, self.lead = one, one.rank
        elif one.step == before.step and not self._banner:
            self.repeated += 1
            return
        elif one.step < before.step or self._banner:
            yield self._restart(one, before)
            before = None
        covered = self._covered(one, before)
        step_s, basis = self._seconds(one, before)
        self._count(one, covered, step_s)
        self.basis = basis or self.basis
        self.newest, self._banner, self.printed = one, False, self.printed + 1
        self.last = self._last(one) or self.last
        about = {"step_time_s": step_s, "rank": one.rank, **self._rates(one)}
        yield Event("step", one.step, one.line, about)
        yield from self._hold(one, step_s, note=True)

    def _last(self, one: Printed) -> int | None:
        """The number of the last step: as it was asked for, else as the log has it."""
        tokens = self.tokens(one)
        if self.told.total_tokens and tokens:
            return math.ceil(self.told.total_tokens / tokens)
        return self.told.steps or one.last

    def tokens(self, one: Printed) -> float | None:
        """Tokens of a step; None where neither log nor prediction says it."""
        batch, sequence = one.values.get("batch") or self.settings.get("batch"), self.settings.get("seq")
        return self.told.tokens or (batch * sequence if batch and sequence else None)

    def _restart(self, one: Printed, before: Printed) -> Event:
        """The log goes back, or its program started again."""
        resumed = one.step - (self._stride if one.step % self._stride == 0 else 1)
        stopped_s = None
        if one.stamp_s is not None and before.stamp_s is not None:
            stopped_s = one.stamp_s - before.stamp_s
        lost = max(0, self.highest - max(resumed, 0))
        found = Restart(one.step, self.highest, lost, one.line, stopped_s, self.devices)
        self.restarted += 1
        if len(self.restarts) < MOST_RESTARTS:
            self.restarts.append(found)
        self._since_start.clear()
        self._seen.clear()
        return Event("restart", one.step, one.line, picked(found, without="step line"))

    def _covered(self, one: Printed, before: Printed | None) -> int:
        """Steps that a line stands for: those since the line before; of a first line what the stride says."""
        if before is not None:
            self._correct_first(one.step - before.step, before)
            self._stride = one.step - before.step
            return self._stride
        return self._stride if one.step and one.step % self._stride == 0 else 1

    def _correct_first(self, stride: int, before: Printed) -> None:
        """The first line was counted as one step: of a program that prints every tenth, its tenth stands for ten."""
        if before is self.first and self.printed == 1 and before.step and before.step % stride == 0 and stride > 1:
            self.first_time += stride - 1
            self.first_time_s *= stride
            self.first_line_s *= stride

    def _count(self, one: Printed, covered: int, step_s: float | None) -> None:
        new = min(covered, max(0, one.step - self.highest)) if self.highest >= 0 else covered
        self.highest = max(self.highest, one.step)
        self.first_time += new
        self.again += covered - new
        self.untimed += covered if step_s is None else 0
        self.first_time_s += new * (step_s or 0.0)
        self.first_line_s = self.first_time_s if not self.printed else self.first_line_s
        self.again_s += (covered - new) * (step_s or 0.0)

    def _hold(self, one: Printed, step_s: float | None, note: bool = False) -> Iterator[Event]:
        """Holds a step after warming up against the interval; with `note` it also joins the statistics."""
        since = self._since_start[one.rank] = self._since_start.get(one.rank, 0) + 1
        if step_s is None or since <= WARM_UP:
            return
        if note:
            self.seconds.add(step_s, one.step)
            for name, value in self._rates(one).items():
                self.stated.setdefault(name, Series()).add(value)
        if self.told.low_s is None or self.told.high_s is None or not self.comparable:
            return
        held = self.held.setdefault(one.rank, Held(self.told.low_s, self.told.high_s))
        if (change := held.hear(step_s, one.step, one.rank, one.line)) == "left" and held.left is not None:
            self.first_left = self.first_left or held.left
            yield Event("left", held.left.step, held.left.line, picked(held.left, without="step line"))
        elif change:
            yield Event(change, one.step, one.line, {"rank": one.rank, "step_time_s": step_s})

    def _rates(self, one: Printed) -> dict[str, float]:
        return {name: one.values[name] for name in STATED if name in one.values}

    def _seconds(self, one: Printed, before: Printed | None) -> tuple[float | None, str]:
        """Seconds of a step, and what says them: its time as printed, else a rate, else the wall clock."""
        apart = one.step - before.step if before is not None else 0
        if one.elapsed_s is not None:
            if before is None or before.elapsed_s is None or apart <= 0:
                return None, ""
            return (one.elapsed_s - before.elapsed_s) / apart, "the program's clock of training"
        values, devices = one.values, self.devices or self.told.devices
        if values.get(TIME_S):
            return values[TIME_S], "step times as printed"
        batch = values.get("batch") or self.settings.get("batch") or self.told.batch
        tokens = self.tokens(one)
        for amount, rate, said in (
            (batch, values.get(SAMPLES), "the batch over samples per second"),
            (tokens, values.get(TOKENS), "tokens of a step over tokens per second"),
            (tokens, (devices or 0) * values.get(PER_DEVICE_TOKENS, 0.0), "tokens of a step over tokens per second"),
            (1.0, values.get("batches_per_s") or values.get("steps_per_s"), "steps per second as printed"),
        ):
            if amount and rate:
                return amount / rate, said
        if apart > 0 and before is not None and one.stamp_s is not None and before.stamp_s is not None:
            return (one.stamp_s - before.stamp_s) / apart, "stamps of the wall clock"
        return None, ""
