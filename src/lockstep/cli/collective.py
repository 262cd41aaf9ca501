"""`lockstep collective`: price, simulate and compare the algorithms of one collective."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import switch, takes
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import ALGORITHM, LINK, OP, PLOT, RANKS, SIZE, draw, picture_path

SIMULATE = {"simulate": switch("--simulate", "Also run the programs through the simulation engine.", False)}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep collective all-reduce --ranks 64 --size 100MB --latency 5us --bandwidth 25GB/s --simulate\n\n"
        + "lockstep collective all-to-all --ranks 32 --size 64MB -c dgx-h100:4 --plot all_to_all.svg"
    )(collective)


@takes(OP, RANKS, SIZE, ALGORITHM, SIMULATE, PLOT, LINK)
def collective(as_json: bool, plot: str | None, **words: Any) -> None:
    """Compare the algorithms of a collective: time, messages, bytes, bus bandwidth, lower bound."""
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("counting every algorithm") as report:
        answer = api.collective(progress=report, **words)

    def picture(path: Any) -> None:
        from lockstep.report.collective_plot import plot_sizes

        plot_sizes(answer, path)

    draw(plot, picture)
    show(answer, as_json, "collective")
