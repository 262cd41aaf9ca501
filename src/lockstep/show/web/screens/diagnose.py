"""A measured run beside the predicted one: the verdict, the gap part by part, causes, changes, and lanes of both."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac, format_size, format_time
from lockstep.decide.planner.estimate import Estimate
from lockstep.explain.diagnosis import Diagnosis
from lockstep.show.views import compare as compared
from lockstep.show.views import diagnose as view
from lockstep.show.views.parts.diagnosis import lanes
from lockstep.show.views.parts.layout_columns import layout_words as in_words
from lockstep.show.web.answers import written
from lockstep.show.web.asked import field_of
from lockstep.show.web.captured import fields as of_capture
from lockstep.show.web.captured import file_of
from lockstep.show.web.measured import (
    BEFORE,
    FILE,
    MEASURED,
    SAID,
    VERB,
    answer,
    answer_words,
    diagnosed,
    has_files,
    is_measured,
    measured_figures,
    words,
)
from lockstep.show.web.parts import run_name, step_figures, with_best
from lockstep.show.web.recording import recording
from lockstep.show.web.screen import LAYOUT, QUESTION, RECIPE, Field, Screen
from lockstep.show.web.sections import sections
from lockstep.show.web.uploads import MOST_FILES, MOST_MEASURED_B

if TYPE_CHECKING:
    from lockstep.decide.planner.comparison import Comparison
    from lockstep.show.web.asked import Asked

MORE = "What files do not say"
CHANGES = "Change first"
NAMED = 3
"""Files that are named above the verdict."""
FILES = (FILE.name, BEFORE.name, *SAID)
"""Words of what was measured."""
LEAST_S = 1e-9
"""Parts that together differ by less differ by rounding."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What was measured, where the question that it would be held against is refused."""

    found: Diagnosis
    error: BadInput


def data(found: Estimate | Diagnosis | Alone | None, asked: Asked) -> Json:
    """What the verb says, with the gap as a waterfall; with nothing chosen, what may be."""
    if isinstance(found, Alone):
        refused: Json = {"refused": str(found.error), "where": field_of(found.error), "lanes": False}
        return data(found.found, asked) | refused
    if not isinstance(found, Diagnosis):
        return {
            "title": "" if found is None else f"{run_name(found)}: {in_words(found.layout)}",
            "figures": [] if found is None else step_figures(found),
            "recording": [*recording(), *made(found, asked)],
            "limits": f"At most {MOST_FILES} files of {format_size(MOST_MEASURED_B)} each, compressed or not. "
            "They stay in the memory of this server and never leave this machine.",
        }
    both = found.comparison()
    return {
        "title": _title(found),
        "figures": measured_figures(found),
        "scale": None if both is None else scale(found),
        "gap": None if both is None or found.beside is None else gap(both),
        "blocks": _blocks(found),
        "lanes": found.operations is not None,
    }


def _blocks(found: Diagnosis) -> list[Json]:
    """What the command prints, with what to change above the tables that it rests on."""
    blocks = sections(view.render, found)
    first = next((at for at, one in enumerate(blocks) if one["kind"] not in ("title", "text")), len(blocks))
    lower = sorted(blocks[first:], key=lambda one: one.get("title") != CHANGES)
    return [*blocks[:first], *lower]


def made(found: Estimate | None, asked: Asked) -> list[Json]:
    """How to try it without a run: traces that are made of the prediction."""
    if found is None:
        return []
    command, _ = written("estimate", with_best(asked), asked)
    text = "What profilers of all ranks would have seen of this prediction, which is then as predicted."
    return [{"title": "No run yet? Made traces", "text": text, "code": f"{command} --trace traces --as kineto"}]


def later(found: Estimate | Diagnosis, asked: Asked) -> Json:
    """A measured step of each stage under the predicted one."""
    return {} if isinstance(found, Estimate) or found.operations is None else {"form": lanes(found)}


def _title(found: Diagnosis) -> str:
    one = found.predicted
    names = list(dict.fromkeys(input.path for input in found.inputs))
    files = ", ".join(names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    run = "" if one is None else f"{run_name(one)}: {in_words(one.layout)}"
    return " · ".join(filter(None, (run, f"{files}{more}")))


def scale(found: Diagnosis) -> Json | None:
    """Where the measured step lies on the scale of the predicted interval."""
    one, measured_s = found.predicted, found.measured_s
    if one is None or measured_s is None:
        return None
    low_s, high_s = one.interval.low, one.interval.high
    first, last = min(low_s, measured_s), max(high_s, measured_s)
    begin, width = first - 0.1 * (last - first), 1.2 * (last - first)

    def share(seconds: float) -> float:
        return (seconds - begin) / width

    return {
        "low_share": share(low_s), "high_share": share(high_s), "share": share(one.step_time_s),
        "measured_share": share(measured_s), "low": format_time(low_s), "high": format_time(high_s),
        "text": format_time(one.step_time_s), "measured": format_time(measured_s, 4),
        "level": format_frac(one.interval.level_frac),
    }  # fmt: skip


def gap(both: Comparison) -> Json:
    """From the predicted step to the measured one, part by part: bars that begin where the one before ends."""
    rows = gap_rows(both)
    ends_s = [both.a.step_time_s]
    for _, difference_s in rows:
        ends_s.append(ends_s[-1] + difference_s)
    span_s = max(ends_s) - min(ends_s)
    begin_s = max(0.0, min(ends_s) - span_s)
    width_s = (max(ends_s) - begin_s) or 1.0

    def bar(label: str, text: str, kind: str, low_s: float, high_s: float) -> Json:
        start, width = (low_s - begin_s) / width_s, (high_s - low_s) / width_s
        return {"label": label, "text": text, "kind": kind, "start": start, "width": width}

    steps = [
        bar(label, compared.signed(difference_s, format_time), "more" if difference_s > 0 else "less",
            min(before, after), max(before, after))
        for (label, difference_s), (before, after) in zip(rows, pairwise(ends_s), strict=True)
    ]  # fmt: skip
    a_s, b_s = both.a.step_time_s, both.b.step_time_s
    return {
        "rows": [
            bar("predicted", format_time(a_s), "whole", begin_s, a_s), *steps,
            bar("measured", format_time(b_s), "whole", begin_s, b_s),
        ],
        "note": f"bars begin at {format_time(begin_s)}" if begin_s else "",
    }  # fmt: skip


def gap_rows(both: Comparison) -> list[tuple[str, float]]:
    """Parts in words and seconds that they add to the step, the largest first; small ones as one row."""
    parts = sorted(((one["part"], one["difference_s"]) for one in both.parts), key=lambda one: -abs(one[1]))
    least_s = compared.LEAST_FRAC * max(both.a.step_time_s, both.b.step_time_s)
    kept = [(compared.part_words(part), seconds) for part, seconds in parts if abs(seconds) >= least_s]
    rest = [seconds for _, seconds in parts if abs(seconds) < least_s]
    return [*kept, ("all other parts", sum(rest))] if abs(sum(rest)) >= LEAST_S else kept


def sooner(asked: Asked) -> tuple[Any, Mapping[str, Any]]:
    """The same, and nothing where neither a run nor anything measured is given."""
    if not is_measured(asked) and (file_of(asked) is not None or not asked.words.get("model")):
        return None, {"file": ["FILE"]}
    try:
        return answer(asked), answer_words(asked)
    except BadInput as error:
        if not has_files(asked):
            raise
        alone = replace(asked, words={name: asked.words[name] for name in FILES if name in asked.words})
        return Alone(diagnosed(alone), error), words(alone)


def fields(asked: Asked) -> tuple[Field, ...] | None:
    """The controls for a capture: its profiles, and the step; None where a model is asked about."""
    step = of_capture(asked)
    return None if step is None else (FILE, *(one for one in step if one.name != "steps"), *TOLD)


def asks(asked: Asked) -> str:
    """The prediction of a model until something measured is given."""
    described = bool(asked.words.get("model")) and file_of(asked) is None
    return "estimate" if described and not is_measured(asked) else VERB


TOLD = (
    Field("steps", "Steps of the traces", group=MORE, example="all but first and last"),
    Field("ranks", "Ranks of files", group=MORE, example="0=a.json,8=b.json"),
    Field("group", "What groups are for", group=MORE, example="tp=2,dp=0"),
)
SCREEN = Screen(
    title="Diagnose",
    verb=VERB,
    asks=asks,
    fields=(
        *MEASURED,
        Field("against", "Expected instead", example="45% or case:llama3-405b"),
        BEFORE,
        *QUESTION,
        Field("peak", "Peak that MFU was divided by", group=MORE, example="of the device"),
        *TOLD,
        Field("replan", "Plan again on what was measured", "yes no", group=MORE, example="no"),
        *LAYOUT,
        *RECIPE,
    ),
    words=answer_words,
    answer=answer,
    sooner=sooner,
    data=data,
    later=later,
    fields_of=fields,
    alone=True,
)
