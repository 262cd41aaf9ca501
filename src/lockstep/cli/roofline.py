"""`lockstep roofline`: communication roofline, one per level of the cluster."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, takes
from lockstep.cli.output import EXAMPLES, show


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES + "lockstep roofline llama3-8b -c dgx-h100:16 --batch 512 --tp 4 --zero 1 --sequence-parallel"
    )(roofline)


@takes(MODEL, CLUSTER, BATCH, LAYOUT, RECIPE)
def roofline(as_json: bool, **words: Any) -> None:
    """Compare arithmetic per byte of traffic with what each level of the network can sustain."""
    from lockstep import api

    show(api.roofline(**words), as_json, "roofline")
