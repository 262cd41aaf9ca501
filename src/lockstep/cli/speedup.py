"""`lockstep speedup`: Amdahl, Gustafson, and the exact curve of a step that talks."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import LINK, PLOT, SIZE, draw, given

STEP = {
    "compute": required(("--compute",), "T", "Compute time of a step on one worker."),
    "serial": text("--serial", "FRAC", "Share of --compute that more workers do not shorten. (default: 0)"),
    "exchange": text(
        "--exchange",
        "A",
        "Gradient exchange: an all-reduce algorithm or parameter-server. (default: ring; on a "
        "cluster the fastest across its levels)",
    ),
    "workers": text(
        "--workers",
        "N",
        "Largest number of workers to try; on a cluster, those that fill whole units of its levels. "
        "(default: 4096; on a cluster all)",
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep speedup --compute 10s --size 200MB --latency 10us --bandwidth 25GB/s --plot speedup.png\n\n"
        + "lockstep speedup --compute 10s --size 200MB --latency 10us --bandwidth 25GB/s --exchange parameter-server"
    )(speedup)


@takes(STEP, SIZE, PLOT, LINK)
def speedup(as_json: bool, plot: str | None, **words: Any) -> None:
    """Find the best number of workers for a data-parallel step, against Amdahl's and Gustafson's laws."""
    from lockstep import api

    answer = api.speedup(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.speedup_plot import plot_speedup

        plot_speedup(answer, path)

    draw(plot, picture)
    show(answer, as_json, "speedup")
