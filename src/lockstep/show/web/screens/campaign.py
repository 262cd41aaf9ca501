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
ROOM = 0.15
"""Beside what an axis shows, as a share of it."""
RATES = "Failures and checkpoints"


def data(found: Campaign, asked: Asked) -> Json:
    """The distribution of days, and the tables of `lockstep campaign`."""
    run, one = found.run, found.scenario.estimate
    low, high = (format_time(end * SECONDS_PER_DAY) for end in (found.interval.low, found.interval.high))
    level = format_frac(found.interval.level_frac)
    figures = [figure("Time", format_time(run.wall_s), f"{low} to {high} in {level} of cases")]
    if run.cost_usd is not None:
        hours = f"{format_count(run.gpu_hours)} device hours, interruptions included"
        figures.append(figure("Cost of the run", format_money(run.cost_usd), hours))
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
        "headline": f"{format_count(run.work.tokens)} {one.job.unit} in {format_time(run.wall_s)}",
        "figures": figures + uncounted(one.job),
        "range": spread(found),
        "level": level,
        "days": histogram(found),
        "blocks": sections(view.render_days, found),
    }


def later(found: Campaign, asked: Asked) -> Json:
    """What to change, each planned again, and what the days are sensitive to."""
    rest = sections(view.render_rest, found)
    asked.check()
    return {"blocks": [*sections(view.render_changes, found), *rest]}


def spread(found: Campaign) -> Json:
    """The interval and the simulated runs on one axis, as shares of it."""
    low_s, high_s = (end * SECONDS_PER_DAY for end in (found.interval.low, found.interval.high))
    runs_s = np.array([found.run.wall_s]) if found.simulated is None else found.simulated.wall_s
    first_s, last_s = min(low_s, float(runs_s.min())), max(high_s, float(runs_s.max()))
    begin_s, width_s = first_s - ROOM * (last_s - first_s), (1 + 2 * ROOM) * (last_s - first_s) or 1.0

    def share(seconds: float) -> float:
        return (seconds - begin_s) / width_s

    ends = {"low": low_s, "text": found.run.wall_s, "high": high_s}
    shares = {"low_share": low_s, "share": found.run.wall_s, "high_share": high_s, "runs_share": float(runs_s.min())}
    return {
        **{name: format_time(seconds) for name, seconds in ends.items()},
        **{name: share(seconds) for name, seconds in shares.items()},
        "runs_width": float(np.ptp(runs_s)) / width_s,
    }


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
