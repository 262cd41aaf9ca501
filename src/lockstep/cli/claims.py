"""`lockstep claims`: what the field says about convergence, held or refuted by an experiment."""

from __future__ import annotations

import typer

from lockstep.cli.options import argument, takes, text
from lockstep.cli.output import EXAMPLES, show

WORDS = {
    "claim": argument(
        "[ID]", "Claim to test, e.g. A.5; or all, which takes minutes. All claims are listed when omitted.", None
    )
}
SEED = {"seed": text("--seed", "N", "Random seed of the experiments. (default: 0)")}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(epilog=EXAMPLES + "lockstep claims\n\nlockstep claims A.5\n\nlockstep claims --json")(claims)


@takes(WORDS, SEED)
def claims(as_json: bool, claim: str | None, seed: str | None) -> None:
    """Test what the field says about how training converges, each claim by an experiment.

    The exit code is 1 when a requested claim is false.
    """
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("experiments") as report:
        answer = api.claims(claim, seed=seed, progress=report)
    show(answer, as_json, "claims", ok=answer.ok)
