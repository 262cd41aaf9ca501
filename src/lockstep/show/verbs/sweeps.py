"""The verb about sweeps that were kept in a file: `sweeps`."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from lockstep.base.documents.files import writable, writing
from lockstep.base.errors import LONGEST, BadInput, UnknownName
from lockstep.base.records import dataclass, fields
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.about import about
from lockstep.show.verbs.words.calling import keywords, strict
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.question import existing_folder
from lockstep.show.verbs.words.replayed import replayable

if TYPE_CHECKING:
    from lockstep.base.engines import Engine

ACTIONS = {"list": (0, 1), "show": (1, 1), "resume": (1, 1), "export": (1, 1), "delete": (1, 1)}
"""What can be done, and how many names each takes."""


class SweepsAnswer(Protocol):
    """A list, the answer of a sweep, or what was done."""

    def to_dict(self) -> Json: ...


@dataclass(frozen=True, slots=True)
class Kept:
    """One sweep in a file."""

    file: str
    verb: str
    answers: int
    """Known by now."""
    asked: int | None
    """Questions; None before it has begun."""
    began_s: float
    """Unix time."""
    versions: Json
    damaged: int
    """Lines of the file that are left out because they were changed since they were written."""
    has_digests: bool
    """Whether that would be noticed: not in files of earlier versions."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True, repr=False)
class SweepList(Shown):
    """The sweeps in a folder, by the names of their files."""

    folder: str
    sweeps: tuple[Kept, ...]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"folder": self.folder, "sweeps": plain(self.sweeps)}


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a sweep."""

    file: str
    done: str

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


ACTION = Argument("ACTION", "Action: list, show, resume, export or delete.", default="list")
ENGINE = Option("E", "Engine of resume: serial, processes[:N], dask[:N] or dask:ADDRESS.", default="serial")


@strict
def sweeps(
    action: Annotated[str, ACTION] = "list",
    *names: Annotated[str, Argument("SWEEP", "File of a sweep, as --store had it; of list, a folder.", repeated=True)],
    engine: Annotated[str | None, ENGINE] = None,
    out: Annotated[str | Path | None, Option("FILE", "File that export writes: .csv, or .parquet.", flag="-o")] = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepsAnswer:
    """Lists the sweeps in a folder, shows one as far as it is known, resumes, exports or deletes it.

    `show` computes nothing; `resume` asks what is missing, with the words of the file, and returns what the sweep's own
    verb does. `out`: the file of `export`, CSV or Parquet by its ending. Raises BadInput for a file that is not a sweep
    and, from `resume`, where Python, numpy or Lockstep are not those that computed it.
    """
    if action not in ACTIONS:
        raise UnknownName("action", action, ACTIONS, "ACTION")
    fewest, most = ACTIONS[action]
    if not fewest <= len(names) <= most:
        raise BadInput(f"{action} takes one {'folder' if action == 'list' else 'file'}, got {len(names)}", "SWEEP")
    for name, value, owner in (("engine", engine, "resume"), ("out", out, "export")):
        if value is not None and action != owner:
            raise BadInput(f"belongs to {owner}", f"--{name}")
    if action == "list":
        return _listed(existing_folder(names[0] if names else ".", "SWEEP"))
    path = Path(names[0])
    if action == "delete":
        return _deleted(path)
    if action == "export":
        return _exported(path, out)
    return answer_of(path, _known() if action == "show" else engine, progress)


def answer_of(path: Path, engine: "Engine | str | None", progress: Callable[[int, int], None] | None) -> SweepsAnswer:
    """What the verb of a sweep answers with the words and the answers in its file.

    The file may be a stranger's: it runs a verb that can be swept, with words that name no file to write. Raises
    BadInput for any other.
    """
    from lockstep.base.engines import SweepFile

    with SweepFile(path, writes=False) as file:
        about = file.about
    verb, words = about.get("verb"), about.get("words")
    if verb is None or words is None:
        raise BadInput(f"{str(path)!r} does not say what was asked; ask it again with --store {path}", "SWEEP")
    function = swept_by(verb)
    if function is None or not isinstance(words, dict) or not isinstance(about.get("versions"), dict):
        raise BadInput(f"{str(path)!r} is not a sweep", "SWEEP")
    if others := sorted(words.keys() - replayable(function).keys()):
        raise BadInput(f"{str(path)!r} sets {others[0][:LONGEST]!r}, which a sweep file may not set", "SWEEP")
    found: SweepsAnswer = function(**words, store=path, engine=engine, progress=progress)
    return found


MANY = {"converge": "sweep"}
"""Verbs whose many questions are asked of another function."""


def swept_by(verb: object) -> Callable[..., Any] | None:
    """The function that asks the many questions of a verb, None where it has none or starts processes of its own."""
    from lockstep.show.verbs import TABLE, VERBS

    if not isinstance(verb, str) or verb not in VERBS or verb in TABLE["Measure"]:
        return None
    function: Callable[..., Any] = getattr(import_module(f"lockstep.show.verbs.{verb}"), MANY.get(verb, verb))
    return function if about(function).lists or "store" in keywords(function) else None


def _known() -> "Engine":
    from lockstep.base.engines.known import Known

    return Known()


def _listed(folder: Path) -> SweepList:
    """The files in the folder that are sweeps."""
    found = [kept for path in sorted(folder.iterdir()) if (kept := _kept(path)) is not None]
    return SweepList(str(folder), tuple(found))


KINDS = {"verb": str, "asked": int | None, "began_s": int | float, "versions": dict}
"""What a file says of its sweep."""


def _kept(path: Path) -> Kept | None:
    """The sweep in a file, None where there is none."""
    from lockstep.base.engines import SweepFile

    try:
        if not os.path.isfile(path):
            return None
        with SweepFile(path, writes=False) as file:
            about, known, damaged, has_digests = file.about, len(file), file.damaged, file.has_digests
    except (BadInput, OSError):
        return None
    found: Any = [about.get(name) for name in KINDS]
    if not all(isinstance(value, kind) for value, kind in zip(found, KINDS.values(), strict=True)):
        return None
    verb, asked, began_s, versions = found
    return Kept(str(path), verb, known, asked, began_s, versions, damaged, has_digests)


def _exported(path: Path, out: str | Path | None) -> Done:
    """Writes what is known as rows."""
    from lockstep.base.rows.files import check_format, write_rows

    if out is None:
        raise BadInput("is required by export", "--out")
    to = writable(out, "--out")
    check_format(to, "--out")
    answer = answer_of(path, _known(), None).to_dict()
    # Simulated runs of one question have one answer, which is a row.
    rows = answer.get("rows", [answer])
    with writing(to, "--out"):
        write_rows(rows, to)
    return Done(str(path), f"exported {len(rows):,} row{'' if len(rows) == 1 else 's'} to {to}")


def _deleted(path: Path) -> Done:
    from lockstep.base.engines.sweep_file import delete

    delete(path)
    return Done(str(path), "deleted")
