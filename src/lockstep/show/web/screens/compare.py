"""Two runs next to each other: what makes the difference, and whether it exceeds the error.

Where a measured run is given, and no B, the predicted step is A and the measured one B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac, format_time
from lockstep.explain.diagnosis import Diagnosis
from lockstep.explain.sides import WHOLE
from lockstep.show.verbs.compare import compare
from lockstep.show.views import compare as view
from lockstep.show.views.plan import readable_front
from lockstep.show.web import measured
from lockstep.show.web.asked import allowed
from lockstep.show.web.parts import layout_words
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen
from lockstep.show.web.sections import sections

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lockstep.decide.planner.comparison import Comparison, Side
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.show.web.asked import Asked


PLAIN = {"sequence_parallel": "no", "recompute": "none", "vpp": "1", "schedule": "1f1b"}
"""What a layout has that does not say so."""
LEAST_FRAC = 1e-4
"""A part of less could not be seen in its bar."""
SHOWN = "Where the difference comes from"
"""The table that the bars stand for."""


KINDS = {
    "attention": "attention", "stream": "stream", "copies": "host_comm", "optimizer": "update",
    "waiting": "waiting", "other_comm": "other", "outside_step": "other", WHOLE: "compute",
}  # fmt: skip
"""Colours of parts that only traces show; others have that of their first word."""


def words(asked: Asked) -> Mapping[str, Any]:
    """The question as A; B is what is given, else what was measured, else a layout with less memory."""
    if _measured(asked):
        return measured.words(asked)
    said = {name: value for name, value in asked.words.items() if name != "model"}
    return {"a": asked.words.get("model", ""), **said, "b": asked.words.get("b") or _changes(*_two(asked))}


def _two(asked: Asked) -> tuple[Estimate, Estimate]:
    """The best layout, and the next one of the Pareto front, else the second best."""
    # Of the address, what the verb takes: it knows no goal and no software.
    plan = asked.ask("plan", {**allowed("compare", asked.words), "model": asked.words.get("model", "")})
    others = [one for one in (*readable_front(plan.front)[1:], *plan.plans[1:]) if one.layout != plan.best.layout]
    if not others:
        raise BadInput("no other layout fits; say in B what to change, such as micro_batch=2", "b")
    return plan.best, others[0]


def _changes(best: Estimate, other: Estimate) -> str:
    """The other layout as changes of the best."""
    had, has = layout_words(best.layout), layout_words(other.layout)
    changed = {name: value for name, value in has.items() if had.get(name) != value}
    changed |= {name: PLAIN[name] for name in had if name not in has and name in PLAIN}
    return " ".join(f"{name}={value}" for name, value in changed.items())


def _measured(asked: Asked) -> bool:
    return not asked.words.get("b") and measured.is_measured(asked)


def data(answer: Comparison | Diagnosis, asked: Asked) -> Json:
    """Both steps in one scale, the difference by part, and the tables of `lockstep compare`."""
    found = answer.comparison() if isinstance(answer, Diagnosis) else answer
    if found is None:
        raise BadInput("give the model, the cluster and files with a measured step, or a number", "model")
    a, b = found.a, found.b
    longest_s = max(a.step_time_s, found.scale * b.step_time_s)
    blocks = sections(view.render, found)
    verdict, *rest = blocks
    undivided = ["A number or a log does not say where the seconds of its step go; a trace does."]
    return {
        "verdict": verdict["text"],
        "inconclusive": found.inconclusive,
        "notes": [
            block["text"]
            for block in rest
            if block["kind"] == "text" and a.title not in block["text"] and b.title not in block["text"]
        ]
        + (undivided if WHOLE in b.parts_s else []),
        "sides": [_side("A", a, 1.0, longest_s), _side("B", b, found.scale, longest_s)],
        "differences": differences(found),
        "blocks": [one for one in rest if one["kind"] in ("table", "list") and one["title"] != SHOWN],
    }


def _side(name: str, side: Side, scale: float, longest_s: float) -> Json:
    """One step by part, in the scale of the longer one."""
    parts = sorted(side.parts_s.items(), key=lambda part: -part[1])
    return {
        "name": name,
        "title": side.title,
        "text": format_time(scale * side.step_time_s),
        "parts": [
            {
                "kind": kind_of(part),
                "label": view.part_words(part),
                "text": format_time(scale * seconds),
                "share": scale * seconds / longest_s,
            }
            for part, seconds in parts
            if scale * seconds > LEAST_FRAC * longest_s
        ],
    }


def kind_of(part: str) -> str:
    """The colour of a part."""
    group, _, how = part.partition(".")
    return KINDS.get(how, KINDS.get(part, group))


def differences(found: Comparison) -> Json:
    """Bars to the left for what B takes less of, to the right for what it takes more of; the interval of the whole."""
    rows = view.shown_parts(found)
    values = [(view.part_words(row["part"]), row["difference_s"]) for row in rows]
    if len(values) > 1:
        values.append((WHOLE, found.difference_s))
    ends = [found.a.step_time_s * end for end in (found.interval.low, found.interval.high)]
    widest = max(*(abs(value) for _, value in values), *map(abs, ends)) or 1.0
    return {
        "rows": [
            {
                "label": label,
                "text": view.signed(value, format_time),
                "kind": "more" if value > 0 else "less",
                "start": 0.5 + min(value, 0.0) / widest / 2,
                "width": abs(value) / widest / 2,
            }
            for label, value in values
        ],
        "low": 0.5 + ends[0] / widest / 2,
        "high": 0.5 + ends[1] / widest / 2,
        "note": f"B minus A; the line below is the {format_frac(found.interval.level_frac)} interval of the whole",
    }


def answer(asked: Asked) -> Comparison | Diagnosis:
    """The comparison; where B is not given, of two layouts that the plan has priced already."""
    if _measured(asked):
        return measured.diagnosed(asked)
    if asked.words.get("b"):
        given: Comparison = asked.ask("compare", words(asked))
        return given
    best, other = _two(asked)
    key = ("compare", best.job, best.cluster, best.layout, other.layout)
    made: Comparison = asked.kept(key, lambda: compare(best, other))
    return made


SCREEN = Screen(
    title="Compare",
    verb="compare",
    asks=lambda asked: measured.VERB if _measured(asked) else "compare",
    fields=(Field("b", "B: changes, or another run", example="tp=8 pp=2"), *QUESTION, *measured.B, *RECIPE, *LAYOUT),
    words=words,
    answer=answer,
    data=data,
)
