"""`Asking`: all questions on one engine, with what is known already, what goes wrong, and a forecast.

A batch that kills process after process is asked again one task at a time; a task that still does is left out by name.
Ctrl-C, or the loss of the engine, ends the questions with the answers that are there.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from lockstep.base.engines.batches import Batches
from lockstep.base.engines.engine import MOST_DEATHS, Answered, Engine, EngineLost, silent
from lockstep.base.engines.forecast import Forecast
from lockstep.base.engines.packing import unpacked
from lockstep.base.engines.questions import Questions
from lockstep.base.engines.sweep_file import SweepFile
from lockstep.base.errors import CTRL_C, RunFailed
from lockstep.base.records import dataclass, field
from lockstep.base.types.progress import Progress

LOG = logging.getLogger("lockstep.engines")
DAMAGED = "%s is damaged in %d places: answers that were there count as missing, and resuming computes them again"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A question that ended every process it was asked in."""

    place: int
    name: str

    @property
    def why(self) -> str:
        """What is said of it."""
        return f"killed {MOST_DEATHS} processes in a row; ask it alone with --engine serial to see why"


@dataclass(slots=True)
class Asking:
    """Iterate over it for (place, answer), in any order; afterwards it knows what is missing and why."""

    questions: Questions
    engine: Engine
    file: SweepFile | None = None
    progress: Progress = silent
    most_s: float = math.inf
    """Longest forecast that is accepted."""
    order: Callable[[Sequence[int]], Iterable[int]] = iter
    """In which order places are asked, and which; it is read as the engine has room, so that it may look at a clock."""
    left_out: list[LeftOut] = field(default_factory=list)
    stopped: str = ""
    """Why it ended before all were answered: CTRL_C, or what became of the engine."""
    _done: int = 0
    _key: Callable[[int], bytes] | None = None

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        total = len(self.questions.tasks)
        missing: Sequence[int] = range(total)
        if self.file is not None:
            self._key = self.questions.keys()
            self.file.begin({"asked": total})
            if self.file.damaged:
                LOG.warning(DAMAGED, self.file.path, self.file.damaged)
            missing = array("q")
            for place in range(total):
                try:
                    known = unpacked(self.file.answer(self._key(place)) or b"")
                except ValueError:
                    missing.append(place)
                    continue
                self._done += 1
                yield place, known
            self.progress(self._done, total)
        try:
            yield from self._answers(missing, Forecast(total, self.most_s))
        except KeyboardInterrupt:
            if not self._done:
                raise
            self.stopped = CTRL_C
        except EngineLost as lost:
            kept = "" if self.file is None else f"; ask again with the same --store {self.file.path} to go on"
            self.stopped = f"{lost}; {self._done:,} of {total:,} answers are known{kept}"
            if not self._done:
                raise RunFailed(self.stopped) from None
        finally:
            if self.file is not None:
                self.file.commit()

    def _answers(self, places: Sequence[int], forecast: Forecast) -> Iterator[tuple[int, Any]]:
        """The answers at these places; those of batches that were given up come last, one by one."""
        alone: list[int] = []
        if self.questions.alike is not None:
            places = sorted(places, key=self.questions.alike)
        batches = Batches(self.questions, iter(self.order(places)), together=self.engine.together)
        for answered in self._run(batches, forecast):
            if answered.answers is not None:
                yield from self._kept(answered)
            elif len(answered.batch.places) == 1:
                self._leave_out(answered.batch.places[0])
            else:
                alone += answered.batch.places
        if not alone:
            return
        for answered in self._run(Batches(self.questions, iter(sorted(alone)), alone=True), forecast):
            if answered.answers is not None:
                yield from self._kept(answered)
            else:
                self._leave_out(answered.batch.places[0])

    def _run(self, batches: Batches, forecast: Forecast) -> Iterator[Answered]:
        with closing(self.engine.run(self.questions.function, batches)) as stream:  # type: ignore[type-var]
            for answered in stream:
                if answered.answers is not None:
                    batches.measured(answered)
                yield answered
                total = len(self.questions.tasks)
                said = forecast.measured(answered, total - self._done)
                say = getattr(self.progress, "say", None)
                if said and say is not None:
                    say(said)
                self.progress(self._done, total)

    def _kept(self, answered: Answered) -> Iterator[tuple[int, Any]]:
        """The answers of a batch, in the file before anybody sees them."""
        answers = answered.answers or ()
        if self.file is not None and self._key is not None:
            keys = [self._key(place) for place in answered.batch.places]
            self.file.add(list(zip(keys, answers, strict=True)))
        for place, answer in zip(answered.batch.places, answers, strict=True):
            self._done += 1
            yield place, unpacked(answer)

    def _leave_out(self, place: int) -> None:
        self.left_out.append(LeftOut(place, self.questions.name(self.questions.tasks[place])))
