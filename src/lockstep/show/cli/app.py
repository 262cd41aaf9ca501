"""The `lockstep` command: registers the verbs and turns deliberate errors into exit codes.

0 answered, 1 answered "no" (infeasible, out of tolerance, refuted) or a real run that failed, 2 bad input with one
located message, 130 stopped by Ctrl-C: before anything was known, or, of `train`, with the losses so far printed. A
verb is a file of `lockstep.show.verbs`, where they are listed, and one of `lockstep.show.views`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer

from lockstep import __version__
from lockstep.base.errors import BadInput, Infeasible, RunFailed, brief, closest, option_hint
from lockstep.base.registry import PluginWarning
from lockstep.base.vocabulary import COMMANDS
from lockstep.show.cli.streams import standard_streams
from lockstep.show.cli.verb import Root, Verb
from lockstep.show.verbs import TABLE, VERBS
from lockstep.show.verbs.words.kinds import lacking
from lockstep.show.views.parts.options import verb_function
from lockstep.show.views.parts.output import Ended, print_failed, print_infeasible

STOPPED = 130
SPELLINGS = {"stacks": "stack"}
"""Other spellings of verbs."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lockstep {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plan, price, simulate and measure distributed training."""


def build(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """The command with the given verbs loaded; the others only say what they do."""
    app = typer.Typer(
        name="lockstep",
        cls=Root,
        epilog="[bold]Example[/bold]\n\nlockstep plan llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T",
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(root)
    loaded = frozenset(verbs)
    for group, members in TABLE.items():
        for verb, said in members.items():
            command = import_module(f"lockstep.show.views.{verb}").COMMAND if verb in loaded else None
            app.command(
                verb,
                help=f"{said}\n\n{command.more}".strip() if command else said,
                epilog="\n\n".join(("[bold]Examples[/bold]", *command.examples)) if command else None,
                rich_help_panel=group,
                cls=partial(Verb, first=partial(command.first, verb)) if command else Verb,  # type: ignore[arg-type]
            )(command.runner(verb) if command else _unloaded)
    return app


def _unloaded() -> None:
    """Of a verb that is only listed."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    given[:1] = [SPELLINGS.get(word, word) for word in given[:1]]
    with standard_streams() as output, _warnings_in_one_line():
        code = _run(given)
        try:
            output.check()
        except BadInput as error:
            code = _refuse(str(error))
    sys.exit(code)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What a user should know of other packages is told as errors are, without a place in the code."""
    usual = warnings.showwarning

    def tell(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if issubclass(category, PluginWarning):
            sys.stderr.write(f"warning: {message}\n")
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


def _run(given: list[str]) -> int:
    """Runs a verb, prints what is deliberate about its failure, and returns the exit code."""
    if given and not given[0].startswith("-") and given[0] not in VERBS:
        return _refuse(_unknown_verb(given[0]))
    try:
        code = build(_asked(given))(given, prog_name="lockstep", standalone_mode=False) or 0
        # Typer turns Ctrl-C into this code, without a word.
        return _stopped() if code == STOPPED else code
    except Infeasible as error:
        print_infeasible(error, "--json" in given)
        return Infeasible.exit_code
    except RunFailed as error:
        print_failed(error, "--json" in given)
        return RunFailed.exit_code
    except BadInput as error:
        return _refuse(str(error))
    except Ended as end:
        return end.code
    except (typer.Abort, KeyboardInterrupt):
        return _stopped()
    except Exception as error:
        message = _usage_message(error)
        if message is None:
            raise
        return _refuse(message)


def _asked(given: list[str]) -> list[str]:
    """The verbs that this command line, or the one that a shell completes, is about."""
    words = given or os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    first = next((word for word in words if not word.startswith("-")), "")
    return [first] if first in VERBS else []


def _refuse(message: str) -> int:
    """Bad input: one line on stderr."""
    sys.stderr.write(f"error: {' '.join(brief(message).split())}\n")
    return BadInput.exit_code


def _stopped() -> int:
    """Ctrl-C before there was an answer."""
    sys.stderr.write("interrupted before there was a result\n")
    return STOPPED


def _unknown_verb(given: str) -> str:
    """A verb that does not exist, with the one that was meant or the list."""
    close = closest(given, tuple(VERBS))[:1]
    hint = f"did you mean {close[0]}?" if close else f"try one of: {', '.join(VERBS)}"
    return f"unknown command {given[:60]!r}; {COMMANDS.get(given.lower()) or hint}"


def _unknown_flag(given: str, context: Any) -> str:
    """A flag that the verb does not have, with what to say instead."""
    verb = context.info_name
    shown: dict[str, str] = {}
    for option in context.command.params:
        name = str(option.metavar or option.name).strip("[].")
        flags = [flag for flag in option.opts if flag.startswith("--")] or [name]
        shown |= {flag.strip("-").replace("-", "_").lower(): flag for flag in flags}
    word = given.strip("-").replace("-", "_")
    if word in shown:
        return f"{given[:60]}: no such flag; {shown[word]} is given without one"

    def write(name: str, value: str) -> str:
        return f"{shown.get(name, f'--{name}'.replace('_', '-'))} {value}".replace('"', "").rstrip()

    hint = option_hint(given, tuple(shown), verb, write, f"see {context.command_path} --help")
    return f"{given[:60]}: no such flag; {hint}"


def _missing(context: Any) -> str:
    """Everything that the verb must be given and was not, as its function in Python says it."""
    missing = [one.name for one in context.command.params if one.required and one.name not in context.params]
    given = [name for name, value in context.params.items() if value is not None]
    return str(lacking(verb_function(context.info_name), missing, given, f"see {context.command_path} --help"))


def _usage_message(error: Exception) -> str | None:
    """The message of a command-line usage error, the flag first; None when `error` is not one."""
    describe = getattr(error, "format_message", None)
    if not callable(describe):
        return None
    match type(error).__name__, getattr(error, "param", None):
        case "MissingParameter", param if param is not None:
            return _missing(getattr(error, "ctx", None))
        case "NoSuchOption", _:
            return _unknown_flag(getattr(error, "option_name", ""), getattr(error, "ctx", None))
    return _extra(str(describe()))


def _extra(message: str) -> str:
    """A usage message; of a file behind a model, with how both are given."""
    extra = message.partition("unexpected extra argument(s) (")[2].removesuffix(")")
    if not os.path.isfile(extra):
        return message
    return f"{extra}: a file beside a model is joined to it with an @, as in llama3-8b@{extra}"
