"""`lockstep sensitivity`: what the step time follows, and which upgrades save most."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, takes
from lockstep.cli.output import EXAMPLES, show


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(epilog=EXAMPLES + "lockstep sensitivity llama3-70b -c dgx-h100:64 --batch 512 --tp 8 --pp 4 --zero 1")(
        sensitivity
    )


@takes(MODEL, CLUSTER, BATCH, LAYOUT, RECIPE)
def sensitivity(as_json: bool, **words: Any) -> None:
    """Show what step time is most sensitive to, and rank upgrades by what they save."""
    from lockstep import api

    show(api.sensitivity(**words), as_json, "sensitivity")
