"""`lockstep campaign`: a whole run, what it takes, and what to change."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.operation_options import FAILURES, LIGHTER, SERVICE, TARGET
from lockstep.cli.options import BATCH, CLUSTER, LAYOUT, MODEL, RECIPE, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, SEED, draw, given, picture_path

_SCHEDULE = "Batch size and learning rate at the start"
SCHEDULE = {
    "warmup_steps": text("--warmup-steps", "N", "Steps over which the learning rate rises.", panel=_SCHEDULE),
    "ramp_from": text("--ramp-from", "N", "Tokens per step at the start of a batch ramp.", panel=_SCHEDULE),
    "ramp_tokens": text("--ramp-tokens", "N", "Tokens over which the batch grows.", panel=_SCHEDULE),
}
_MONEY = "Money and energy"
MONEY = {
    "price": text("--price", "P", "Dollars per device-hour, instead of the catalog's price.", panel=_MONEY),
    "reserved_discount": text(
        "--reserved-discount", "FRAC", "Discount for reserved devices, to compare with.", panel=_MONEY
    ),
    "spot_discount": text(
        "--spot-discount", "FRAC", "Discount for spot devices, to compare with; needs --preemption.", panel=_MONEY
    ),
    "preemption": text("--preemption", "T", "Mean time until one spot node is preempted.", panel=_MONEY),
    "power": text("--power", "W", "Power per device. (default: its TDP)", panel=_MONEY),
    "pue": text("--pue", "X", "Power of the facility divided by that of its equipment. (default: 1)", panel=_MONEY),
    "carbon": text("--carbon", "X", "Carbon intensity of the grid, in kg of CO2 per kWh, e.g. 0.4.", panel=_MONEY),
}
RUNS = {"campaigns": text("--campaigns", "N", "Number of simulated runs. (default: 1000)")}


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
    """Predict a whole training run: days, failures, money, what it waits for, and what to change.

    Without layout flags it runs in the planner's best layout.
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
