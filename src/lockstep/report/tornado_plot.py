"""The tornado of a campaign as a picture: days when each number is 20 % lower or higher, longest bar on top."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.campaigns import Campaign
from lockstep.report.campaign_table import NUMBER_WORDS
from lockstep.report.figure import write_figure
from lockstep.report.timeline_plot import PALETTE
from lockstep.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_tornado(found: Campaign, path: Path) -> None:
    """Writes the bars of everything that changes the days."""
    from matplotlib.patches import Patch

    now = found.run.days
    bars = [one for one in found.tornado if any(end and end.days != now for end in (one.low, one.high))]
    bars.sort(key=lambda one: max(abs(end.days - now) for end in (one.low, one.high) if end))

    def draw(axes: Axes) -> None:
        for place, one in enumerate(bars):
            for end, colour in ((one.low, PALETTE[1]), (one.high, PALETTE[0])):
                if end is not None:
                    axes.barh(place, end.days - now, left=now, color=colour, height=0.7)
                    axes.annotate(
                        f"{end.days:.4g}", (end.days, place), fontsize=7, va="center",
                        ha="left" if end.days >= now else "right",
                        xytext=(3 if end.days >= now else -3, 0), textcoords="offset points",
                    )  # fmt: skip
        axes.axvline(now, color="#333333", linewidth=1)
        axes.set_yticks(range(len(bars)), [NUMBER_WORDS[one.name] for one in bars])
        axes.set_xlabel("days")
        axes.margins(x=0.12)
        handles = [Patch(color=PALETTE[1], label="20 % lower"), Patch(color=PALETTE[0], label="20 % higher")]
        axes.legend(handles=handles, fontsize=8, frameon=False, loc="lower right")

    job = found.scenario.estimate.job
    title = (
        f"{job.model.name} on {job.devices} x {found.scenario.estimate.cluster.device.name},"
        f" {format_count(found.run.work.tokens)} tokens: {now:.4g} days"
    )
    write_figure(path, title, draw, size=(8.0, 1.2 + 0.45 * max(3, len(bars))))
