"""`lockstep sweeps`: the sweeps that were kept in files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.show.verbs.sweeps import Done, SweepList, SweepsAnswer
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.output import draw, given, picture_path, show
from lockstep.show.views.parts.progress import progress
from lockstep.show.views.parts.terminal import indented, table

if TYPE_CHECKING:
    from rich.console import Console

DRAWN = ("show", "resume")


def render(answer: SweepsAnswer, out: Console) -> None:
    """Prints the list, or what was done."""
    match answer:
        case Done():
            out.print(f"{answer.file}: {answer.done}")
        case SweepList():
            _list(answer, out)


def _list(found: SweepList, out: Console) -> None:
    if not found.sweeps:
        out.print(f"No sweeps in {str(found.folder)!r}.")
        return
    number = len(found.sweeps)
    out.print(f"{number} sweep{'s' * (number > 1)} in {found.folder}")
    out.print()
    rows = (
        (Path(one.file).name, one.verb, f"{one.answers:,}", "-" if one.asked is None else f"{one.asked:,}",
         f"{datetime.fromtimestamp(one.began_s, UTC):%Y-%m-%d %H:%M}", str(one.versions.get("lockstep", "?")))
        for one in found.sweeps
    )  # fmt: skip
    titles = [
        ("sweep", "left"), ("verb", "left"), ("answers", "right"), ("asked", "right"), ("began (UTC)", "left"),
        ("Lockstep", "left"),
    ]  # fmt: skip
    indented(out, table(titles, rows))
    for one in found.sweeps:
        if one.damaged:
            out.print(f"{Path(one.file).name} is damaged in {one.damaged:,} places; resume computes what is missing.")
        if not one.has_digests:
            out.print(f"{Path(one.file).name} is of an earlier version, without digests: damage is not noticed.")


def ask(as_json: bool, plot: str | None, action: str | None, names: list[str] | None, **words: object) -> None:
    """Names are positional; the answer of a sweep is shown and drawn as its own verb does."""
    from lockstep.show.verbs.sweeps import sweeps
    from lockstep.show.views.parts.notebook import view_of

    if plot is not None and action not in DRAWN:
        raise BadInput("belongs to show and resume", "--plot")
    picture_path(plot)
    with progress("answering") as report:
        answer = sweeps(action or "list", *(names or ()), **given(words), progress=report)
    if action not in DRAWN:
        return show(answer, as_json, render)
    shown, picture = view_of(answer)  # type: ignore[arg-type]
    if plot is not None and picture is None:
        raise BadInput("this answer has no picture", "--plot")
    if picture is not None:
        draw(plot, lambda: picture(answer))
    show(answer, as_json, shown, ok=getattr(answer, "ok", True))


COMMAND = Command(
    examples=(
        "lockstep sweeps",
        "lockstep sweeps show plans.sweep",
        "lockstep sweeps resume plans.sweep --engine dask:scheduler-file:scheduler.json",
        "lockstep sweeps export plans.sweep -o plans.parquet",
        "lockstep sweeps delete plans.sweep",
    ),
    more="A sweep is a file that --store made.",
    render=render,
    picture=lambda answer: answer.plot(),
    lists=False,
    ask=ask,
)
