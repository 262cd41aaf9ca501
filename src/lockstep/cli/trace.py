"""`lockstep trace`: a collective or pipeline as a file for Perfetto."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import algorithms, programs, schedules
from lockstep.cli.options import argument, required, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import LINK, PASSES, RANKS_IF_ANY, SIZE_IF_ANY

WORDS = {
    "what": argument(
        "WHAT", "What to simulate: pipeline, or a collective such as all-reduce or all-to-all.", names=programs
    ),
    "out": required(
        ("--out", "-o"), "FILE", "Output file, ending in .json.gz; ui.perfetto.dev and chrome://tracing open it."
    ),
    "stages": text("--stages", "P", "Number of pipeline stages."),
    "microbatches": text("--microbatches", "M", "Micro-batches per step."),
    "schedule": text("--schedule", "S", "Pipeline schedule. (default: 1f1b)", names=schedules),
}
ALGORITHM = {
    "algorithm": text("--algorithm", "A", "Algorithm of the collective. (default: the fastest)", names=algorithms)
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep trace pipeline --stages 4 --microbatches 8 --schedule zb-h1 -o zb.json.gz\n\n"
        + "lockstep trace all-reduce --ranks 8 --size 100MB --algorithm ring --latency 5us --bandwidth 25GB/s "
        + "-o ring.json.gz"
    )(trace)


@takes(WORDS, PASSES, RANKS_IF_ANY, SIZE_IF_ANY, ALGORITHM, LINK)
def trace(as_json: bool, **words: Any) -> None:
    """Simulate a collective or a pipeline and write its timeline as a Chrome or Perfetto trace."""
    from lockstep import api

    show(api.trace(**words), as_json, "trace")
