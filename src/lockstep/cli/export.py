"""`lockstep export`: the layout as launch flags or a configuration of another tool."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, required, takes
from lockstep.cli.output import EXAMPLES, show

TO = {"to": required(("--to",), "TOOL", "Target tool: megatron, deepspeed or torchtitan.")}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep export llama3-8b -c dgx-h100:4 --batch 256 --zero 3 --to torchtitan\n\n"
        + "lockstep export llama3-70b -c dgx-h100:64 --batch 512 --tp 8 --pp 4 --zero 1 --to megatron"
    )(export)


@takes(MODEL, CLUSTER, TO, BATCH, LAYOUT, RECIPE)
def export(as_json: bool, sequence_parallel: bool, **words: Any) -> None:
    """Print launch flags or a configuration for a layout.

    It is the layout that the flags describe or, without such flags, the best one that the tool can run.
    """
    from lockstep import api

    show(api.export(sequence_parallel=sequence_parallel or None, **words), as_json, "export")
