"""`lockstep catalog`: the models, devices, clusters and links that ship with Lockstep, and their sources."""

from __future__ import annotations

import typer

from lockstep.cli.options import argument, takes
from lockstep.cli.output import EXAMPLES, show

SHELF = {
    "shelf": argument("[SHELF]", "Part of the catalog: models, devices, clusters or links; all when omitted.", None)
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(epilog=EXAMPLES + "lockstep catalog models\n\nlockstep catalog devices --json")(catalog)


@takes(SHELF)
def catalog(as_json: bool, shelf: str | None) -> None:
    """List models, devices, clusters and links with their sources."""
    from lockstep import api

    show(api.catalog(shelf), as_json, "catalog")
