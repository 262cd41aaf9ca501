"""Predicted and measured timeline of one program, one above the other on one scale of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lockstep.verbs.execute import Executed
from lockstep.errors import BadInput
from lockstep.report.timeline_plot import draw_timeline
from lockstep.units import format_frac, format_time

MOST_LANES = 32


def plot_execution(found: Executed, path: Path) -> None:
    """Writes the picture; the ending of `path` chooses the format."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    run = found.execution
    lines = (run.predicted, run.measured)
    lanes = [lane for lane in run.measured.lanes if found.what != "pipeline" or lane[1] == "compute"][:MOST_LANES]
    matplotlib.rcParams["svg.hashsalt"] = "lockstep"
    metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    size = (12, 2.0 + 0.56 * max(4, len(lanes)))
    figure, (above, below) = pyplot.subplots(2, 1, figsize=size, layout="constrained")
    try:
        longest_s = max(line.makespan_s for line in lines)
        for line, axes in zip(lines, (above, below), strict=True):
            unit_s = draw_timeline(line, axes, lanes, longest_s)
            axes.set_title(f"{line.source}: {format_time(line.makespan_s)}", loc="left", fontsize=10)
            axes.set_xlim(0, longest_s / unit_s)
        error = run.difference.makespan_frac
        figure.suptitle(
            f"{found.what} {found.algorithm} on {run.program.ranks} ranks: prediction "
            f"{format_frac(abs(error), 2)} {'above' if error >= 0 else 'below'} the measurement",
            fontsize=11,
        )
        figure.savefig(path, dpi=150, metadata=metadata)
    except ValueError as error_of_plot:
        raise BadInput(f"cannot write the plot: {error_of_plot}", str(path)) from None
    finally:
        pyplot.close(figure)
