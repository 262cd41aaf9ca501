"""`lockstep messages`: messages and elements of one synchronisation, counted from the programs."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, takes, text
from lockstep.cli.output import EXAMPLES, show

WORDS = {
    "workers": required(("--workers",), "N", "Workers that hold a copy of the parameters."),
    "params": required(("--params",), "P", "Number of parameters, e.g. 25M."),
    "program": text(
        "--program",
        "NAME",
        "Program: all, or one of all-to-all, parameter-server, ring, tree ... (default: three of them)",
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(epilog=EXAMPLES + "lockstep messages --workers 8 --params 25M --program all")(messages)


@takes(WORDS)
def messages(as_json: bool, **words: Any) -> None:
    """Count the messages needed to sum parameters over workers."""
    from lockstep import api

    show(api.messages(**words), as_json, "messages")
