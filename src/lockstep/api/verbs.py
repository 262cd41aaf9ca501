"""The verbs about a training run: names, paths and quantities are read, and the library is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from lockstep.api.advice import Advice, advise
from lockstep.api.calling import strict, verb
from lockstep.api.meaning import refuse_idle
from lockstep.api.quantity import Quantity, Time
from lockstep.api.question import Question, read_layout, read_question, whole
from lockstep.api.recipe import is_usual
from lockstep.api.stage_memories import StageMemories
from lockstep.api.words import LAYOUT_WORDS, LayoutWords, QuestionWords
from lockstep.errors import BadInput, Infeasible
from lockstep.hardware import Cluster
from lockstep.layout import Layout, check
from lockstep.planner import Estimate, Plan, stage_memories
from lockstep.planner import estimate as estimate_layout
from lockstep.planner import plan as find_plan
from lockstep.planner.search import Progress
from lockstep.units import parse_count, parse_time_s
from lockstep.workload import Model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.planner.citations import Citation
    from lockstep.planner.roofline import Roofline

MAX_TOP = 1000


@verb
def plan(
    model: str | Path | Model,
    cluster: str | Path | Cluster,
    *,
    tokens: Quantity | None = None,
    objective: str = "time",
    deadline: Time | None = None,
    top: Quantity = 5,
    offload: str = "none",
    progress: Progress | None = None,
    **words: Unpack[QuestionWords],
) -> Plan:
    """The best layouts, the Pareto front and why the others were not chosen. Raises Infeasible when nothing fits."""
    asked = read_question(model, cluster, **words)
    refuse_idle(words, asked.job)
    listed = whole(top, "--top")
    if listed > MAX_TOP:
        raise BadInput(f"must be at most {MAX_TOP}, got {listed}", "--top")
    return find_plan(
        asked.model,
        asked.cluster,
        asked.recipe,
        tokens=None if tokens is None else positive(parse_count(tokens, "--tokens"), "--tokens"),
        deadline_s=None if deadline is None else positive(parse_time_s(deadline, "--deadline"), "--deadline"),
        objective=objective,
        top=listed,
        offload=offload,
        progress=progress,
    )


@verb
def estimate(
    model: str | Path | Model, cluster: str | Path | Cluster, layout: Layout | None = None, **words: Unpack[LayoutWords]
) -> Estimate:
    """Step time, memory and their parts for one layout. Raises BadInput when it breaks a rule."""
    asked, chosen = _asked(model, cluster, layout, dict(words))
    return estimate_layout(asked.job, asked.cluster, chosen)


@verb
def memory(
    model: str | Path | Model, cluster: str | Path | Cluster, layout: Layout | None = None, **words: Unpack[LayoutWords]
) -> StageMemories:
    """Bytes on one rank of every pipeline stage, by category."""
    asked, chosen = _asked(model, cluster, layout, dict(words))
    stages = stage_memories(asked.job, asked.cluster, chosen)
    return StageMemories(asked.job, asked.cluster, chosen, tuple(stages))


@verb
def roofline(
    model: str | Path | Model, cluster: str | Path | Cluster, layout: Layout | None = None, **words: Unpack[LayoutWords]
) -> Roofline:
    """Communication roofline: one per level of the cluster that the layout talks over."""
    from lockstep.planner.roofline import roofline as find_roofline

    asked, chosen = _asked(model, cluster, layout, dict(words))
    return find_roofline(asked.job, asked.cluster, chosen)


@verb
def sensitivity(
    model: str | Path | Model, cluster: str | Path | Cluster, layout: Layout | None = None, **words: Unpack[LayoutWords]
) -> Advice:
    """How the step time follows each number of hardware and layout, and which upgrades save most."""
    return advise(estimate(model, cluster, layout, **words))


@dataclass(frozen=True, slots=True)
class Export:
    """Launch flags or a configuration file of another tool for one layout."""

    estimate: Estimate
    to: str
    text: str
    version: str
    """The software and its version that the text is written for."""
    planned: Estimate | None = None
    """The planner's best layout, where the software cannot run it and `estimate` is the best that it can."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        answer, planned = self.estimate.to_dict(), self.planned
        kept = ("layout", "step_time_s", "mfu_frac", "assumptions")
        instead = None
        if planned is not None:
            instead = {"layout": planned.layout.to_dict(), "step_time_s": planned.step_time_s}
        said = {"to": self.to, "version": self.version, "text": self.text, "planned": instead}
        return said | {key: answer[key] for key in kept}


@strict
def export(
    model: str | Path | Model | Plan | Estimate,
    cluster: str | Path | Cluster | None = None,
    layout: Layout | None = None,
    *,
    to: str,
    **words: Unpack[LayoutWords],
) -> Export:
    """What `to` (megatron, deepspeed, torchtitan) is launched with: for a result, the given layout, or the best one.

    Without a layout it is the best one that `to` can run, and states what that costs against the planner's best.
    Raises UnknownName, BadInput, and Infeasible with every reason why `to` cannot run it.
    """
    from lockstep.planner.export import best_for, version
    from lockstep.planner.export import export as write

    found = best_estimate(model, cluster, layout, words)
    try:
        return Export(found, to, write(found, to), version(to))
    except Infeasible as error:
        if isinstance(model, Estimate) or names_layout(layout, words):
            raise
        other = best_for(to, found)
        if other is None:
            raise
        text = write(other.estimate, to, other.describe(str(error)))
    return Export(other.estimate, to, text, version(to), found)


@dataclass(frozen=True, slots=True)
class References:
    """The papers and sources that an answer rests on."""

    citations: tuple[Citation, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form."""
        return {"citations": [{"key": one.key, "text": one.text, "bibtex": one.bibtex} for one in self.citations]}


@strict
def cite(
    model: str | Path | Model | Plan | Estimate | None = None,
    cluster: str | Path | Cluster | None = None,
    layout: Layout | None = None,
    **words: Unpack[LayoutWords],
) -> References:
    """Papers and sources behind an answer; without one, every paper that an answer can rest on."""
    from lockstep.planner.citations import citations, papers

    if model is None:
        _refuse_beside("all papers", cluster, layout, words)
        return References(tuple(paper.citation(key) for key, paper in papers().items()))
    return References(citations(best_estimate(model, cluster, layout, words)))


def _asked(
    model: str | Path | Model, cluster: str | Path | Cluster, layout: Layout | None, words: dict[str, Any]
) -> tuple[Question, Layout]:
    """The question and the layout in `words`, or the one given as an object."""
    described = {name: words.pop(name) for name in LAYOUT_WORDS if name in words}
    asked = read_question(model, cluster, **words)
    if layout is None:
        chosen = read_layout(asked.job, described)
        refuse_idle(words | described, asked.job, chosen)
        return asked, chosen
    if any(value is not None for value in described.values()):
        raise BadInput(f"give either a Layout or its options ({', '.join(sorted(described))}), not both", "layout")
    check(layout, asked.job)
    refuse_idle(words, asked.job, layout)
    return asked, layout


def best_estimate(
    model: str | Path | Model | Plan | Estimate,
    cluster: str | Path | Cluster | None,
    layout: Layout | None,
    words: LayoutWords,
) -> Estimate:
    """An estimate as it is, the best of a plan, the one of the layout given, or the best layout of a search."""
    if isinstance(model, Estimate | Plan):
        _refuse_beside("an estimate" if isinstance(model, Estimate) else "a plan", cluster, layout, words)
        return model if isinstance(model, Estimate) else model.best
    if cluster is None:
        raise BadInput("give the cluster to train on, e.g. dgx-h100:64", "--cluster")
    if names_layout(layout, words):
        return estimate(model, cluster, layout, **words)
    searched: Any = {name: value for name, value in words.items() if name not in LAYOUT_WORDS}
    return plan(model, cluster, top=1, offload=words.get("offload") or "none", **searched).best


def names_layout(layout: Layout | None, words: LayoutWords) -> bool:
    """Whether a layout is given, as an object or in words; offload alone belongs to a search too."""
    return layout is not None or any(words.get(name) is not None for name in LAYOUT_WORDS if name != "offload")


def _refuse_beside(
    what: str, cluster: str | Path | Cluster | None, layout: Layout | None, words: Mapping[str, Any]
) -> None:
    """Words of a question mean nothing beside `what`, which is the answer to one already."""
    for name, value in {"cluster": cluster, "layout": layout, **words}.items():
        if value is not None and not is_usual(name, value):
            where = name if name == "layout" else f"--{name.replace('_', '-')}"
            raise BadInput(f"has no effect on {what}; give a MODEL, or leave it out", where)


def positive(number: float, where: str) -> float:
    """`number`, which must not be zero."""
    if number <= 0:
        raise BadInput(f"must be more than zero, got {number:g}", where)
    return number
