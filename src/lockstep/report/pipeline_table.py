"""A pipeline step for a person: the bubble, a drawing when it is small, what stages hold."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lockstep.verbs.pipeline import PipelineRun
from lockstep.parallel.pipeline import Partition
from lockstep.program import draw
from lockstep.report.terminal import bar, heading, indented, table
from lockstep.units import format_frac, format_time

DRAWN_STAGES = 12
DRAWN_PASSES = 16
STAGE_ROWS = 16


def render(found: PipelineRun, out: Console) -> None:
    """Prints the step."""
    step = found.pipeline
    out.print(Text(f"{format_frac(step.bubble_frac)} bubble: {format_time(step.makespan_s)} per step", style="bold"))
    chunks = f", {step.chunks} chunks each" if step.chunks > 1 else ""
    out.print(f"{step.schedule} on {step.stages} stages{chunks}, {step.microbatches} micro-batches")
    if step.stages <= DRAWN_STAGES and step.microbatches * step.chunks <= DRAWN_PASSES:
        heading(out, "When")
        unicode = (out.encoding or "").startswith("utf")
        streams = [name for name in found.timeline.program.streams if name == "compute"]
        drawing = draw(found.timeline, out.width - 3, streams=streams, style="unicode" if unicode else "ascii")
        indented(out, Text(drawing, no_wrap=True))
    if found.partition is not None:
        _split(found.partition, out)
    most = max(step.peak_live_microbatches)
    more = f"first {STAGE_ROWS} of {step.stages}" if step.stages > STAGE_ROWS else "micro-batches held at most"
    heading(out, "Stages", more)
    rows = [
        (str(stage), f"{live:g}", bar(live / most if most else 0.0))
        for stage, live in enumerate(step.peak_live_microbatches[:STAGE_ROWS])
    ]
    indented(out, table([("stage", "right"), ("held", "right"), ("", "left")], rows))
    heading(out, "Closed form", format_time(step.formula_s))
    indented(out, Text(f"{step.formula}\nexact: {step.exact}\n{step.source}", style="dim"))


def _split(split: Partition, out: Console) -> None:
    """How many layers each stage got."""
    heading(out, "Layers", f"the slowest stage is {format_frac(split.imbalance_frac)} above the mean")
    sizes = ", ".join(str(size) for size in split.sizes[:STAGE_ROWS])
    indented(out, Text(sizes if len(split.sizes) <= STAGE_ROWS else f"{sizes}, ..."))
