"""Step time and memory of one layout."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.show.verbs.capture import is_capture
from lockstep.show.verbs.plan import plan
from lockstep.show.verbs.words.about import sharing
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.meaning import refuse_idle
from lockstep.show.verbs.words.named import Cluster, Layout, Model
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.question import Question, batches_of, read_layout, read_question
from lockstep.show.verbs.words.shared import CLUSTER, LAYOUT_WORDS, MODEL, LayoutWords
from lockstep.show.verbs.words.varied import AT, STEPS, At, refuse_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.result import Plan


MOST_ALIKE = 100
"""Estimates that differ in the batch alone and are priced in one pass: enough that the pass costs little of each."""


@contextmanager
def _together(batches: "Sequence[Quantity]") -> "Iterator[None]":
    """A context in which estimates with these batches are priced together, and plans for them searched together."""
    from lockstep.decide.planner.alike import alike
    from lockstep.decide.planner.batches import priced_together

    found = batches_of(batches)
    with alike(found), priced_together(found):
        yield


@verb
@sharing("batch", _together, MOST_ALIKE)
def estimate(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    *,
    at: Annotated[At, AT] = (),
    steps: Annotated[Quantity | None, STEPS] = None,
    **words: Unpack[LayoutWords],
) -> "Estimate":
    """Step time, memory and their parts for one layout; without one, for the plan's best.

    Raises BadInput when it breaks a rule, and Infeasible when none is given and none fits.
    """
    from lockstep.decide.planner.estimate import estimate as estimate_layout

    if is_capture(model):
        raise BadInput("is a captured step: lockstep.memory says its memory and its time", str(model))
    refuse_at(at, steps)
    asked, chosen = read_asked(model, cluster, layout, dict(words))
    return estimate_layout(asked.job, asked.cluster, chosen)


def read_asked(
    model: str | Path | Model, cluster: str | Path | Cluster | None, layout: Layout | None, words: Json
) -> tuple[Question, Layout]:
    """The question, and the layout: the one given as an object, the one in `words`, or without either the plan's best.

    Words describe a layout as Megatron-LM's flags do, but a micro-batch that is not given is the plan's choice. What
    was chosen stands in the notes of the recipe. Raises Infeasible, as a plan does, when no layout is given and none
    fits.
    """
    from lockstep.price.layout import check

    if not names_layout(layout, words):
        return _planned(model, cluster, words)
    described = {name: words.pop(name) for name in LAYOUT_WORDS if name in words}
    asked = read_question(model, cluster, **words)
    usual = asked.recipe.software.recompute
    if layout is None and usual != "none" and described.get("recompute") is None:
        described["recompute"] = usual
        name = asked.recipe.software.name
        asked = _noted(asked, f"{usual} recomputation, as {name} has it unless --recompute is given")
    if layout is None:
        chosen = read_layout(asked.job, described, asked.cluster)
        refuse_idle(words | described, asked.job, chosen)
        return (asked, chosen) if described.get("micro_batch") is not None else _with_micro_batch(asked, chosen)
    if any(value is not None for value in described.values()):
        raise BadInput(f"give either a Layout or its options ({', '.join(sorted(described))}), not both", "layout")
    check(layout, asked.job)
    refuse_idle(words, asked.job, layout)
    return asked, layout


def _planned(model: str | Path | Model, cluster: str | Path | Cluster | None, words: Json) -> tuple[Question, Layout]:
    """The question, and the best layout of the plan that answers it. Raises Infeasible."""
    searched = {name: value for name, value in words.items() if name not in LAYOUT_WORDS}
    asked = read_question(model, cluster, **searched)
    found = plan(model, cluster, top=1, offload=words.get("offload") or "none", **searched)
    fit = f"{found.findings.feasible:,} that fit"
    return _noted(asked, f"the plan's best layout of {fit}, as none was given"), found.best.layout


def _with_micro_batch(asked: Question, layout: Layout) -> tuple[Question, Layout]:
    """The question, and the layout with the micro-batch that a plan would choose for it."""
    from lockstep.decide.planner.micro_batch import with_micro_batch

    found = with_micro_batch(asked.job, asked.cluster, layout)
    if found is None:
        return _noted(asked, "micro-batch 1, as --micro-batch was not given and no size fits in memory"), layout
    said = f"micro-batch {found.micro_batch}, the plan's choice for this layout, as --micro-batch was not given"
    return _noted(asked, said), found


def _noted(asked: Question, note: str) -> Question:
    """The question with one more thing that was chosen."""
    return replace(asked, recipe=replace(asked.recipe, notes=(note, *asked.recipe.notes)))


def best_estimate(
    model: "str | Path | Model | Plan | Estimate",
    cluster: str | Path | Cluster | None,
    layout: Layout | None,
    words: LayoutWords,
) -> "Estimate":
    """An estimate as it is, the best of a plan, or that of a question."""
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.result import Plan

    if isinstance(model, Estimate | Plan):
        refuse_beside("an estimate" if isinstance(model, Estimate) else "a plan", cluster, layout, words)
        return model if isinstance(model, Estimate) else model.best
    return estimate(model, cluster, layout, **words)


def names_layout(layout: Layout | None, words: "Mapping[str, object]") -> bool:
    """Whether a layout is given, as an object or in words; offload alone belongs to a search too."""
    return layout is not None or any(words.get(name) is not None for name in LAYOUT_WORDS if name != "offload")


def refuse_beside(
    what: str, cluster: str | Path | Cluster | None, layout: Layout | None, words: "Mapping[str, object]"
) -> None:
    """Words of a question mean nothing beside `what`, which is the answer to one already."""
    for name, value in {"cluster": cluster, "layout": layout, **words}.items():
        if value is not None:
            where = name if name == "layout" else f"--{name.replace('_', '-')}"
            raise BadInput(f"has no effect on {what}; give a MODEL, or leave it out", where)
