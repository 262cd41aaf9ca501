"""`lockstep reproduce`: the same seeds, the same bits; and what parts runs that differ."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import methods, trainers
from lockstep.cli.options import Options, argument, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import SEED, SETTINGS, given, pairs

WORDS: Options = {
    "method": argument(
        "[METHOD]",
        "Training method, as listed by lockstep train. (default: synchronous)",
        "synchronous",
        names=methods,
    ),
    "ranks": text("--ranks", "N", "Number of processes on this machine. (default: 4)"),
    "model": text("--model", "M", "Model: mlp, cnn, gpt or moe. (default: mlp)"),
    "steps": text("--steps", "N", "Optimizer steps of every run. (default: 5)"),
    "batch": text("--batch", "N", "Samples per step. (default: 64)"),
    "optimizer": text("--optimizer", "O", "Optimizer: sgd, momentum or adam. (default: sgd)", names=trainers),
    "switch": text(
        "--switch",
        "S",
        "Settings to switch: reduction-order, rank-order, dtype, data-order, dropout-seed. Several, separated by "
        "commas, are switched together, then one at a time to find the cause. (default: each alone)",
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES + "lockstep reproduce\n\nlockstep reproduce zero-1 --ranks 2 --optimizer adam\n\n"
        "lockstep reproduce --switch rank-order,data-order --json"
    )(reproduce)


@takes(WORDS, SETTINGS, SEED)
def reproduce(as_json: bool, settings: list[str] | None, **words: Any) -> None:
    """Check that the same seeds give the same bits; find the first step and tensor where two runs diverge, and why."""
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("reproduce") as report:
        answer = api.reproduce(settings=pairs(settings or []), progress=report, **given(words))  # type: ignore[arg-type]
    show(answer, as_json, "reproduce", ok=answer.reproducible)
