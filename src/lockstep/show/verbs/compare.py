"""Two runs next to each other: what makes the difference between their steps, and whether it exceeds the error."""

import os
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, cast

from lockstep.base.documents.files import YAML_ENDINGS
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.types.plain import Json
from lockstep.show.verbs.capture import compare_captures, is_capture
from lockstep.show.verbs.estimate import best_estimate, names_layout
from lockstep.show.verbs.words.calling import keywords, strict, verb
from lockstep.show.verbs.words.changes import changed_layout, is_change, read_changes
from lockstep.show.verbs.words.named import Cluster, Estimate, Layout, Model, Plan
from lockstep.show.verbs.words.option import Argument
from lockstep.show.verbs.words.plan_file import plan_given
from lockstep.show.verbs.words.shared import CLUSTER, LAYOUT_WORDS, LayoutWords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.decide.planner.comparison import Comparison

CASE = "case:"


A = Argument(
    "A", "Run: a plan file (plan -o), a case study (case:NAME or its YAML file), a captured step or a MODEL.", "models"
)
B = Argument("B", "The run to compare with it, or changes of A as OPTION=VALUE: 'tp=8 pp=2'.", "models")


@verb
def compare(
    a: Annotated[str | Path | Model | Plan | Estimate, A],
    b: Annotated[str | Path | Model | Plan | Estimate | Mapping[str, Any], B],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    **words: Unpack[LayoutWords],
) -> "Comparison":
    """The difference between two steps by part, their memory, and whether it is inconclusive.

    Options hold for both runs. A MODEL without a layout is planned first. Changes may be a mapping.
    """
    from lockstep.decide.planner.comparison import compare as compare_estimates

    if is_capture(a):
        return compare_captures(str(a), b, cluster, words)
    if is_capture(b):
        raise BadInput("is a captured step, and A is none", "B")
    both: Json = {"cluster": cluster, **words}
    with _called("A"):
        run = _known(a)
        first = _asked(run, **both)
    with _called("B"):
        second = _changed(run, first, b, both) if _is_change(b) else _asked(_known(cast(Any, b)), **both)
    return compare_estimates(first, second)


def _is_change(b: object) -> bool:
    return isinstance(b, Mapping) or (is_change(b) and not os.path.isfile(str(b)))


@strict
def _asked(
    model: str | Path | Model | Estimate,
    cluster: str | Path | Cluster | None = None,
    layout: Layout | None = None,
    **words: Unpack[LayoutWords],
) -> Estimate:
    """The estimate of a run."""
    return best_estimate(model, cluster, layout, words)


def _known(run: str | Path | Model | Plan | Estimate) -> str | Path | Model | Estimate:
    """An estimate where `run` has been predicted already, or is a published run: that of its longest stretch."""
    from lockstep.decide.planner.result import Plan

    if isinstance(run, Plan):
        return run.best
    if not isinstance(run, str | Path):
        return run
    name = str(run).removeprefix(CASE)
    if name == str(run) and not _describes_case(run):
        return run
    from lockstep.check.validation.cases import predict, study

    stretches = predict(study(name)).stretches
    return max(stretches, key=lambda one: (not one.stretch.apart, one.stretch.tokens or 0.0)).estimate


def _describes_case(path: str | Path) -> bool:
    from lockstep.base.documents import read_yaml

    return str(path).lower().endswith(YAML_ENDINGS) and os.path.isfile(path) and "stretches" in read_yaml(path)[0]


def _changed(a: str | Path | Model | Estimate, first: Estimate, b: object, words: Json) -> Estimate:
    """A with the changes of B; where no layout of A was given, those of a layout start from the one that was found."""
    from lockstep.decide.planner.estimate import Estimate

    changes: Json = {**b} if isinstance(b, Mapping) else read_changes(str(b), "B")
    options = [name for name in keywords(_asked) if name != "model"]
    unknown = next((name for name in changes if name not in options), None)
    if unknown is not None:
        raise UnknownName("option", unknown, options, "B")
    others = [name for name in changes if name not in LAYOUT_WORDS]
    if isinstance(a, Estimate):
        if others:
            raise BadInput(f"{others[0]} cannot be changed in an answer; give a MODEL or a plan file as A", "B")
        return _of_layout(first, changed_layout(first.layout, changes))
    named = plan_given(a) is not None or names_layout(None, words)
    found = changed_layout(first.layout, changes) if len(others) < len(changes) and not named else {}
    for one, other in (("batch", "batch_tokens"), ("batch_tokens", "batch")):
        words = words | ({other: None} if one in changes else {})
    asked = {**words, **found, **changes}
    try:
        return _asked(a, **asked)
    except BadInput as error:
        about = error.__cause__ if isinstance(error.__cause__, BadInput) else error
        if about.where != "--micro-batch" or "micro_batch" in changes or words.get("micro_batch") is not None:
            raise
        return _fitting(a, asked, first.layout.micro_batch)


def _fitting(a: str | Path | Model, words: Json, most: int) -> Estimate:
    """With the largest micro-batch below A's that the batch allows: nobody asked for the one that A has."""
    from lockstep.price.layout import divisors

    for one in sorted(divisors(most, most - 1), reverse=True):
        try:
            return _asked(a, **{**words, "micro_batch": one})
        except BadInput as error:
            if error.where != "--micro-batch":
                raise
    return _asked(a, **words)


def _of_layout(found: Estimate, words: Json) -> Estimate:
    from lockstep.decide.planner.estimate import estimate
    from lockstep.show.verbs.words.question import read_layout

    return estimate(found.job, found.cluster, read_layout(found.job, words, found.cluster))


@contextmanager
def _called(name: str) -> "Iterator[None]":
    """Errors about MODEL are about the run of this name."""
    try:
        yield
    except BadInput as error:
        if error.where != "MODEL":
            raise
        raise BadInput(error.message, name) from None
