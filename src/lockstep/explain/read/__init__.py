"""Files of a run, recognised by their content and never by their names: one file here, and one line, per kind.

    KIND = register(Kind("megatron", "a log of Megatron-LM", LOG, recognise, read))

A file may be compressed with gzip. `recognise` sees its beginning; `read` gets the path and returns what its `gives`
names. Every failure is a `BadInput` located at the path, with line or byte where the file went wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.registry import Registry, import_all
from lockstep.explain.read.file import Head, head
from lockstep.explain.read.others import other

TRACE, TABLE, LOG, MEMORY, LINKS, HANG, SHAPES = "trace", "table", "log", "memory", "links", "hang", "shapes"
"""What a kind gives: kernels of a rank, operations of all ranks, steps, a snapshot, collectives, who did not arrive,
sizes of exchanges.
"""
MOST_FILES = 20_000
"""Of a folder."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file."""

    name: str
    what: str
    """With its article: `a trace of torch.profiler`."""
    gives: str
    recognise: Callable[[Head], bool]
    read: Callable[[File], Any]
    order: int = 1
    """Kinds that recognise by a looser sign have a larger number and are asked later."""


KINDS: Registry[Kind] = Registry("kind of file", "lockstep.diagnosis", Kind)
register = KINDS.register


@dataclass(frozen=True, slots=True)
class Known:
    """A file and its kind."""

    path: File
    kind: Kind
    value: Any = field(default=None, repr=False, compare=False)
    """What it holds, where it has been read."""

    def read(self) -> Any:
        """What it holds. Raises BadInput."""
        return self.kind.read(self.path) if self.value is None else self.value


def kinds() -> tuple[Kind, ...]:
    """All kinds, those with the strictest sign first."""
    import_all("lockstep.explain.read")
    import_all("lockstep.explain.read.logs")
    return tuple(sorted(KINDS.every(), key=lambda kind: (kind.order, kind.name)))


def recognise(path: File) -> Known:
    """The file with its kind. Raises BadInput for an empty one and one of another kind."""
    begun = head(path)
    if not begun.text.strip():
        raise BadInput("is empty", str(path))
    if what := other(begun):
        raise BadInput(f"is {what}", str(path))
    for kind in kinds():
        if kind.recognise(begun):
            return Known(path, kind)
    known = "; ".join(kind.what for kind in kinds())
    raise BadInput(f"is of no kind known here, which are: {known}", str(path))


def find(given: Sequence[str | Path | Known]) -> list[Known]:
    """The files among `given` and in its folders, by name. Raises BadInput also for a folder without any."""
    found: list[Known] = []
    for one in given:
        found += [one] if isinstance(one, Known) else map(recognise, _files(Path(one)))
    return found


def _files(path: Path) -> Iterator[Path]:
    """A file, or the visible files below a folder."""
    if not os.path.isdir(path):
        yield path
        return
    found = sorted(one for one in path.rglob("*") if os.path.isfile(one) and not one.name.startswith("."))
    if not found:
        raise BadInput("is a folder without files", str(path))
    if len(found) > MOST_FILES:
        raise BadInput(f"has more than {MOST_FILES:,} files; give those of the run", str(path))
    yield from found
