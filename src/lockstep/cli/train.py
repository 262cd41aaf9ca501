"""`lockstep train`: real training on real processes, or the list of methods."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from lockstep.cli.completing import methods, trainers
from lockstep.cli.options import argument, switch, takes, text
from lockstep.cli.output import EXAMPLES, Ended, show, show_once
from lockstep.cli.program_options import PLOT, RANKS_HELP, SEED, SETTINGS, draw, given, pairs, picture_path
from lockstep.errors import BadInput, Stopped

_TASK = "Task"
_SAVES = "Checkpoints and records"
WORDS = {
    "method": argument(
        "[METHOD]",
        "Method, or several separated by commas; all methods are listed when omitted.",
        None,
        names=methods,
    ),
    "ranks": text("--ranks", "N", RANKS_HELP),
    "timeout": text("--timeout", "T", "Longest wait of one rank for another. (default: 60 s)"),
    "straggler": text("--straggler", "R:T", "Make a rank late in every second step, e.g. 1:20ms."),
    "model": text(
        "--model", "M", "Model: mlp, cnn, gpt or moe. (default: the first that the methods train)", panel=_TASK
    ),
    "layers": text("--layers", "N", "Number of layers of the model. (default: 4)", panel=_TASK),
    "steps": text("--steps", "N", "Number of optimizer steps. (default: 100)", panel=_TASK),
    "batch": text("--batch", "N", "Samples per step, all ranks together. (default: 64, or near it)", panel=_TASK),
    "optimizer": text(
        "--optimizer", "O", "Optimizer: sgd, momentum or adam. (default: sgd)", panel=_TASK, names=trainers
    ),
    "learning_rate": text("--learning-rate", "X", "Learning rate. (default: 0.1; gpt 0.5)", panel=_TASK),
    "dtype": text("--dtype", "T", "Number format: float32 or float64. (default: float32)", panel=_TASK),
    "checkpoint": text("--checkpoint", "DIR", "Folder for checkpoints.", panel=_SAVES),
    "every": text(
        "--every", "N", "Steps between checkpoints; the last step always writes one. (default: 10)", panel=_SAVES
    ),
    "keep": text("--keep", "N", "Number of checkpoints to keep. (default: 2)", panel=_SAVES),
    "beside": switch("--beside", "Write checkpoints while training continues.", False, _SAVES),
    "resume": switch("--resume", "Resume from the newest complete checkpoint, if there is one.", False, _SAVES),
    "restarts": text(
        "--restarts",
        "N",
        "How many times to restart a failed run from its newest checkpoint. (default: 0)",
        panel=_SAVES,
    ),
    "tensorboard": text("--tensorboard", "DIR", "Folder in which to write the curves for TensorBoard.", panel=_SAVES),
    "root": text(
        "--runs", "DIR", "Folder in which to keep the run; see lockstep runs. (default: $LOCKSTEP_RUNS)", panel=_SAVES
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep train\n\n"
        + "lockstep train synchronous,zero-3 --ranks 2 --steps 200 --plot loss.png\n\n"
        + "lockstep train zero-1 --checkpoint saves --every 20 --restarts 2 --runs runs\n\n"
        + "torchrun --nproc-per-node 2 -m lockstep train diloco --optimizer adam --learning-rate 0.003\n\n"
        + "lockstep train pipeline --ranks 2 --layers 8 --set schedule=zb-v --set microbatches=8 --json"
    )(train)


@takes(WORDS, SETTINGS, SEED, PLOT)
def train(as_json: bool, method: str | None, settings: list[str] | None, plot: str | None, **words: Any) -> None:
    """Train a small model on real processes by any training method: loss against steps, seconds and counted bytes."""
    from lockstep import api
    from lockstep.report.progress import progress

    if method is None:
        if settings or plot:
            raise BadInput("--set and --plot need a method; lockstep train lists them", "METHOD")
        return show(api.training_methods(), as_json, "training_methods")
    picture_path(plot)
    stopped = False
    try:
        with progress(f"train {method}") as report:
            answer = api.train(method, settings=pairs(settings or []), progress=report, **given(words))  # type: ignore[arg-type]
    except Stopped as error:
        answer, stopped = error.answer, True

    def picture(path: Path) -> None:
        from lockstep.report.train_plot import plot_losses

        plot_losses(answer, path)

    if not stopped:
        draw(plot, picture)
    show_once(answer, as_json, "train")
    if stopped:
        sys.stderr.write(f"stopped by Ctrl-C{'; no picture was drawn' if plot else ''}\n")
        raise Ended(Stopped.exit_code)
