"""`Verb`: a command of Typer that leaves text as it is written, and has a help of two lengths; `Root`: the one above.

Typer builds a Pydantic validator for every option of a command before it looks at its value, and a verb has about 80.
Text needs none, as verbs read it themselves, nor does what is absent, and without one Pydantic is not even imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from copy import copy
from functools import partial
from typing import Any, TypeAlias

from typer.core import TyperCommand, TyperGroup

Context: TypeAlias = Any
Parameter: TypeAlias = Any
"""Both are Click's, which newer releases of Typer hold in a package of their own."""
ALL_SHOWN = 16
"""A verb with at most so many options has one help, which shows all of them."""
SHORT_EXAMPLES = 2
"""Examples at the end of a short help."""


class Root(TyperGroup):
    """The command above the verbs."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        return [_read_plainly(one) for one in super().get_params(ctx)]


class Verb(TyperCommand):
    """A command of which `--help` shows the options whose names are in `first()`, or all if they are few.

    `--help-all` shows every one.
    """

    def __init__(self, *arguments: Any, first: Callable[[], Collection[str]] = frozenset, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._first = first

    def get_params(self, ctx: Context) -> list[Parameter]:
        return [_read_plainly(one) for one in super().get_params(ctx)]

    def format_help(self, ctx: Context, formatter: Any) -> None:
        every, epilog = self.params, self.epilog
        if not ctx.meta.get("help_all"):
            self._shorten(ctx)
        try:
            super().format_help(ctx, formatter)
        finally:
            self.params, self.epilog = every, epilog

    def _shorten(self, ctx: Context) -> None:
        """Leaves what `--help` shows: of many options those that come first, each by a clause, and few examples."""
        self.params = every = [one for one in self.params if one.name != "help_all"]
        options = [one for one in every if one.param_type_name == "option"]
        if len(options) <= ALL_SHOWN:
            return
        first = self._first()
        left_out = [one for one in options if one.name not in first and not one.required]
        self.params = [_shortened(one) for one in every if one not in left_out]
        title, *examples = (self.epilog or "").split("\n\n")
        more = f"{len(left_out)} more options: {ctx.command_path} --help-all lists them."
        self.epilog = "\n\n".join([title, *examples[:SHORT_EXAMPLES], more])


def _read_plainly(parameter: Parameter) -> Parameter:
    """The parameter, which leaves to Typer what is neither text nor absent."""
    if not isinstance(parameter.process_value, partial):
        parameter.process_value = partial(_value, parameter, parameter.process_value)
    return parameter


def _value(parameter: Parameter, process: Callable[[Context, object], object], ctx: Context, value: object) -> object:
    """What a parameter gives: text as it stands, what is absent as Click has it, the rest as Typer's `process` does."""
    if value is None and not parameter.required:
        absent = () if parameter.multiple or parameter.nargs == -1 else None
        return parameter.callback(ctx, parameter, absent) if parameter.callback else absent
    return value if isinstance(value, str) and parameter.callback is None else process(ctx, value)


def _shortened(option: Parameter) -> Parameter:
    """A copy of `option` whose help is the first clause of its text, with its default."""
    short = copy(option)
    text, default, _ = re.split(r"( \(default: .*\)$|$)", option.help or "", maxsplit=1)
    clause, *rest = re.split(r"; |(?<!e\.g)\. ", text, maxsplit=1)
    short.help = f"{clause}.{default}" if rest else option.help
    return short
