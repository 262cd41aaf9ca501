"""A measured run in an address: dropped files by their words, and numbers, beside the question that they are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac, format_time
from lockstep.show.verbs.diagnose import diagnose
from lockstep.show.views.compare import signed
from lockstep.show.web.asked import allowed, shell_words
from lockstep.show.web.captured import captured, file_of
from lockstep.show.web.captured import words as capture_words
from lockstep.show.web.parts import figure, with_best
from lockstep.show.web.screen import Field

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.diagnosis import Diagnosis
    from lockstep.show.web.asked import Asked

VERB = "diagnose"
NUMBERS = ("measured", "tokens_per_s", "tflops", "mfu")
SAID = (*NUMBERS, "peak", "against", "steps", "ranks", "group")
"""What is said of a measured run itself."""
OTHER = "another-run"
"""What a command calls the folder of another run with several files."""
FILE = Field("file", "Measured files", files=True)
BEFORE = Field("before", "or files of another run", files=True)
MEASURED = (
    FILE,
    Field("measured", "or a step time", example="11.99s"),
    Field("tokens_per_s", "or tokens per second", example="43.7k"),
    Field("tflops", "or TFLOP/s per device", example="320"),
    Field("mfu", "or MFU", example="32%"),
)
B = tuple(replace(one, group="or a measured run as B") for one in MEASURED)
"""The same where it is an alternative."""


def has_files(asked: Asked) -> bool:
    """Whether files are given."""
    return bool(asked.words.get(FILE.name))


def is_measured(asked: Asked) -> bool:
    """Whether files or a number are given."""
    return has_files(asked) or any(asked.words.get(name) for name in NUMBERS)


def diagnosed(asked: Asked) -> Diagnosis:
    """What `diagnose` says of the address. Raises what it raises, and Superseded."""
    said, uploads = _said(asked), asked.server.uploads
    files, before = (asked.words.get(one.name, "") for one in (FILE, BEFORE))
    more: dict[str, object] = {"file": uploads.measured(files)}
    if before:
        more["against"] = uploads.measured(before)
    step: Json = {}
    if (capture := file_of(asked)) is not None:
        step, more["capture"] = capture_words(asked, capture), captured(asked, capture)
    key = (VERB, files, before, str(step), *sorted(said.items()))
    found: Diagnosis = asked.kept(key, lambda: asked.call(diagnose, VERB, said, more))
    return found


def answer(asked: Asked, shown: Callable[[Asked], bool] = is_measured) -> Estimate | Diagnosis:
    """The same where something measured is shown, else the prediction that it would be held against."""
    if shown(asked):
        return diagnosed(asked)
    found: Estimate = asked.ask("estimate", with_best(asked))
    return found


def answer_words(asked: Asked, shown: Callable[[Asked], bool] = is_measured) -> Mapping[str, object]:
    """The words of that answer."""
    return words(asked) if shown(asked) else with_best(asked)


def words(asked: Asked) -> Mapping[str, object]:
    """A diagnosis as a command says it, with the names that files had."""
    names = asked.server.uploads.names
    files, before = (
        [names.get(word, word) for word in asked.words.get(one.name, "").split()] for one in (FILE, BEFORE)
    )
    said = ({"file": files} if files else {}) | shell_words(VERB, _said(asked), names)
    if (capture := file_of(asked)) is not None:
        step = capture_words(asked, capture)
        said |= {"capture": step.pop("model"), **step}
    return said | ({"against": before[0] if len(before) == 1 else OTHER} if before else {})


def measured_figures(found: Diagnosis) -> list[Json]:
    """Both steps and what lies between them."""
    one, measured_s, mfu = found.predicted, found.measured_s, found.mfu_frac
    shown = [] if measured_s is None else [figure("Measured step", format_time(measured_s, 4))]
    if found.captured is not None:
        step = found.captured.step
        between = f"{format_time(step.low_s)} to {format_time(step.high_s)}"
        shown.append(figure("Captured step", format_time(step.time.step_time_s), between))
    if one is None:
        return shown
    shown.append(figure("Predicted step", format_time(one.step_time_s), one.said_interval))
    if measured_s is not None and mfu is not None:
        inside = one.interval.low <= measured_s <= one.interval.high
        difference = signed(measured_s - one.step_time_s, format_time)
        shown.append(figure("Difference", difference, f"{'inside' if inside else 'outside'} the interval"))
        shown.append(
            figure(f"{one.utilisation.name} measured", format_frac(mfu), f"{format_frac(one.mfu_frac)} predicted")
        )
    return shown


def _said(asked: Asked) -> dict[str, str]:
    """The question with the layout of the plan where it has none.

    Without a model, that of a log which states its run, else what was measured alone.
    """
    given = asked.words
    if file_of(asked) is not None:
        given = {name: value for name, value in given.items() if name in SAID}
    elif given.get("model"):
        given = with_best(asked)
    elif not (given.get("cluster") and asked.server.uploads.stated(given.get(FILE.name, ""))):
        given = {name: value for name, value in given.items() if name in SAID}
    return allowed(VERB, given)
