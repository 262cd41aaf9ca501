"""A whole run: how long single runs take, how often they fail, what checkpoints cost, what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.plain import Json
from lockstep.base.units import SECONDS_PER_DAY, format_count, format_frac, format_money, format_time
from lockstep.show.views import campaign as view
from lockstep.show.web.parts import figure, uncounted, with_best
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from lockstep.decide.campaigns import Campaign
    from lockstep.show.web.asked import Asked

BINS = 30
RATES = "Failures and checkpoints"


def data(found: Campaign, asked: Asked) -> Json:
    """The distribution of days, and the tables of `lockstep campaign`."""
    run, one = found.run, found.scenario.estimate
    low, high = (format_time(end * SECONDS_PER_DAY) for end in (found.interval.low, found.interval.high))
    level = format_frac(found.interval.level_frac)
    figures = [figure("Time", format_time(run.wall_s), f"{low} to {high} in {level} of cases")]
    if run.cost_usd is not None:
        figures.append(figure("Cost", format_money(run.cost_usd), f"{format_count(run.gpu_hours)} device hours"))
    if run.losses.failures:
        pattern = run.pattern
        every_s = pattern.every * run.interval_s
        figures += [
            figure("Failures", f"{run.losses.failures:,.3g}", f"one every {format_time(run.mtbf_s)}"),
            figure("Checkpoint", format_time(every_s), f"of work between two, {format_time(pattern.costs_s[-1])} each"),
            figure("Goodput", format_frac(run.losses.goodput_frac), "of the time moves the run on"),
        ]
    return {
        "title": f"{one.job.model.name} on {one.job.devices} x {one.cluster.device.name}",
        "layout": f"{format_count(run.work.tokens)} {one.job.unit} in {format_time(run.wall_s)}",
        "figures": figures + uncounted(one.job),
        "days": histogram(found),
        "blocks": sections(view.render_days, found),
    }


def later(found: Campaign, asked: Asked) -> Json:
    """What to change, each planned again, and what the days are sensitive to."""
    rest = sections(view.render_rest, found)
    asked.check()
    return {"blocks": [*sections(view.render_changes, found), *rest]}


def histogram(found: Campaign) -> Json | None:
    """How many of the simulated runs took how long; None where nothing fails."""
    if found.simulated is None:
        return None
    counts, edges = np.histogram(found.simulated.wall_s, BINS)
    most = int(counts.max())
    mean_s = float(found.simulated.wall_s.mean())
    width_s = float(edges[-1] - edges[0]) or 1.0
    return {
        "runs": f"{len(found.simulated.wall_s):,} simulated runs, by their failures alone",
        "low": format_time(float(edges[0]), 4),
        "high": format_time(float(edges[-1]), 4),
        "mean": f"mean {format_time(mean_s, 4)}",
        "mean_share": (mean_s - float(edges[0])) / width_s,
        "bars": [
            {
                "share": int(count) / most,
                "text": f"{count:,} of {format_time(float(left), 4)} to {format_time(float(right), 4)}",
            }
            for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True)
        ],
    }


SCREEN = Screen(
    title="Campaign",
    verb="campaign",
    fields=(
        *QUESTION,
        Field("tokens", "Tokens to train on", example="15T"),
        Field("node_mtbf", "Time between failures of a node", group=RATES, example="of the cluster"),
        Field("repair", "Time until a node is back", group=RATES, example="replaced at once"),
        Field("spares", "Spare nodes", group=RATES, example="0"),
        Field("price", "Dollars per device and hour", group=RATES, example="of the catalog"),
        *RECIPE,
        *LAYOUT,
    ),
    words=with_best,
    data=data,
    later=later,
)
