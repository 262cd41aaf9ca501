"""Two kept runs beside one another: where they part and why, in words and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.run.partings import CAUSES, Compared
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import heading, indented, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

MOST = 8
"""Tensors that are shown of a step at which two runs part."""


def render_compared(found: Compared, out: Console) -> None:
    """Prints where two kept runs part, what that looks like, and what differs there."""
    out.print(Text(f"{title(found)}.", style="bold"))
    steps = found.steps
    out.print(f"Compared at {len(steps)} steps, {steps[0]} to {steps[-1]}: {' and '.join(found.runs)}.")
    if found.digits:
        out.print(f"The logs print at most {found.digits} digits of it, so the bits may have parted before.")
    if found.identical:
        return
    out.print(f"What parts them: {CAUSES[found.cause]}.")
    heading(out, "Differences", f"at step {found.step}, in the order in which a step makes them")
    numbers = [(name, "right") for name in ("largest", "of its size", "entries")]
    rows = (
        [each.name, each.kind, f"{each.largest:.3g}", f"{each.of_size_frac:.2g}", f"{100 * each.differing_frac:.3g} %"]
        for each in found.differences[:MOST]
    )
    indented(out, table([("tensor", "left"), ("kind", "left"), *numbers], rows))
    if len(found.differences) > MOST:
        out.print(f"  {len(found.differences) - MOST} more with --json")
    if len(found.apart) > 1:
        step, frac = found.apart[-1]
        out.print(f"\nAt step {step} {found.differences[0].name} differs by {frac:.2g} of its size.")


def title(found: Compared) -> str:
    """Where they part, in a sentence."""
    if found.identical:
        return "Both runs are the same" + (" to the digits shown" if found.digits else ", to the bit")
    return f"The runs part at step {found.step}, in {found.differences[0].name}"


def plot_compared(found: Compared) -> Figure:
    """How far apart the array that differs first is, over the steps; 0 before."""

    def draw(axes: Axes) -> None:
        before = [(step, 0.0) for step in found.steps if found.step is None or step < found.step]
        steps, shares = zip(*before, *found.apart, strict=True)
        axes.plot(steps, shares, "o-", color=PALETTE[0], markersize=3)
        # From the smallest difference on by its logarithm, as rounding and other samples are decades apart.
        axes.set_yscale("symlog", linthresh=min((share for share in shares if share > 0), default=1.0))
        axes.set(xlabel="step", ylabel="difference over the size of the first run's", ylim=(0, None))

    return make_figure(title(found), draw)
