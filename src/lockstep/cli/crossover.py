"""`lockstep crossover`: the sizes at which the fastest algorithm of a collective changes."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import LINK, OP, PLOT, RANKS, draw

BETWEEN = {"between": text("--between", "A,B", "Algorithms to compare. (default: all that can win)")}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep crossover all-reduce --ranks 256 --latency 10us --bandwidth 25GB/s --between ring,tree\n\n"
        + "lockstep crossover all-reduce --ranks 512 --latency 5us --bandwidth 50GB/s --plot map.png"
    )(crossover)


@takes(OP, RANKS, BETWEEN, PLOT, LINK)
def crossover(as_json: bool, plot: str | None, **words: Any) -> None:
    """Find the exact sizes at which algorithms tie, and n* = latency x bandwidth. The picture maps all group sizes."""
    from lockstep import api

    answer = api.crossover(**words)

    def picture(path: Any) -> None:
        from lockstep.report.crossover_plot import plot_map

        plot_map(api.best_algorithms(**words), path)

    draw(plot, picture)
    show(answer, as_json, "crossover")
