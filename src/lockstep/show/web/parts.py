"""What several screens are made of: figures with a label, parts of a whole, the best layout of a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lockstep.base.errors import Infeasible
from lockstep.base.types.plain import Json
from lockstep.base.units import SECONDS_PER_DAY, format_count, format_frac, format_money, format_size, format_time
from lockstep.show.verbs.words.plan_file import layout_options
from lockstep.show.verbs.words.shared import LAYOUT_WORDS
from lockstep.show.views.memory import tight_words
from lockstep.show.views.parts.layout_columns import layout_words as in_words
from lockstep.show.views.parts.reading import PART_WORDS

if TYPE_CHECKING:
    from lockstep.decide.planner.course import Course
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.result import Plan
    from lockstep.price.layout import Job, Layout, Memory
    from lockstep.show.web.asked import Asked
    from lockstep.simulate.program import Timeline

KINDS = ("parameters", "gradients", "optimizer", "activations", "buffers")
UPDATE = {"optimizer": "update"}
"""The colour of the optimizer's time, as that of its memory is also the one of tensor-parallel traffic."""
"""Of memory."""


def figure(label: str, value: str, note: str = "") -> Json:
    """A number that is shown large."""
    return {"label": label, "value": value, "note": note}


def run_name(one: Estimate) -> str:
    """The model and the devices of a run."""
    return f"{one.job.model.name} on {one.job.devices} x {one.cluster.device.name}"


def headed(one: Estimate, headline: str) -> Json:
    """What stands above a screen: the run and its layout, and below them what the screen has to say."""
    return {"title": f"{run_name(one)}: {in_words(one.layout)}", "headline": headline}


def timeline_of(answer: object) -> Timeline | None:
    """When things happen in an answer, where it says so."""
    from lockstep.simulate.program import Timeline

    line = getattr(answer, "timeline", None)
    made = line() if callable(line) else line
    return made if isinstance(made, Timeline) else None


def with_best(asked: Asked) -> dict[str, str]:
    """The words with the best layout that has those of a layout among them; as they are where that one does not fit."""
    try:
        plan = asked.ask("plan")
    except Infeasible:
        if not any(asked.words.get(name) for name in LAYOUT_WORDS):
            raise
        return dict(asked.words)
    return {**asked.words, **run_words(plan, plan.best.layout)}


def run_words(plan: Plan, layout: Layout) -> dict[str, str]:
    """A layout of a plan as words of an address, with what the plan has chosen besides: software, and a size."""
    found = layout_words(layout)
    if plan.software is not None:
        found["stack"] = plan.job.recipe.software.name
    if plan.objective == "cost":
        found |= {"gpus": str(plan.job.devices), "batch": str(plan.job.recipe.batch), "batch_tokens": ""}
    return found


def layout_words(layout: Layout) -> dict[str, str]:
    """A layout as words of an address."""
    said = {name: value for name, value in layout_options(layout).items() if value is not None}
    return {name: _text(value) for name, value in said.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _beside_mfu(one: Estimate) -> str:
    """HFU, and MFU with a causal mask where that is another number that matters."""
    said, used = f"{format_frac(one.hfu_frac)} HFU", one.utilisation
    if used.counted and used.convention == "full":
        said += f"; {format_frac(used.causal_mfu_frac)} MFU with only what the causal mask leaves"
    return said


def uncounted(job: Job) -> list[Json]:
    """What the answer does not count of this job, as a figure; nothing where that is no more than of any."""
    from lockstep.decide.planner.uncounted import not_counted, said_not_counted

    parts = not_counted(job)
    return [figure("Not counted", f"{len(parts)} parts", ", ".join(parts))] if said_not_counted(job) else []


def step_figures(one: Estimate, aim: float | Course | None = None, said: str | None = None) -> list[Json]:
    """Time, throughput, utilisation, and with an aim, and how it is said, days and money."""
    unit, per_step = one.job.unit, format_count(one.job.step_units)
    found = [
        figure("Step", format_time(one.step_time_s), one.said_interval),
        figure("Throughput", f"{format_count(one.tokens_per_s)} {unit}/s", f"of {per_step} {unit} per step"),
        figure(one.utilisation.name, format_frac(one.mfu_frac), _beside_mfu(one)),
    ]  # fmt: skip
    found += uncounted(one.job)
    if aim is not None:
        days, dollars = one.campaign(aim)
        lasts = format_time(days * SECONDS_PER_DAY)
        found.append(figure("Time", lasts, f"for {said}, without interruptions"))
        if dollars is not None:
            found.append(figure("Cost of the run", format_money(dollars), "of that time, at the catalog's price"))
    elif one.cost_per_token is not None:
        dollars_per_million = f"${one.cost_per_token * 1e6:.3g}"
        found.append(figure(f"Cost per million {unit}", dollars_per_million, "at the catalog's price"))
    return found


def step_parts(one: Estimate) -> list[Json]:
    """Exposed parts of a step, largest first, with the hidden traffic of each."""
    hidden = one.hiding()
    parts = sorted(one.step.breakdown_s().items(), key=lambda part: -part[1])
    found: list[Json] = []
    start = 0.0
    for name, seconds in parts:
        beside = hidden.get(name)
        share = seconds / one.step_time_s
        if share <= 0 and (beside is None or not beside.hidden_s):
            continue
        found.append(
            {
                "kind": UPDATE.get(name, name),
                "label": PART_WORDS[name],
                "text": format_time(seconds),
                "share": share,
                "percent": format_frac(share, 2),
                "start": start,
                "hidden": "" if beside is None or not beside.hidden_s else format_time(float(beside.hidden_s)),
                "hidden_share": 0.0 if beside is None else beside.hidden_s / one.step_time_s,
                "slack": "" if beside is None or not beside.hidden_s else format_time(float(beside.slack_s)),
            }
        )
        start += share
    return found


def memory_bar(one: Memory, label: str = "") -> Json:
    """Memory of a rank by kind, against what its device has."""
    total_B, capacity_B = float(one.total_B), float(one.capacity_B)
    sizes = {name: float(getattr(one, f"{name}_B")) for name in KINDS}
    return {
        "label": label,
        "text": format_size(total_B),
        "limit": format_size(capacity_B),
        "fits": bool(one.fits),
        "tight": tight_words(one) if one.tight else "",
        "percent": format_frac(total_B / capacity_B),
        "parts": [
            {"kind": name, "label": name, "text": format_size(size_B), "share": size_B / capacity_B}
            for name, size_B in sizes.items()
            if size_B
        ],
    }


def linked(block: Json | None, words: Iterable[Mapping[str, str]], screen: str = "layout") -> None:
    """Gives the rows of a table an address each."""
    if block is not None:
        block["links"] = [{"screen": screen, "words": dict(one)} for one in words]
