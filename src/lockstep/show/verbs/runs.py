"""The verb about runs that were kept: `runs`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import named_folder, whole

if TYPE_CHECKING:
    from lockstep.base.store import RunStore
    from lockstep.base.store.index import Row

ACTIONS = {"list": (0, 0), "show": (1, 1), "compare": (2, 2), "delete": (1, 1), "export": (1, 1), "reindex": (0, 0)}
"""What can be done, and how many runs each takes."""


class RunsAnswer(Protocol):
    """A list, a record, a comparison, or what was changed."""

    def to_dict(self) -> Json: ...


@dataclass(frozen=True, slots=True, repr=False)
class RunList(Shown):
    """Runs of a store, newest first."""

    root: str
    rows: "tuple[Row, ...]"
    total: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "root total") | {"runs": plain(self.rows)}


@dataclass(frozen=True, slots=True)
class Changed:
    """What was done to a store."""

    root: str
    done: str
    runs: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


ACTION = Argument("ACTION", "Action: list, show, compare, export, delete or reindex.", default="list")
ROOT = Option("DIR", "Folder of kept runs.", flag="--runs", default="$LOCKSTEP_RUNS, else ./runs")
TENSORBOARD = Option("DIR", "Folder in which export writes the curves for TensorBoard.")


@strict
def runs(
    action: Annotated[str, ACTION] = "list",
    *names: Annotated[str, Argument("RUN", "Run: its id, the beginning or end of its id, or last.", repeated=True)],
    root: Annotated[str | Path | None, ROOT] = None,
    limit: Annotated[Quantity, Option("N", "Number of runs to list, newest first.", default="20")] = 20,
    tensorboard: Annotated[str | Path | None, TENSORBOARD] = None,
) -> RunsAnswer:
    """Lists runs, shows one, compares two, deletes one, exports one for TensorBoard or rebuilds the index.

    `names`: ids, a beginning or end that only one has, or `last`. `root`: $LOCKSTEP_RUNS or `runs` unless given.
    `tensorboard`: the folder to export to, a folder in it per run.
    """
    from lockstep.base.store import RunStore, compare

    if action not in ACTIONS:
        raise UnknownName("action", action, ACTIONS, "ACTION")
    fewest, most = ACTIONS[action]
    if not fewest <= len(names) <= most:
        raise BadInput(f"{action} takes {most or 'no'} run{'' if most == 1 else 's'}, got {len(names)}", "RUN")
    store = RunStore(None if root is None else named_folder(root, "--runs"))
    if (action == "export") != (tensorboard is not None):
        raise BadInput("is required by export and not accepted by other actions", "--tensorboard")
    if tensorboard is not None:
        return _exported(store, names[0], named_folder(tensorboard, "--tensorboard"))
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


def _exported(store: "RunStore", name: str, folder: Path) -> Changed:
    """Writes the events of a run for TensorBoard, all at the time of its start: they do not say their own."""
    from lockstep.base.store import EventFile, NotRecorded

    record, left_out = store.read(name), 0
    try:
        with EventFile(folder / record.id) as file:
            for number, event in enumerate(record.measurements, 1):
                try:
                    file.event(event, number, record.started_s)
                except BadInput:
                    left_out += 1
    except NotRecorded as error:
        raise BadInput(str(error), "--tensorboard") from None
    without = f", without {left_out} events whose step is not a 64-bit integer" if left_out else ""
    return Changed(str(store.root), f"exported {record.id} to {folder}{without}", len(store.ids()))
