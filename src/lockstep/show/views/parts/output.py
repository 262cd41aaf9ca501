"""Where answers go: one JSON object on stdout with `--json`, a table for a person without, pictures into files."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from lockstep.base.documents import SCHEMA
from lockstep.base.documents.files import writable, writing
from lockstep.base.errors import BadInput, Infeasible, RunFailed, not_installed
from lockstep.base.types.plain import Json, plain
from lockstep.show.views.parts.card import CARD
from lockstep.show.views.parts.page import WANTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


class Ended(Exception):
    """A verb that has printed what there is ends with a code of its own."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"exit code {code}")


class Answer(Protocol):
    """What every library call returns."""

    def to_dict(self) -> Json: ...


def show(
    answer: Answer, as_json: bool, render: Callable[[Any, Console], None], *, ok: bool = True, by_ranks: bool = False
) -> None:
    """Prints the answer as JSON, or as a table for a person; exits with 1 when it is a "no".

    `by_ranks`: torchrun or Slurm may have started the command on every rank; the first one speaks.
    """
    if not by_ranks or _is_first_rank():
        if as_json:
            print_json(answer.to_dict())
        else:
            from lockstep.show.views.parts.terminal import console

            out = console()
            _say_file(answer, out)
            render(answer, out)
        if (page := WANTED.get()) is not None:
            page.write(answer, render)
        if (card := CARD.get()) is not None:
            card.write(plain(answer), partial(render, answer))
    if not ok:
        raise typer.Exit(Infeasible.exit_code)


def _say_file(answer: Any, out: Console) -> None:
    """Prints what became of the words of a configuration of other software, where one asked the question."""
    about = next((one for one in (answer, getattr(answer, "estimate", None)) if hasattr(one, "job")), None)
    if about is None or isinstance(about.job, str):
        return
    from rich.text import Text

    from lockstep.decide.planner.from_file import from_file

    found = from_file(about.job)
    for line in () if found is None else found.before_the_verdict():
        out.print(Text(line, style="yellow" if line.startswith(" ") else ""))


def _is_first_rank() -> bool:
    from lockstep.run.launch.place import place

    here = place()
    return here is None or here.rank == 0


def finite(value: object) -> Any:
    """What `plain` returns, as JSON has it: numbers that are not finite are null, keys are text."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_json(answer: Mapping[str, object]) -> None:
    """One JSON object on stdout: `schema`, then the keys in the order given."""
    sys.stdout.write(
        json.dumps({"schema": SCHEMA, **finite(plain(answer))}, allow_nan=False, ensure_ascii=False) + "\n"
    )


def print_infeasible(error: Infeasible, as_json: bool) -> None:
    """A "no" with its reasons: JSON on stdout when asked for, else one message on stderr."""
    if as_json:
        violations = [violation.to_dict() for violation in error.violations]
        levers = {} if error.levers is None else {"levers": error.levers.to_dict()}
        print_json({"feasible": False, "why": str(error), "violations": violations, **levers})
    else:
        sys.stderr.write(f"no: {error}\n")
        if error.levers is not None:
            from lockstep.show.views.parts.levers import levers_text

            sys.stderr.write(levers_text(error.levers))


def print_failed(error: RunFailed, as_json: bool) -> None:
    """A real run that ended early: JSON on stdout when asked for, else one message on stderr."""
    if as_json:
        print_json({"ok": False, "why": str(error), "failures": [failure.to_dict() for failure in error.failures]})
    else:
        sys.stderr.write(f"failed: {error}\n")


def given(words: Mapping[str, object]) -> Json:
    """The words without those that were not given, so that the library's own defaults hold."""
    return {name: value for name, value in words.items() if value is not None}


def draw(plot: str | None, picture: Callable[[], Figure]) -> None:
    """Writes the picture when one is asked for; a wrong name or place is bad input at `--plot`."""
    path, page = picture_path(plot), WANTED.get()
    if page is not None:
        page.picture(picture)
    if path is None:
        return
    from lockstep.show.views.parts.figure import save_figure

    with writing(path, "--plot"):
        save_figure(picture(), path)


def picture_path(plot: str | None, where: str = "--plot") -> Path | None:
    """Where the picture goes; verbs that take long ask before they begin. Raises BadInput at `where`."""
    if plot is None:
        return None
    path = Path(plot)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise BadInput(f"{path.name!r} must end in .png, .svg or .pdf", where)
    if find_spec("matplotlib") is None:
        raise not_installed("pictures need matplotlib", "plot", where)
    if "MPLBACKEND" in os.environ:
        _check_backend()
    return writable(path, where)


def _check_backend() -> None:
    """matplotlib, when it is first imported, refuses a backend that it does not know. Raises BadInput."""
    try:
        import_module("matplotlib")
    except ValueError as error:
        raise BadInput(str(error), "MPLBACKEND") from None


def pairs(settings: list[str], where: str = "--set") -> Json:
    """Keys and values of `--set key=value`, or of another flag that takes them."""
    pairs: Json = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not key or not value:
            raise BadInput(f"{setting[:60]!r} must be written KEY=VALUE", where)
        if key in pairs:
            raise BadInput(f"{key[:60]} is given twice", where)
        pairs[key] = value
    return pairs
