"""`lockstep tensor`: one transformer layer on several ranks."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.options import required, switch, takes, text
from lockstep.cli.output import EXAMPLES, show
from lockstep.cli.program_options import LINK, PLOT, draw, given

WORDS = {
    "ranks": required(("--ranks",), "N", "Ranks that share the layer."),
    "hidden": required(("--hidden",), "H", "Width of the layer."),
    "heads": required(("--heads",), "A", "Attention heads; each rank holds whole heads."),
    "seq": required(("--seq",), "S", "Tokens per sequence."),
    "ffn": text("--ffn", "F", "Width of the feed-forward block (two products). (default: 4 times --hidden)"),
    "batch": text("--batch", "N", "Sequences per micro-batch. (default: 1)"),
    "flops": text("--flops", "R", "FLOP/s that a rank achieves, e.g. 600T. (default: large products on --cluster)"),
    "element_size": text("--element-size", "B", "Bytes per element sent, held and kept. (default: 2)"),
    "overlap": text(
        "--overlap", "W", "Traffic overlapped with products: none, gradients (Megatron) or all. (default: gradients)"
    ),
    "sequence_parallel": switch("--sequence-parallel", "Split norms and residual by tokens.", False),
    "run": switch(
        "--run", "Also run the layer on numpy, split and whole, at a size small enough to run immediately.", False
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep tensor --ranks 8 --hidden 8192 --heads 64 --ffn 28672 --seq 4096 --latency 3us "
        + "--bandwidth 300GB/s --flops 600T --run\n\n"
        + "lockstep tensor --ranks 16 --hidden 12288 --heads 96 --seq 2048 -c dgx-h100:4 --sequence-parallel "
        + "--overlap all --plot tensor.png"
    )(tensor)


@takes(WORDS, PLOT, LINK)
def tensor(as_json: bool, plot: str | None, **words: Any) -> None:
    """Split one layer over ranks: compute, traffic, how much is hidden, and the speed-up by number of ranks."""
    from lockstep import api

    answer = api.tensor(**given(words))  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.tensor_plot import plot_tensor

        plot_tensor(answer, path)

    draw(plot, picture)
    show(answer, as_json, "tensor", ok=answer.proof is None or answer.proof.equal)
