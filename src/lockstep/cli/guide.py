"""`lockstep guide`: the field's rules for choosing a layout, beside the planner's best."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, MODEL, RECIPE, takes
from lockstep.cli.output import EXAMPLES, show


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep guide llama3-70b --cluster dgx-h100:64 --batch-tokens 8M\n\n"
        + "lockstep guide mixtral-8x7b --cluster dgx-a100-80gb:16 --batch 512 --json"
    )(guide)


@takes(MODEL, CLUSTER, BATCH, RECIPE)
def guide(as_json: bool, **words: Any) -> None:
    """Choose a layout for MODEL on a cluster by rules of thumb.

    Each rule states what it decides and why; the planner's best layout is shown next to the result. The exit code is
    1 when the rules do not find a layout that fits.
    """
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("searching layouts") as report:
        answer = api.guide(progress=report, **words)
    show(answer, as_json, "guide", ok=answer.feasible)
