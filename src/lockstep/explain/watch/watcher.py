"""`Watcher`: lines of a job's files into one `Run`, whatever program prints them.

Programs are known by their signs, line by line, as standard input has no beginning to look at twice; the lines before
the sign are kept up to a limit, as they have the configuration. A progress bar counts only as long as no program is
known, and of several bars that with the most time, as the training's runs longer than those of loading and evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from lockstep.base.records import dataclass, field
from lockstep.explain.read import kinds
from lockstep.explain.read.logs.log import PROGRAMS, Program, text_of
from lockstep.explain.read.logs.progress_bar import STEPS
from lockstep.explain.read.logs.stamps import Clock
from lockstep.explain.read.logs.steps import Printed, Started, StepReader
from lockstep.explain.watch.run import Event, Run, Told
from lockstep.explain.watch.tail import Lines

KEPT_B = 4 << 20
"""Of the lines before a program is known."""
MOST_BARS = 64


@cache
def signs() -> tuple[tuple[re.Pattern[str], Program], ...]:
    """Programs whose steps have numbers, those with the strictest sign first."""
    kinds()
    found = sorted((one for one in PROGRAMS if one.step), key=lambda one: (one.order, one.name))
    return tuple((re.compile(one.sign, re.MULTILINE), one) for one in found)


@dataclass(slots=True)
class File:
    """What is known of one file."""

    rank: int | None
    clock: Clock = field(default_factory=Clock)
    lines: int = 0
    reader: StepReader | None = None
    bars: StepReader | None = None
    before: list[tuple[int, str]] = field(default_factory=list)
    before_B: int = 0


@dataclass(slots=True)
class Watcher:
    """Runs of all files; `run` is the one that is watched."""

    told: Told = field(default_factory=Told)
    files: dict[str, File] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    _run: Run | None = None
    _bars: dict[int, Run] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        """The run of the program, else that of the bar that has run longest."""
        if self._run is not None:
            return self._run
        bars = self._bars.values()
        return max(bars, key=lambda one: one.first_time_s + one.again_s, default=Run(self.told))

    @property
    def lines(self) -> int:
        """Lines of all files."""
        return sum(one.lines for one in self.files.values())

    @property
    def begins_with_step(self) -> bool:
        """Whether no line before the first step has a stamp."""
        first = self.run.first
        stamps = [one.clock.first_s for one in self.files.values() if one.clock.first_s is not None]
        return first is not None and first.stamp_s is not None and first.stamp_s <= min(stamps)

    @property
    def wall_s(self) -> float | None:
        """From the first to the last stamp of the files of the rank that leads; None without stamps."""
        clocks = [one.clock for one in self.files.values() if one.rank in (None, self.run.lead)]
        first = [one.first_s for one in clocks if one.first_s is not None]
        last = [one.last_s for one in clocks if one.last_s is not None]
        return max(last) - min(first) if first and last and max(last) > min(first) else None

    def feed(self, source: Lines, raw: bytes) -> Iterator[Event]:
        """Takes a line of a source."""
        file = self.files.get(source.name)
        if file is None:
            file = self.files[source.name] = File(source.rank)
            if self._run is not None and source.rank in (None, self._run.lead):
                self._run.begin()
        text = text_of(raw.rstrip(b"\r\n"))
        number = file.lines + 1
        # A state of a bar is a part of a line.
        file.lines += raw.endswith(b"\n")
        if file.reader is None and (program := _program(text)) is not None:
            yield from self._know(file, program)
        if file.reader is not None:
            yield from self._read(file, file.reader, number, text)
            return
        if file.before_B < KEPT_B:
            file.before.append((number, text))
            file.before_B += len(text)
        yield from self._bar(file, number, text)

    def end(self) -> Iterator[Event]:
        """Takes what the last lines left open."""
        for file in self.files.values():
            if file.reader is not None:
                for said in file.reader.end():
                    yield from self._hear(file, said)

    def _know(self, file: File, program: Program) -> Iterator[Event]:
        """The program of a file is known: its lines so far are read once more."""
        file.reader = StepReader(program, file.clock)
        self._run = self._run or Run(self.told)
        self._run.settings = file.reader.settings if not self._run.settings else self._run.settings
        if program.name not in self.programs:
            self.programs.append(program.name)
        before, file.before, file.bars = file.before, [], None
        file.clock.restart()
        for number, text in before:
            yield from self._read(file, file.reader, number, text)

    def _read(self, file: File, reader: StepReader, number: int, text: str) -> Iterator[Event]:
        for said in reader.feed(number, text):
            yield from self._hear(file, said)

    def _hear(self, file: File, said: Printed | Started) -> Iterator[Event]:
        if self._run is None:
            return
        if file.rank is None:
            yield from self._run.hear(said)
        elif isinstance(said, Printed):
            yield from self._run.hear(said.of(file.rank))
        elif self._run.lead in (None, file.rank):
            yield from self._run.hear(said)

    def _bar(self, file: File, number: int, text: str) -> Iterator[Event]:
        """The state of a bar, or how many devices its program runs on."""
        if file.bars is None:
            file.bars = StepReader(STEPS, file.clock)
        for said in file.bars.feed(number, text):
            if isinstance(said, Started):
                for run in self._bars.values():
                    yield from run.hear(said)
            elif said.last is not None and (said.last in self._bars or len(self._bars) < MOST_BARS):
                bar = self._bars.setdefault(said.last, Run(self.told, file.bars.settings))
                yield from (event for event in bar.hear(said) if bar is self.run)


def _program(text: str) -> Program | None:
    return next((one for sign, one in signs() if sign.search(text)), None)
