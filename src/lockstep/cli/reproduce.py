"""`lockstep reproduce`: the same seeds, the same bits; and what parts runs that differ."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import methods, trainers
from lockstep.cli.options import Options, argument, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import SEED, SETTINGS, given, pairs

WORDS: Options = {
    "method": argument("[METHOD]", "As lockstep train lists them. (default: synchronous)", "synchronous", methods),
    "ranks": text("--ranks", "N", "Processes of this machine. (default: 4)"),
    "model": text("--model", "M", "mlp, cnn, gpt or moe. (default: mlp)"),
    "steps": text("--steps", "N", "Optimizer steps of every run. (default: 5)"),
    "batch": text("--batch", "N", "Samples per step. (default: 64)"),
    "optimizer": text("--optimizer", "O", "sgd, momentum or adam. (default: sgd)", names=trainers),
    "switch": text(
        "--switch", "S", "reduction-order, rank-order, dtype, data-order, dropout-seed: several between commas are "
        "switched together, and alone to find which did it. (default: each alone)",
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES + "lockstep reproduce\n\nlockstep reproduce zero-1 --ranks 2 --optimizer adam\n\n"
        "lockstep reproduce --switch rank-order,data-order --json"
    )(reproduce)


@takes(WORDS, SETTINGS, SEED)
def reproduce(as_json: bool, settings: list[str] | None, **words: Any) -> None:
    """Check that the same seeds give the same bits; find the first step and tensor where two runs part, and why."""
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("reproduce") as report:
        answer = api.reproduce(settings=pairs(settings or []), progress=report, **given(words))  # type: ignore[arg-type]
    show(answer, as_json, "reproduce", ok=answer.reproducible)
