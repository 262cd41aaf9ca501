"""What the step time of a layout would be with other hardware, and which upgrades shorten it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.types.plain import Json
from lockstep.base.units import format_count, format_frac, format_size, format_time
from lockstep.decide.planner.support import FORMATS
from lockstep.decide.planner.whatif import NAMES, changed
from lockstep.describe.workload import RECOMPUTE
from lockstep.price.step import price_step
from lockstep.show.views import sensitivity as view
from lockstep.show.web.parts import headed, step_figures, with_best
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.show.verbs.sensitivity import Advice
    from lockstep.show.web.asked import Asked

NOW = "as it is"
FACTORS = {0.5: "half", 0.8: "20 % less", 1.0: NOW, 1.2: "20 % more", 2.0: "twice"}
SWING = (0.8, 1.2)
"""Factors at the ends of a bar of the tornado."""


def data(one: Estimate, asked: Asked) -> Json:
    """Every number of the hardware with the step time at each of its factors."""
    rungs = {name: [_seconds(one, name, factor) for factor in FACTORS] for name in NAMES}
    longest_s = max(max(times) for times in rungs.values())
    bars = tornado(one, rungs)
    return {
        **headed(one, _headline(bars[0])),
        "figures": step_figures(one),
        "sliders": [
            {
                "label": view.WORDS[name],
                "now": list(FACTORS).index(1.0),
                "rungs": [
                    {
                        "factor": said,
                        "text": format_time(seconds),
                        "change": _signed(seconds / one.step_time_s - 1.0),
                        "share": seconds / longest_s,
                    }
                    for said, seconds in zip(FACTORS.values(), times, strict=True)
                ],
            }
            for name, times in rungs.items()
        ],
        "now_share": one.step_time_s / longest_s,
        "tornado": bars,
        "swing": "each number 20 % lower and 20 % higher",
    }


def _headline(most: Json) -> str:
    """What the step is most sensitive to."""
    label, change = most["label"], most["ends"][1]["text"]
    return f"{label[0].upper()}{label[1:]} matters most: 20 % more changes the step by {change}"


RUNS = ("devices", "batch", "number format", "recomputation")
"""What of the run itself has a slider."""
SIZES = {0.25: "a quarter", 0.5: "half", 2.0: "twice", 4.0: "four times"}


def _run(one: Estimate, asked: Asked, said: dict[str, str], name: str) -> Json | None:
    """The same layout with other devices, batch, format or recomputation; None where there is no other."""
    every = [(label, _asked(asked, words)) for label, words in _changes(one, said, name)]
    rungs = [(label, found) for label, found in every if found is not None]
    if len(rungs) < 2:
        return None
    most = max(found.tokens_per_s for _, found in rungs)
    return {
        "label": name,
        "now": [label for label, _ in rungs].index(NOW),
        "now_share": one.tokens_per_s / most,
        "rungs": [
            {
                "factor": label,
                "text": f"{format_count(found.tokens_per_s)} {one.job.unit}/s",
                "change": f"{format_time(found.step_time_s)} per step{_fits(found)}",
                "share": found.tokens_per_s / most,
            }
            for label, found in rungs
        ],
    }


def _fits(found: Estimate) -> str:
    return "" if found.memory.fits else f", does not fit: {format_size(float(found.memory.total_B))}"


def _changes(one: Estimate, said: dict[str, str], name: str) -> list[tuple[str, dict[str, str]]]:
    """What stands at the places of a slider, and the words that ask it."""
    job, layout, dtype = one.job, one.layout, one.job.recipe.dtype
    match name:
        case "devices":
            sizes = {factor: (int(job.devices * factor), int(layout.dp * factor)) for factor in SIZES}
            words = {factor: {**said, "gpus": str(gpus), "dp": str(dp)} for factor, (gpus, dp) in sizes.items() if dp}
            several = {factor: (f"{SIZES[factor]}, {sizes[factor][0]:,}", each) for factor, each in words.items()}
        case "batch":
            kept = {key: value for key, value in said.items() if key != "batch_tokens"}
            batches = {factor: int(job.recipe.batch * factor) for factor in SIZES}
            several = {
                factor: (f"{SIZES[factor]}, {batch:,} sequences", {**kept, "batch": str(batch)})
                for factor, batch in batches.items()
                if batch
            }
        case "number format":
            formats = [each for each in FORMATS if one.cluster.device.takes(each)]
            return [(NOW, said) if each == dtype else (each, {**said, "dtype": each}) for each in formats]
        case _:
            return [
                (NOW, said) if each == layout.recompute else (each, {**said, "recompute": each}) for each in RECOMPUTE
            ]
    return [rung for _, rung in sorted({**several, 1.0: (NOW, said)}.items())]


def _asked(asked: Asked, words: dict[str, str]) -> Estimate | None:
    """The estimate; None where the layout does not go with it."""
    try:
        found: Estimate = asked.ask("estimate", words)
    except (BadInput, Infeasible):
        return None
    return found


def _seconds(one: Estimate, name: str, factor: float) -> float:
    """Step time of the same layout."""
    if factor == 1.0:
        return one.step_time_s
    return float(price_step(one.job, changed(one.cluster, name, factor), one.layout.grid()).step_time_s)


def _signed(frac: float) -> str:
    return "no change" if abs(frac) < 5e-5 else ("+" if frac > 0 else "-") + format_frac(abs(frac), 2)


def tornado(one: Estimate, rungs: dict[str, list[float]]) -> list[Json]:
    """Bars around today's step time, the longest first."""
    places = [list(FACTORS).index(factor) for factor in SWING]
    ends = {name: [times[at] / one.step_time_s - 1.0 for at in places] for name, times in rungs.items()}
    widest = max(abs(end) for two in ends.values() for end in two) or 1.0
    ranked = sorted(ends.items(), key=lambda item: -max(map(abs, item[1])))
    return [
        {
            "label": view.WORDS[name],
            "ends": [
                {
                    "kind": kind,
                    "text": _signed(end),
                    "start": 0.5 + min(end, 0.0) / widest / 2,
                    "width": abs(end) / widest / 2,
                }
                for kind, end in zip(("less", "more"), two, strict=True)
            ],
        }
        for name, two in ranked
    ]


def sooner(asked: Asked) -> tuple[Estimate, dict[str, str]]:
    """The layout alone, without what is planned again."""
    words = with_best(asked)
    return asked.ask("estimate", words), words


def later(found: Advice, asked: Asked) -> Json:
    """The same layout in other runs; upgrades, each planned again, and elasticities."""
    said = with_best(asked)
    runs = (_run(found.estimate, asked, said, name) for name in RUNS)
    return {"runs": [one for one in runs if one is not None], "blocks": sections(view.render, found)}


SCREEN = Screen(
    title="What if",
    verb="sensitivity",
    fields=(*QUESTION, Field("gpus", "Devices", example="all of the cluster"), *RECIPE, *LAYOUT),
    words=with_best,
    sooner=sooner,
    data=data,
    later=later,
)
