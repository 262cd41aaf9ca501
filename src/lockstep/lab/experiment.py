"""`Experiment`: a question with settings, and the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np

from lockstep.lab.claims import claims_of
from lockstep.lab.findings import Findings
from lockstep.settings import described, read_settings

Part = TypeVar("Part")
Progress = Callable[[int, int], None]
"""Is called with (done, total) now and then."""


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


def watched(parts: Iterable[Part], progress: Progress, more: int = 0) -> Iterator[Part]:
    """Each of the parts, reported as done when the next is asked for; of `more` after them the caller reports."""
    given = tuple(parts)
    for done, part in enumerate(given, 1):
        yield part
        progress(done, len(given) + more)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One file of `experiments/`: what is asked, on which settings, from which source, and how it is found out.

    `run(settings, seed, progress)` returns the findings; `settings` is an instance of the class `settings`.
    """

    name: str
    question: str
    source: str
    settings: type[Any]
    run: Callable[[Any, int, Progress], Findings]

    def answer(self, given: Mapping[str, object], seed: int = 0, progress: Progress = silent) -> Findings:
        """Findings with the given settings; `BadInput` for those that are unknown or not allowed.

        Arithmetic beyond the range of floats is an answer here (a run diverged), not a warning.
        """
        settings = read_settings(self.settings, given)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.run(settings, seed, progress)
        return replace(
            found.sorted_out(), experiment=self.name, question=self.question, source=self.source,
            settings=asdict(settings), seed=seed,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {
            "experiment": self.name,
            "question": self.question,
            "source": self.source,
            "settings": described(self.settings),
            "claims": [claim.to_dict() for claim in claims_of(self.name)],
        }
