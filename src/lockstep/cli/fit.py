"""`lockstep fit`: latency and bandwidth of a link from measured times."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import clusters, devices
from lockstep.cli.options import argument, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, draw, given

_FILE = "Cluster file for plan and estimate"
WORDS = {
    "file": argument("FILE", "CSV of lockstep bench, or output of nccl-tests or the OSU micro-benchmarks."),
    "op": text("--op", "OP", "Collective, if the file does not name it, or one of several in a CSV."),
    "ranks": text("--ranks", "N", "Number of ranks, if the file does not state it."),
    "algorithm": text(
        "--algorithm", "A", "Algorithm assumed for the library's own collective. (default: ring, or its equivalent)"
    ),
    "out": text(("--out", "-o"), "FILE", "Output file, ending in .yaml.", panel=_FILE),
    "cluster": text(("--cluster", "-c"), "C", "Cluster whose link was measured.", panel=_FILE, names=clusters),
    "level": text(
        "--level",
        "L",
        "Level of --cluster that was measured. (default: the one that the hosts in the file used)",
        panel=_FILE,
    ),
    "device_name": text(
        "--device", "D", "Device of a new cluster with one level, instead of --cluster.", panel=_FILE, names=devices
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep fit ring.csv --plot fit.png\n\n"
        + "lockstep fit all_reduce_perf.txt -o my-cluster.yaml --cluster dgx-h100:16\n\n"
        + "lockstep fit osu_latency.txt"
    )(fit)


@takes(WORDS, PLOT)
def fit(as_json: bool, plot: str | None, **words: Any) -> None:
    """Find a link's latency and bandwidth, with intervals, from measured times; write them into a cluster file."""
    from lockstep import api

    answer = api.fit(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.fit_plot import plot_fit

        plot_fit(answer, path)

    draw(plot, picture)
    show(answer, as_json, "fit")
