"""Sweeps that `--store` keeps in files: how far each is, and the answer of one as far as it is known by now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, LockstepError
from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac
from lockstep.show.verbs.sweeps import SweepList, sweeps
from lockstep.show.views import sweeps as view
from lockstep.show.views.parts.notebook import figures_of, view_of
from lockstep.show.web.parts import linked
from lockstep.show.web.screen import Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from lockstep.show.verbs.sweeps import Kept
    from lockstep.show.web.asked import Asked, Server


def listed(server: Server) -> SweepList:
    """The sweeps in the folder that the page was started with, the last one first."""
    found = sweeps("list", str(server.sweeps))
    newest = sorted(found.sweeps, key=lambda one: -one.began_s) if isinstance(found, SweepList) else ()
    return SweepList(str(server.sweeps), tuple(newest))


def present(server: Server) -> bool:
    """Whether there is one; not in a folder that is gone or closed to us."""
    try:
        return os.path.isdir(server.sweeps) and bool(listed(server).sweeps)
    except OSError:
        return False


def chosen(asked: Asked) -> Kept:
    """The sweep that is asked for by the name of its file, else the last one. Raises BadInput."""
    name, every = asked.words.get("sweep", ""), listed(asked.server).sweeps
    one = next((one for one in every if name in ("", Path(one.file).name)), None)
    if one is None:
        raise BadInput(f"no sweep {name!r} is kept there", "sweep")
    return one


def _state(one: Kept) -> tuple[object, ...]:
    """What changes when the file does."""
    return one.file, one.began_s, one.answers, one.asked


def words(asked: Asked) -> Json:
    """The words of its command."""
    return {"action": "show", "names": [chosen(asked).file]}


def answer(asked: Asked) -> Any:
    """What its verb answers with what is in the file."""
    one = chosen(asked)
    return asked.kept(("sweep", *_state(one)), lambda: sweeps("show", one.file))


def data(found: Any, asked: Asked) -> Json:
    """How far the sweeps are, and the tables of the one that is chosen."""
    one, every = chosen(asked), listed(asked.server)
    said, table = sections(view.render, every)
    linked(table, ({"sweep": Path(each.file).name} for each in every.sweeps), "sweeps")
    refused = isinstance(found, LockstepError)
    blocks = [{"kind": "text", "text": str(found), "style": ""}] if refused else sections(view_of(found)[0], found)
    return {
        "folder": said["text"],
        "sweeps": table,
        "name": Path(one.file).name,
        "progress": progress(one),
        "blocks": [{**block, "kind": "text", "style": ""} if block["kind"] == "title" else block for block in blocks],
        "picture": not refused and _drawn(asked, one, found),
    }


def progress(one: Kept) -> Json:
    """How many answers there are of how many."""
    known = f"{one.answers:,} answer{'s' * (one.answers != 1)}"
    if not one.asked:
        return {"text": known, "share": 0.0, "at": one.answers}
    share = min(1.0, one.answers / one.asked)
    return {"text": f"{known} of {one.asked:,}, {format_frac(share)}", "share": share, "at": one.answers}


def _drawn(asked: Asked, one: Kept, found: Any) -> bool:
    """Whether there is something to draw."""
    drawn: bool = asked.kept(("drawn", *_state(one)), lambda: bool(figures_of(found, view_of(found)[1])))
    return drawn


def picture(found: Any) -> Any:
    """The figure of the answer."""
    return found.plot()


SCREEN = Screen(
    title="Sweeps",
    verb="sweeps",
    fields=(),
    words=words,
    answer=answer,
    no_is_data=True,
    data=data,
    picture=picture,
    present=present,
)
