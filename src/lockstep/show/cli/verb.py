"""`Verb`: a command of Typer that reads the options that were written, and no others.

Typer builds a Pydantic validator for every option of a command before it looks at its value, and a verb has about 80.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand


class Verb(TyperCommand):
    """A command whose absent options keep the default None without being validated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        every = self.params
        whole = ctx.resilient_parsing or not set(args).isdisjoint(self.get_help_option_names(ctx))
        absent = [] if whole else [one for one in every if _is_absent(one, args)]
        self.params = [one for one in every if one not in absent]
        try:
            rest = super().parse_args(ctx, args)
        finally:
            self.params = every
        ctx.params |= {one.name: None for one in absent}
        return rest


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
