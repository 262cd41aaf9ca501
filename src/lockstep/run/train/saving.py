"""`Saving`: where and how often a run is saved, and whether it goes on from there; `Saver`, a rank's side of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import TYPE_CHECKING
from uuid import uuid4

from lockstep.base.errors import BadInput
from lockstep.base.records import asdict, dataclass
from lockstep.base.types.plain import Json
from lockstep.run.checkpoint import Checkpoint, CheckpointWriter, latest, latest_for_all

if TYPE_CHECKING:
    from lockstep.run.train.task import Task
    from lockstep.run.train.worker import Worker


@dataclass(frozen=True, slots=True)
class Saving:
    """Checkpoints of a run in `folder`, after `every` steps, of which `keep` stay."""

    folder: Path
    every: int
    keep: int = 2
    beside: bool = False
    """Whether a thread writes while the training goes on."""
    resume: bool = False
    """Whether to go on from the newest whole checkpoint, if there is one."""
    at_end: bool = True
    """Whether the last step has one too."""

    def newest(self, words: Mapping[str, object], steps: int) -> Checkpoint | None:
        """The checkpoint to go on from, as one process sees it; None to begin anew.

        One after all `steps` is gone on from as well: nothing but the evaluation is left to do. Raises BadInput for one
        of another run, or in the way.
        """
        return self._checked(latest(self.folder), words, steps)

    def newest_for_all(self, words: Mapping[str, object], steps: int) -> Checkpoint | None:
        """As `newest`, the same on every rank; all ranks call it together."""
        return self._checked(latest_for_all(self.folder), words, steps)

    def _checked(self, found: Checkpoint | None, words: Mapping[str, object], steps: int) -> Checkpoint | None:
        if found is None:
            return None
        if not self.resume:
            there = f"{self.folder} holds a checkpoint after {found.step} steps"
            raise BadInput(f"{there}; resume it, or use another folder", "--checkpoint")
        differing = [name for name, value in words.items() if found.words.get(name) != value]
        if differing:
            was, now = ({name: one.get(name) for name in differing} for one in (found.words, words))
            raise BadInput(f"{self.folder} belongs to another run: {was}, requested {now}", "--checkpoint")
        if found.step > steps:
            raise BadInput(f"{self.folder} holds a checkpoint after {found.step} steps already, got {steps}", "--steps")
        return found

    def check_writable(self) -> None:
        """Raises BadInput where nothing can be written in the folder, which is made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.folder) as file:
                file.write(b"0")
        except OSError as error:
            why = f"no checkpoint can be written in {str(self.folder)!r}: {error.strerror}"
            raise BadInput(why, "--checkpoint") from None


def words_of(method: str, task: Task, settings: Mapping[str, object]) -> Json:
    """What two runs must have in common for one to go on where the other was: everything but the number of steps."""
    given = {name: value for name, value in asdict(task).items() if name != "steps"}
    return {"method": method, **given, "settings": {name: str(value) for name, value in sorted(settings.items())}}


class Saver:
    """One rank's checkpoints while it trains."""

    def __init__(self, saving: Saving, worker: Worker, words: Mapping[str, object], timeout_s: float) -> None:
        self.saving, self.worker, self.words = saving, worker, words
        self.writer = CheckpointWriter(
            saving.folder, worker.rank, worker.ranks, _name_of_attempt(),
            keep=saving.keep, beside=saving.beside, timeout_s=timeout_s,
        )  # fmt: skip

    def after_step(self, number: int) -> None:
        """Saves when it is time; `number` steps are done."""
        last = number == self.worker.task.steps
        if number % self.saving.every == 0 or (last and self.saving.at_end):
            self.writer.save(number, self.worker.parts(), self.words)

    def close(self) -> Json:
        """Waits for the last save; what the saves of this rank took."""
        self.writer.close()
        done = self.writer.written
        if not done:
            return {"saves": 0}
        return {
            "saves": len(done),
            "size_B": done[-1].size_B,
            "write_s": median(one.write_s for one in done),
            "blocking_s": median(one.blocking_s for one in done),
        }


def _name_of_attempt() -> str:
    """A name that all ranks share and no other attempt has: rank 0's choice."""
    import torch.distributed as dist

    name = [uuid4().hex]
    dist.broadcast_object_list(name, src=0)
    return name[0]
