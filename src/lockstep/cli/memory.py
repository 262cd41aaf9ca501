"""`lockstep memory`: bytes on one rank of every pipeline stage."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, takes
from lockstep.cli.output import EXAMPLES, show


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep memory llama3-70b -c dgx-h100:8 --batch 128 --tp 8 --pp 4 --zero 1 --sequence-parallel\n\n"
        + "lockstep memory llama3-8b -c dgx-a100-40gb --gpus 8 --batch 64 --zero 3 --recompute full --offload optimizer"
    )(memory)


@takes(MODEL, CLUSTER, BATCH, LAYOUT, RECIPE)
def memory(as_json: bool, **words: Any) -> None:
    """Count the memory of each pipeline stage by category.

    The exit code is 1 when it does not fit.
    """
    from lockstep import api

    answer = api.memory(**words)
    show(answer, as_json, "memory", ok=bool(answer.memory.fits))
