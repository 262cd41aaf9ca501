"""`lockstep campaign`: a whole run, what it takes, and what to change."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.operation_options import FAILURES, LIGHTER, SERVICE, TARGET
from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, draw, given, picture_path

_SCHEDULE = "Batch and learning rate at the beginning"
SCHEDULE = {
    "warmup_steps": text("--warmup-steps", "N", "Steps in which the learning rate rises.", panel=_SCHEDULE),
    "ramp_from": text("--ramp-from", "N", "Tokens per step at the start of a batch ramp.", panel=_SCHEDULE),
    "ramp_tokens": text("--ramp-tokens", "N", "Tokens over which the batch grows.", panel=_SCHEDULE),
}
_MONEY = "Money and energy"
MONEY = {
    "price": text("--price", "P", "Dollars per device and hour, instead of the catalog's.", panel=_MONEY),
    "reserved_discount": text("--reserved-discount", "FRAC", "Compare with reserved devices.", panel=_MONEY),
    "spot_discount": text("--spot-discount", "FRAC", "Compare with spot devices; needs --preemption.", panel=_MONEY),
    "preemption": text("--preemption", "T", "Mean time until one spot node is taken away.", panel=_MONEY),
    "power": text("--power", "W", "Per device. (default: its TDP)", panel=_MONEY),
    "pue": text("--pue", "X", "Power of the facility over that of its equipment. (default: 1)", panel=_MONEY),
    "carbon": text("--carbon", "X", "kg of CO2 per kWh of the grid, as 0.4.", panel=_MONEY),
}
RUNS = {"campaigns": text("--campaigns", "N", "Simulated runs. (default: 1000)")}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep campaign llama3-70b --cluster dgx-h100:64 --batch-tokens 4M --tokens 15T --plot tornado.png\n\n"
        + "lockstep campaign llama3-8b -c dgx-a100-80gb:16 --batch 512 --compute-optimal --tp 2 --zero 1 --json\n\n"
        + "lockstep campaign llama3-70b -c aws-p5:64 --batch-tokens 4M --loss 1.95 --spot-discount 60% --preemption 10d"
    )(campaign)


@takes(MODEL, CLUSTER, BATCH, TARGET, SCHEDULE, RUNS, SEED, PLOT, FAILURES, LIGHTER, SERVICE, MONEY, LAYOUT, RECIPE)
def campaign(as_json: bool, plot: str | None, sequence_parallel: bool, **words: Any) -> None:
    """Follow a whole training run: days, failures, money, what it waits for, and what to change.

    Without layout flags the planner's best layout is taken.
    """
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("planning, simulating, comparing changes") as report:
        answer = api.campaign(sequence_parallel=sequence_parallel or None, progress=report, **given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.tornado_plot import plot_tornado

        plot_tornado(answer, path)

    draw(plot, picture)
    show(answer, as_json, "campaign")
