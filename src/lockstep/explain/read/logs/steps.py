"""Steps of a log one after another, as it grows: what a program printed at which step, when, and on which rank.

    for said in reader.feed(number, line): ...      # Printed or Started
    for said in reader.end(): ...                   # what the last lines left open

The patterns are those by which whole logs are read (`log.py`); nothing but the step that is being printed is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.explain.read.logs.log import CONFIGURATION_LINES, Program, compiled, number_of, quantities
from lockstep.explain.read.logs.stamps import Clock

RANK = re.compile(
    r"\s*(?:\[(?:default|rank)?\s?(\d{1,6})\]:|\[\d+,(\d{1,6})\]<std\w+>:?|(\d{1,6}): |\[Rank (\d{1,6})\b[^\]]*\])\s*"
)
"""What torchrun, mpirun, srun and MindSpeed put before a line that a rank prints."""
WORLD = re.compile(
    r"(?<![\w.])(?:global_|using )?world[ _]size\b[\s.:='\"]*(\d{1,7})\b|\bglobal_world_sizes?=\[(\d{1,7})"
    r"|\bNum_devices: (\d{1,7})|\bMEMBER: \d+/(\d{1,7})|\bStarting with (\d{1,7}) processes",
    re.IGNORECASE,
)
"""Devices of a job as programs print them when they start: Megatron-LM, DeepSpeed, torchrun; MaxText; Lightning."""
HINTS = ("orld", "ORLD", "Num_devices", "MEMBER", "Starting with")
"""One of these is in every line that WORLD finds; looking for them first takes a tenth of the time."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A step as it was printed."""

    step: int
    last: int | None
    """Number of the run's last step."""
    values: Mapping[str, float]
    """By quantity, in SI units."""
    stamp_s: float | None
    """Seconds of the wall clock; only differences mean something."""
    rank: int | None
    line: int
    elapsed_s: float | None = None
    """Seconds of training so far, where the program counts them."""

    def of(self, rank: int) -> Printed:
        """The same of a rank."""
        return replace(self, rank=rank)


@dataclass(frozen=True, slots=True)
class Started:
    """A program that says how many devices it runs on, which it does when it starts."""

    devices: int
    stamp_s: float | None
    line: int


class StepReader:
    """Reads the lines of one program's log in their order; stamps are read by `clock`."""

    def __init__(self, program: Program, clock: Clock) -> None:
        self.program, self.clock = program, clock
        self.settings: dict[str, float] = {}
        """Numbers of the configuration that the log prints."""
        self.unread = 0
        """Lines of steps whose numbers could not be read."""
        self.first_unread = ""
        self._open: Printed | None = None
        self._patterns = compiled(program.patterns)
        self._settings = {name: re.compile(pattern) for name, pattern in program.settings.items()}
        self._step = re.compile(program.step)

    def feed(self, number: int, line: str) -> Iterator[Printed | Started]:
        """What a line says."""
        stamp_s = self.clock.read(line)
        prefix = RANK.match(line)
        text = line[prefix.end() :] if prefix else line
        if any(hint in text for hint in HINTS) and (found := WORLD.search(text)):
            yield Started(int(next(filter(None, found.groups()))), stamp_s, number)
        if len(self.settings) < len(self._settings) and number <= CONFIGURATION_LINES:
            self._configure(text)
        if found := self._step.search(text):
            yield from self.end()
            rank = next((int(one) for one in prefix.groups() if one), None) if prefix else None
            self._begin(found, text, stamp_s, rank, number)
            if not self.program.block:
                yield from self.end()
        elif self._open is not None:
            self._continue(text, number)

    def end(self) -> Iterator[Printed]:
        """The step whose lines were still awaited."""
        done, self._open = self._open, None
        if done is not None:
            yield done

    def _configure(self, text: str) -> None:
        for name, pattern in self._settings.items():
            if name not in self.settings and (found := pattern.search(text)):
                try:
                    self.settings[name] = number_of(found, name)
                except BadInput as error:
                    self._miss(str(error))

    def _begin(self, found: re.Match[str], text: str, stamp_s: float | None, rank: int | None, number: int) -> None:
        groups = found.groupdict()
        step, last = int(groups["step"][:18]), groups.get("last")
        elapsed = groups.get("elapsed_ms")
        if self.program.step_counts == "samples" and self.settings.get("batch"):
            step = round(step / self.settings["batch"])
        elapsed_s = None if elapsed is None else int(elapsed[:18]) / 1e3
        whole = None if last is None else int(last[:18])
        self._open = Printed(step, whole, {}, stamp_s, rank, number, elapsed_s)
        self._continue(text, number)

    def _continue(self, text: str, number: int) -> None:
        """Adds the quantities of one more line to the open step; the first value of each counts."""
        if self._open is None:
            return
        values = dict(self._open.values)
        try:
            for name, value in quantities(text, self._patterns, f"line {number}"):
                values.setdefault(name.partition(" ")[0], value)
        except BadInput as error:
            self._miss(str(error))
        one = self._open
        if len(values) > len(one.values):
            self._open = replace(one, values=values)

    def _miss(self, why: str) -> None:
        self.unread += 1
        self.first_unread = self.first_unread or why
