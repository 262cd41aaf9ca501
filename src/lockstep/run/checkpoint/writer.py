"""`CheckpointWriter`: one rank's side of writing checkpoints, in line or by a thread beside the training.

A save copies the arrays, then writes them: to a temporary file, flushed, renamed, noted with a checksum. Rank 0 waits
for the notes of all ranks and writes the manifest, which makes it a checkpoint; older generations go then. The ranks
meet over the files, so nothing here touches the process group, and a rank that dies leaves no checkpoint but the last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from lockstep.base.documents.files import replacing
from lockstep.base.errors import RunFailed
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.run.checkpoint.manifest import (
    REPLICATED,
    About,
    Manifest,
    Note,
    Part,
    Unsealed,
    checksum,
    data_file,
    folder_of,
    note_file,
    read_sealed,
    remove,
    write_sealed,
)
from lockstep.run.checkpoint.reader import generations
from lockstep.run.launch.points import point

POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Written:
    """What one save of one rank took."""

    step: int
    size_B: int
    blocking_s: float
    """How long the training stood still."""
    write_s: float
    """From the copy of the arrays to the file on the disk."""


class CheckpointWriter:
    """Saves of one rank under `root`.

    Args: `attempt`, a text that all ranks of this run share and no other run has; `keep`, generations that stay;
    `beside`, whether a thread writes while the training goes on; `timeout_s`, how long rank 0 waits for the others.
    """

    def __init__(
        self, root: Path, rank: int, ranks: int, attempt: str, *,
        keep: int = 2, beside: bool = False, timeout_s: float = 60.0,
    ) -> None:  # fmt: skip
        self.root, self.rank, self.ranks, self.attempt = root, rank, ranks, attempt
        self.keep, self.timeout_s = keep, timeout_s
        self.written: list[Written] = []
        self._thread = ThreadPoolExecutor(1) if beside else None
        self._pending: Future[Written] | None = None

    def save(self, step: int, parts: Sequence[Part], words: Mapping[str, object]) -> None:
        """Saves the state after `step` steps; `words` (plain JSON, the same on every rank) go into the manifest.

        Waits for the save before; with `beside` returns once the arrays are copied. Raises RunFailed, OSError.
        """
        self.wait()
        began_s = time.perf_counter()
        own = [part for part in parts if part.kind != REPLICATED or self.rank == 0]
        held = [replace(part, array=np.array(part.array, copy=True)) for part in own]
        copied_s = time.perf_counter() - began_s
        if self._thread is None:
            done = self._write(step, held, dict(words))
            self.written.append(replace(done, blocking_s=time.perf_counter() - began_s))
        else:
            self._pending = self._thread.submit(self._write, step, held, dict(words), copied_s)

    def wait(self) -> None:
        """Until the last save is on the disk; raises what it raised."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self.written.append(pending.result())

    def close(self) -> None:
        """Waits, and ends the thread."""
        try:
            self.wait()
        finally:
            if self._thread is not None:
                self._thread.shutdown()

    def _write(self, step: int, parts: Sequence[Part], words: Json, blocking_s: float = 0.0) -> Written:
        began_s = time.perf_counter()
        folder = folder_of(self.root, step)
        folder.mkdir(parents=True, exist_ok=True)
        point(f"mid_checkpoint:{step}")
        size_B = _write_arrays(data_file(folder, self.rank), parts)
        abouts = {part.name: About(part.kind, part.start, part.total) for part in parts}
        note = Note(self.attempt, size_B, checksum(data_file(folder, self.rank)), abouts)
        write_sealed(note_file(folder, self.rank), note.to_dict())
        if self.rank == 0:
            point(f"before_commit:{step}")
            self._commit(folder, step, words)
        return Written(step, size_B, blocking_s, time.perf_counter() - began_s)

    def _commit(self, folder: Path, step: int, words: Json) -> None:
        """Waits for every rank's note, then writes the manifest and removes what is older than `keep` generations.

        Generations after this step, which the run has passed over, are not counted: this one would be the one to go.
        """
        Manifest(step, words, [self._note(folder, rank) for rank in range(self.ranks)]).write(folder)
        for _, old in [one for one in generations(self.root) if one[0] <= step][: -self.keep]:
            remove(old)

    def _note(self, folder: Path, rank: int) -> Note:
        until_s = time.monotonic() + self.timeout_s
        # A note may be left from a run that died here before it committed.
        while (note := _read_note(note_file(folder, rank))) is None or note.attempt != self.attempt:
            if time.monotonic() > until_s:
                raise RunFailed(f"rank {rank} did not write its part of {folder.name} within {self.timeout_s:g} s", ())
            time.sleep(POLL_S)
        return note


def _read_note(path: Path) -> Note | None:
    """What a rank says of its file; None while it has said nothing that can be read."""
    try:
        return Note.of(read_sealed(path))
    except Unsealed:
        return None


def _write_arrays(path: Path, parts: Sequence[Part]) -> int:
    """Writes the arrays under their names; returns the bytes of the file."""
    with replacing(path) as file:
        np.savez(file, **{part.name: part.array for part in parts})  # type: ignore[arg-type]
        file.flush()
        point("after_checkpoint_file")
    return path.stat().st_size
