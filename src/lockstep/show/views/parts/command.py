"""`Command`: how a verb is asked for on the command line, and how its answer is shown."""

from __future__ import annotations

import inspect
from functools import partial
from inspect import unwrap
from typing import TYPE_CHECKING, Any

from lockstep.base.records import dataclass, field
from lockstep.show.verbs import TABLE
from lockstep.show.views.parts.card import Card, carded
from lockstep.show.views.parts.lists import answer_lists
from lockstep.show.views.parts.options import (
    CARD,
    CSV,
    HELP_ALL,
    HTML,
    JSON,
    MANY,
    PLOT,
    Options,
    first_of,
    options_of,
    verb_function,
)  # fmt: skip
from lockstep.show.views.parts.output import draw, given, pairs, picture_path, show
from lockstep.show.views.parts.page import page, shell
from lockstep.show.views.parts.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.rows.columns import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Examples of a verb, its table for a person and its picture. Every verb has `--json`."""

    examples: tuple[str, ...]
    more: str = ""
    """Of the help text, after its first sentence (`lockstep.show.verbs.TABLE`)."""
    render: Callable[[Any, Console], None]
    picture: Callable[[Any], Figure] | None = None
    """What `--plot` draws of one answer."""
    doing: str = ""
    """What the progress bar says, of a verb that may take long; its function takes `progress`."""
    ok: Callable[[Any], bool] | None = None
    """Whether the answer is a yes; the exit code of a no is 1."""
    by_ranks: bool = False
    """Whether torchrun or Slurm may have started the command on every rank; the first one speaks."""
    also: Options = field(default_factory=dict)
    """Flags beside those that the verb's function declares."""
    without: tuple[str, ...] = ()
    """Keywords, of the function or of every command, that the command line does not take."""
    lists: bool = True
    """Whether numeric options take lists and ranges, whose answer is rows."""
    figures: tuple[str, ...] = ()
    """Dotted keys of the answer that stand in a table of rows, the one that a curve shows first."""
    series: Series | None = None
    answers: Callable[[Mapping[str, Any]], Callable[..., Any]] | None = None
    """The function that answers lists and ranges, by the words given; without it the verb's own."""
    ask: Callable[..., None] | None = None
    """Asks and shows where `_ask` does not do; takes the flags' keywords."""

    def options(self, verb: str) -> dict[str, tuple[Any, Any]]:
        """Annotated type and default of every keyword of the command line."""
        own = options_of(verb_function(verb))
        # Runs that measure would share the cores of the machine.
        many = {} if verb in TABLE["Measure"] else MANY
        lists = {**many, **CSV} if self.lists else {}
        lists = {name: one for name, one in lists.items() if name not in own}
        every = {**own, **self.also, **(PLOT if self.picture else {}), **lists, **CARD, **HTML, **JSON}
        return {name: one for name, one in every.items() if name not in self.without}

    def first(self, verb: str) -> frozenset[str]:
        """The keywords of the command line that a short help shows."""
        return first_of(verb_function(verb), self.options(verb))

    def runner(self, verb: str) -> Callable[..., None]:
        """What a command-line parser calls, with a signature made of the flags."""

        def run(**words: object) -> None:
            words.pop("help_all", None)
            html = words.pop("html", None)
            card = self._card(words.pop("card", None), verb, words, options)
            with page(str(html) if html is not None else None, verb, words, options), carded(card):
                self._answer(verb_function(verb), words)

        options = self.options(verb)
        written = {**options, **HELP_ALL}
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in written.items()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {name: kind for name, (kind, _) in written.items()}
        return run

    def _card(self, file: object, verb: str, words: Mapping[str, object], options: Options) -> Card | None:
        """The card that is asked for. Raises BadInput where it cannot be drawn."""
        path = picture_path(None if file is None else str(file), "--card")
        return None if path is None else Card(path, shell(verb, words, options), self.figures, self.series)

    def _answer(self, function: Callable[..., Any], words: dict[str, object]) -> None:
        """Answers lists and ranges by rows, all else by `ask`."""
        if self.lists:
            from lockstep.show.verbs.words.calling import keywords

            if answer_lists(self.answers(words) if self.answers else function, words, self):
                return
            known = {**keywords(unwrap(function)), **self.also, "plot": "", "as_json": ""}
            words = {name: value for name, value in words.items() if name in known}
        (self.ask or partial(self._ask, function))(**words)

    def _ask(self, function: Callable[..., Any], as_json: bool, plot: str | None = None, **words: Any) -> None:
        """Calls the verb's function with the words that were given, and shows the answer."""
        picture_path(plot)
        words = given(words)
        if "settings" in words:
            words["settings"] = pairs(words["settings"])
        if self.doing:
            with progress(self.doing) as report:
                answer = function(**words, progress=report)
        else:
            answer = function(**words)
        if self.picture:
            draw(plot, partial(self.picture, answer))
        show(answer, as_json, self.render, ok=self.ok is None or self.ok(answer), by_ranks=self.by_ranks)
