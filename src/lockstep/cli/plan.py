"""`lockstep plan`: the best layouts, the Pareto front, and why not the others."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import typer

from lockstep.cli.options import BATCH, CLUSTER, MODEL, OFFLOAD, RECIPE, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, draw, given, picture_path

SEARCH = {
    "tokens": text(
        "--tokens",
        "T",
        "Training tokens, e.g. 15T: adds days and cost, failures not included (see lockstep campaign).",
    ),
    "objective": text(
        "--objective", "O", "What to minimise: time, or cost, for the cheapest size up to the cluster's.", "time"
    ),
    "deadline": text(
        "--deadline", "D", "Deadline, e.g. 30d, with --tokens: finds the fewest devices that finish in time."
    ),
    "top": text("--top", "K", "Number of layouts to list. (default: 5)", "5"),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep plan llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot plan.png\n\n"
        + "lockstep plan ./config.json --cluster dgx-a100-80gb:16 --batch 512 --objective cost --json"
    )(plan)


@takes(MODEL, CLUSTER, BATCH, SEARCH, RECIPE, OFFLOAD, PLOT)
def plan(as_json: bool, plot: str | None, **words: Any) -> None:
    """Find the best parallel layouts for training MODEL on a cluster."""
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    began = time.perf_counter()
    with progress("searching layouts") as report:
        answer = api.plan(progress=report, **given(words))  # type: ignore[arg-type]
    # Not in the answer, whose bytes are the same every time.
    sys.stderr.write(f"searched {answer.findings.evaluated:,} layouts in {time.perf_counter() - began:.2f} s\n")

    def picture(path: Path) -> None:
        from lockstep.report.plan_plot import plot_plan

        plot_plan(answer, path)

    draw(plot, picture)
    show(answer, as_json, "plan")
