"""`lockstep balance`: a batch over workers of different speed and memory."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, takes, text
from lockstep.cli.output import EXAMPLES, show

WORDS = {
    "speeds": required(("--speeds",), "V,..", "Samples per second of each worker, e.g. 100,100,60 or 4x100,2x60."),
    "batch": required(("--batch",), "B", "Samples per step."),
    "memory": text("--memory", "S,..", "Samples that fit on each worker; bytes with --sample-memory."),
    "sample_memory": text("--sample-memory", "S", "Memory of one sample."),
    "comm": text("--comm", "T", "Communication time per step. (default: 0)", "0"),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep balance --speeds 4x310,4x125 --batch 1024\n\n"
        + "lockstep balance --speeds 310,310,125 --batch 256 --memory 80GB,40GB,40GB --sample-memory 500MB"
    )(balance)


@takes(WORDS)
def balance(as_json: bool, **words: Any) -> None:
    """Split a batch so that unequal workers finish together. The exit code is 1 when memory cannot hold it."""
    from lockstep import api

    show(api.balance(**words), as_json, "balance")
