"""The verb about runs that were kept: `runs`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lockstep.api.question import Quantity, whole
from lockstep.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from lockstep.runs.index import Row

ACTIONS = {"list": (0, 0), "show": (1, 1), "compare": (2, 2), "delete": (1, 1), "reindex": (0, 0)}
"""What can be done, and how many runs each takes."""


class RunsAnswer(Protocol):
    """A list, a record, a comparison, or what was changed."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs of a store, newest first."""

    root: str
    rows: tuple[Row, ...]
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"root": self.root, "total": self.total, "runs": [row.to_dict() for row in self.rows]}


@dataclass(frozen=True, slots=True)
class Changed:
    """What was done to a store."""

    root: str
    done: str
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"root": self.root, "done": self.done, "runs": self.runs}


def runs(action: str = "list", *names: str, root: str | Path | None = None, limit: Quantity = 20) -> RunsAnswer:
    """Lists runs, shows one, compares two, deletes one or rebuilds the index.

    `names`: ids, a beginning or end that only one has, or `last`. `root`: $LOCKSTEP_RUNS or `runs` unless given.
    """
    from lockstep.runs import RunStore, compare

    if action not in ACTIONS:
        raise UnknownName("action", action, ACTIONS, "ACTION")
    fewest, most = ACTIONS[action]
    if not fewest <= len(names) <= most:
        raise BadInput(f"{action} takes {most or 'no'} run{'' if most == 1 else 's'}, got {len(names)}", "RUN")
    store = RunStore(None if root is None else Path(root))
    if action == "show":
        return store.read(names[0])
    if action == "compare":
        return compare(store.read(names[0]), store.read(names[1]))
    if action == "delete":
        return Changed(str(store.root), f"deleted {store.delete(names[0])}", len(store.ids()))
    if action == "reindex":
        return Changed(str(store.root), "rebuilt the index", store.reindex())
    rows, shown = store.rows(), whole(limit, "--limit")
    return RunList(str(store.root), tuple(rows[: -shown - 1 : -1]), len(rows))
