"""`lockstep rig`: real traffic through shaped links, predicted before it is measured."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import ops
from lockstep.cli.options import argument, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import PLOT, RUNS, SEED, draw, given, picture_path

_LINKS = "Links"
WORDS = {
    "op": argument("[OP]", "Collective to measure. (default: all-reduce)", "all-reduce", names=ops),
    "topology": text("--topology", "T", "Topology: star, flat or uplinks. (default: star)", panel=_LINKS),
    "delay": text("--delay", "T", "One-way delay from host to host. (default: 5ms)", panel=_LINKS),
    "rate": text("--rate", "R", "Rate of each link, or uplink. (default: 100Mbit/s)", panel=_LINKS),
    "nodes": text("--nodes", "N", "Number of nodes that share the ranks, with uplinks. (default: 2)", panel=_LINKS),
    "inner_delay": text("--inner-delay", "T", "Delay inside a node. (default: 100us)", panel=_LINKS),
    "inner_rate": text("--inner-rate", "R", "Rate inside a node. (default: 1Gbit/s)", panel=_LINKS),
    "jitter": text(
        "--jitter", "T", "Largest extra delay of a packet; packets stay in order. (default: 0)", panel=_LINKS
    ),
    "loss": text("--loss", "FRAC", "Share of packets lost. (default: 0)", panel=_LINKS),
    "mtu": text("--mtu", "B", "Largest packet, in bytes. (default: 9000)", panel=_LINKS),
    "ranks": text("--ranks", "N", "Number of ranks, one host each. (default: 4)"),
    "size": text("--size", "S", "Message size; several, separated by commas, find crossovers. (default: 64KiB)"),
    "algorithm": text(
        "--algorithm", "A", "Algorithm: one, several separated by commas, or all. (default: the usual ones)"
    ),
    "repeats": text("--repeats", "N", "Number of runs; the median counts. (default: 5)"),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep rig\n\n"
        + "lockstep rig --topology flat --delay 20ms --algorithm ring,tree --size 4KiB,64KiB,1MiB --plot ties.png"
        + "\n\nlockstep rig all-to-all --topology uplinks --rate 50Mbit/s --size 256KiB --runs runs"
    )(rig)


@takes(WORDS, SEED, RUNS, PLOT)
def rig(as_json: bool, plot: str | None, **words: Any) -> None:
    """Shape links between virtual hosts on this machine, predict collectives, then measure. Needs Linux and root."""
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("calibrating, measuring") as report:
        answer = api.rig(progress=report, **given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.rig_plot import plot_race

        plot_race(answer, path)

    draw(plot, picture)
    show(answer, as_json, "rig", ok=answer.ok)
