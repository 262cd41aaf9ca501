"""`Verb`: a command of Typer that reads the options that were written, and no others, and has a help of two lengths.

Typer builds a Pydantic validator for every option of a command before it looks at its value, and a verb has about 80.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from copy import copy
from typing import Any

from typer.core import TyperCommand

ALL_SHOWN = 16
"""A verb with at most so many options has one help, which shows all of them."""
SHORT_EXAMPLES = 2
"""Examples at the end of a short help."""


class Verb(TyperCommand):
    """A command whose absent options keep the default None without being validated.

    `--help` shows the options whose names are in `first()`, or all if they are few, and `--help-all` every one.
    """

    def __init__(self, *arguments: Any, first: Callable[[], Collection[str]] = frozenset, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._first = first
        self._every = self.params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        absent = [] if ctx.resilient_parsing else [one for one in self._every if _is_absent(one, args)]
        self.params = [one for one in self._every if one not in absent]
        try:
            rest = super().parse_args(ctx, args)
        finally:
            self.params = self._every
        ctx.params |= {one.name: None for one in absent}
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        parsed, epilog = self.params, self.epilog
        self.params = self._every
        if not ctx.meta.get("help_all"):
            self._shorten(ctx)
        try:
            super().format_help(ctx, formatter)
        finally:
            self.params, self.epilog = parsed, epilog

    def _shorten(self, ctx: Any) -> None:
        """Leaves what `--help` shows: of many options those that come first, each by a clause, and few examples."""
        self.params = every = [one for one in self._every if one.name != "help_all"]
        options = [one for one in every if one.param_type_name == "option"]
        if len(options) <= ALL_SHOWN:
            return
        first = self._first()
        left_out = [one for one in options if one.name not in first and not one.required]
        self.params = [_shortened(one) for one in every if one not in left_out]
        title, *examples = (self.epilog or "").split("\n\n")
        more = f"{len(left_out)} more options: {ctx.command_path} --help-all lists them."
        self.epilog = "\n\n".join([title, *examples[:SHORT_EXAMPLES], more])


def _shortened(option: Any) -> Any:
    """A copy of `option` whose help is the first clause of its text, with its default."""
    short = copy(option)
    text, default, _ = re.split(r"( \(default: .*\)$|$)", option.help or "", maxsplit=1)
    clause, *rest = re.split(r"; |(?<!e\.g)\. ", text, maxsplit=1)
    short.help = f"{clause}.{default}" if rest else option.help
    return short


def _is_absent(option: Any, arguments: Sequence[str]) -> bool:
    """Whether nothing but a default of None can come from `option`."""
    if option.param_type_name != "option" or option.default is not None or option.envvar:
        return False
    if option.required or option.is_eager or option.callback or option.multiple or not option.expose_value:
        return False
    return not any(_names(word, option) for word in arguments)


def _names(word: str, option: Any) -> bool:
    """Whether an argument may name `option`: `--tp`, `--tp=8`, or a short flag, which may stand among others."""
    if word.startswith("--"):
        return word.partition("=")[0] in (*option.opts, *option.secondary_opts)
    return word.startswith("-") and any(flag[1:] in word for flag in option.opts if not flag.startswith("--"))
