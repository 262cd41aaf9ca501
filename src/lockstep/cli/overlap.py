"""`lockstep overlap`: gradient buckets beside the backward pass."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import LINK, PLOT, SWEEP, draw, given

WORDS = {
    "layers": required(
        ("--layers",),
        "L",
        "Number of equal layers, or a list such as 96x5ms:7.3MB,1x9ms:120MB (count x backward : bytes).",
    ),
    "backward": text("--backward", "T", "Backward time of all equal layers together."),
    "gradients": text("--gradients", "S", "Gradient bytes of all equal layers together."),
    "forward": text("--forward", "T", "Time of the forward pass before the backward pass. (default: 0)"),
    "bucket_size": text("--bucket-size", "B", "Size at which a bucket closes. (default: 25MB)"),
    "ranks": text("--ranks", "N", "Number of data-parallel ranks. (default: 8)"),
    "algorithm": text(
        "--algorithm", "A", "Algorithm of the all-reduce. (default: ring; on a cluster the fastest across its levels)"
    ),
    "efficiency": text("--efficiency", "FRAC", "Relative speed of compute while a collective runs. (default: 1)"),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep overlap --layers 96 --backward 480ms --gradients 700MB --ranks 256 --latency 10us "
        + "--bandwidth 25GB/s --sweep --plot buckets.png\n\n"
        + "lockstep overlap --layers 32x3ms:400MB,1x2ms:500MB --bucket-size 200MB --ranks 64 -c dgx-h100:8"
    )(overlap)


@takes(WORDS, SWEEP, PLOT, LINK)
def overlap(as_json: bool, plot: str | None, **words: Any) -> None:
    """Overlap gradient all-reduces with the backward pass: exposed communication by bucket size."""
    from lockstep import api

    answer = api.overlap(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.overlap_plot import plot_buckets

        plot_buckets(answer, path)

    draw(plot, picture)
    show(answer, as_json, "overlap")
