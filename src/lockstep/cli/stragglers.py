"""`lockstep stragglers`: what waiting for slow workers costs."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import SEED

WORDS = {
    "workers": required(("--workers",), "N", "Number of workers whose gradients make up a batch."),
    "law": required(
        ("--law",),
        "LAW",
        "Law of a worker's step time: lognormal:mean=50ms,cv=0.2, exponential:mean=1s, trace:times.csv ...",
    ),
    "mitigation": text(
        "--mitigation",
        "M",
        "Mitigation: none, backup:k, drop:k, bounded:s (steps ahead) or local:K. (default: none)",
        "none",
    ),
    "comm": text("--comm", "T", "Communication time per synchronisation. (default: 0)", "0"),
    "slow": text("--slow", "N", "Number of workers that are always slow. (default: 0)", "0"),
    "slow_factor": text("--slow-factor", "F", "Slowdown of the slow workers. (default: 2)"),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep stragglers --workers 256 --law lognormal:mean=50ms,cv=0.3 --mitigation backup:8\n\n"
        + "lockstep stragglers --workers 16 --law exponential:mean=1s --mitigation bounded:4 --slow 1"
    )(stragglers)


@takes(WORDS, SEED)
def stragglers(as_json: bool, **words: Any) -> None:
    """Price barriers under random step times, and what mitigations save and cost."""
    from lockstep import api
    from lockstep.report.progress import progress

    with progress("simulating workers") as report:
        answer = api.stragglers(progress=report, **words)
    show(answer, as_json, "stragglers")
