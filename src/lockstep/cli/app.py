"""The `lockstep` command: registers the verbs and turns deliberate errors into exit codes.

0 answered, 1 answered "no" (infeasible, out of tolerance, refuted), 2 bad input with one located message.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from lockstep import __version__
from lockstep.cli.output import print_infeasible
from lockstep.errors import BadInput, Infeasible

VERBS = ("plan", "estimate", "memory", "roofline", "sensitivity", "catalog", "validate", "export", "cite")

app = typer.Typer(
    name="lockstep",
    help="Plan, price, simulate and measure distributed training.",
    epilog="Example: lockstep plan llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lockstep {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plan, price, simulate and measure distributed training."""


for verb in VERBS:
    import_module(f"lockstep.cli.{verb}").register(app)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(given, standalone_mode=False)
    except Infeasible as error:
        print_infeasible(error, "--json" in given)
        code = Infeasible.exit_code
    except BadInput as error:
        sys.stderr.write(f"error: {error}\n")
        code = BadInput.exit_code
    except typer.Abort:
        sys.stderr.write("stopped\n")
        code = 130
    except Exception as error:
        message = _usage_message(error)
        if message is None:
            raise
        sys.stderr.write(f"error: {message}\n")
        code = BadInput.exit_code
    sys.exit(code or 0)


def _usage_message(error: Exception) -> str | None:
    """The one-line message of a command-line usage error, or None when `error` is not one."""
    describe = getattr(error, "format_message", None)
    return str(describe()) if callable(describe) else None
