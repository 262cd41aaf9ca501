"""`lockstep validate`: published measurements against predictions."""

from __future__ import annotations

import typer

from lockstep.cli.options import argument, takes
from lockstep.cli.output import EXAMPLES, show

TABLE = {"table": argument("[TABLE]", "Table of published measurements; all when omitted.", None)}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(epilog=EXAMPLES + "lockstep validate\n\nlockstep validate narayanan_sc21 --json")(validate)


@takes(TABLE)
def validate(as_json: bool, table: str | None) -> None:
    """Check predictions against published measurements.

    The exit code is 1 when a table is out of tolerance.
    """
    from lockstep import api

    answer = api.validate(table)
    show(answer, as_json, "validate", ok=answer.ok)
