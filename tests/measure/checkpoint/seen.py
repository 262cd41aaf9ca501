"""What the ranks of the tests of agreement do, each with a folder of its own, as on machines with local disks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lockstep.run.checkpoint import latest_for_all
from lockstep.run.launch import Rank
from lockstep.run.train import Saving, Task
from lockstep.run.train.result import Outcome
from lockstep.run.train.run import work

Seen = tuple[int, int, tuple[str, ...]]


def chooses(rank: Rank, roots: list[Path]) -> Seen | None:
    """(step, first weight, what was passed over) of the checkpoint that this rank is to go on from."""
    found = latest_for_all(roots[rank.number])
    return None if found is None else (found.step, int(np.ravel(found.array("weights"))[0]), found.passed_over)


def resumes(rank: Rank, method: str, task: Task, savings: list[Saving]) -> Outcome:
    """Trains on, from this rank's own folder."""
    return work(rank, method, task, {}, savings[rank.number])
