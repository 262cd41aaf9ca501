"""The flags of a verb, made of what its function declares; and flags that are about the view alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from lockstep.show.verbs.words.option import Argument, Option, Switch, Word, words_of
from lockstep.show.verbs.words.shared import FIRST, PANELS, SEARCHED
from lockstep.show.views.parts import completing

Options = Mapping[str, tuple[Any, Any]]
"""Keyword -> (annotated type, default)."""


def verb_function(verb: str) -> Callable[..., Any]:
    """What the verb does, as the library has it."""
    found: Callable[..., Any] = getattr(import_module(f"lockstep.show.verbs.{verb}"), verb)
    return found


def options_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """What a verb's function declares, as a command line takes it.

    What is not given is None, so that the function's own default holds. Quantities stay text: the library parses them
    once, with the flag's name as the place of an error.
    """
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    first = {name for name, one in inspect.signature(function).parameters.items() if one.kind < keyword_only}
    places = list(PANELS)

    def order(word: Word) -> tuple[int, int]:
        """Arguments, then what has no heading, then headings: the target first, a verb's own next."""
        home, headed = _home(word), bool(_panel(word))
        if home is None:
            return (0, 0) if word.name in first else (3, 1) if headed else (2, 0)
        return (3, 2 * places.index(home)) if headed else (1, places.index(home))

    found = sorted(words_of(function), key=order)
    return {one.name: option(one.name, one.declared, one.default, _panel(one)) for one in found}


def first_of(function: Callable[..., Any], names: Iterable[str]) -> frozenset[str]:
    """Those of `names`, keywords of the command line of a verb's function, which a short help shows."""
    homes = {word.name: _home(word) for word in words_of(function)}
    return frozenset(name for name in names if name in FIRST.get(homes.get(name), ()))


def _panel(word: Word) -> str:
    """The heading above a flag: its own, else that of its class."""
    home = _home(word)
    return getattr(word.declared, "panel", "") or (SEARCHED if word.searched else PANELS[home] if home else "")


def _home(word: Word) -> type | None:
    """The smallest class of shared options that a flag is in."""
    homes = [one for one in PANELS if one.__annotations__.get(word.name) is word.annotation is not None]
    return min(homes, key=lambda one: len(one.__annotations__)) if homes else None


def option(name: str, declared: Option | Switch | Argument, default: Any = None, panel: str = "") -> tuple[Any, Any]:
    """The annotated type and the default of one flag."""
    must = default is inspect.Parameter.empty and not getattr(declared, "optional", False)
    if isinstance(declared, Switch):
        return _switch(name, declared, default, panel)
    complete = completing.starting(getattr(completing, declared.names)) if declared.names else None
    if isinstance(declared, Argument):
        info = typer.Argument(metavar=declared.metavar, help=declared.help, show_default=False, autocompletion=complete)
    else:
        flag = f"--{name.replace('_', '-')}"
        written = (flag, declared.flag) if len(declared.flag) == 2 else (declared.flag or flag,)
        info = typer.Option(
            *written, metavar=declared.metavar, help=declared.help, rich_help_panel=panel or None, show_default=False,
            autocompletion=complete,
        )  # fmt: skip
    kind: Any = list[str] if declared.repeated else str
    return Annotated[kind if must else kind | None, info], default if must else None


def _switch(name: str, declared: Switch, default: Any, panel: str) -> tuple[Any, Any]:
    """Where the verb has no default, None says that the flag was not given, so that a stack may decide."""
    flag, said = f"--{name.replace('_', '-')}", declared.help
    both = flag if declared.default is None else f"{flag}/--no-{flag.removeprefix('--')}"
    if default is None and declared.default is not None:
        said = f"{said} (default: {'on' if declared.default else 'off'})"
    own = default if isinstance(default, bool) else None
    info = typer.Option(*filter(None, (both, declared.flag)), help=said, rich_help_panel=panel or None)
    return Annotated[bool | None, info], own


def flags(**declared: Option | Switch) -> Options:
    """Flags of the view alone, by keyword."""
    return {name: option(name, one, getattr(one, "default", None), one.panel) for name, one in declared.items()}


def _help_all(context: typer.Context, wanted: bool) -> None:
    """Prints the help with all options and ends the command, as `--help` does with some."""
    if wanted and not context.resilient_parsing:
        context.meta["help_all"] = True
        typer.echo(context.get_help())
        raise typer.Exit


JSON: Options = {
    "as_json": (Annotated[bool, typer.Option("--json", help="Print one JSON object, in SI units.")], False)
}
HELP_ALL: Options = {
    "help_all": (
        Annotated[bool, typer.Option("--help-all", is_eager=True, callback=_help_all, help="Show all options.")],
        False,
    )
}
CSV = flags(csv=Option("FILE", "Write a CSV file, or .parquet, with one row for each value of a list or range."))
MANY = flags(
    engine=Option(
        "E", "Where a list or range is answered: serial, processes[:N], dask[:N], dask:ADDRESS of a scheduler or "
"dask:scheduler-file:PATH.", default="serial"),
    store=Option("FILE", "Keep the answers of a list or range in this file as they come; what it has is not computed."),
)  # fmt: skip
HTML = flags(html=Option("FILE", "Also write the answer, with its picture, as one HTML file."))
PLOT = flags(plot=Option("FILE", "Also draw a picture: .png, .svg or .pdf."))
CARD = flags(card=Option("FILE", "Also draw the headline on a card of 1,200 x 630: .png or .svg."))
