"""The verb about rules of thumb: `guide`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from lockstep.hardware import Cluster
from lockstep.planner.search import Progress
from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.layout import QuestionWords
from lockstep.verbs.words.meaning import refuse_idle
from lockstep.verbs.words.question import read_question
from lockstep.workload import Model

if TYPE_CHECKING:
    from lockstep.planner.guide import Guidance


@verb
def guide(
    model: str | Path | Model,
    cluster: str | Path | Cluster,
    *,
    progress: Progress | None = None,
    **words: Unpack[QuestionWords],
) -> Guidance:
    """The layout that the field's rules lead to, rule by rule, compared with the planner's best. Raises BadInput."""
    from lockstep.planner.guide import guide as ask

    asked = read_question(model, cluster, **words)
    refuse_idle(words, asked.job)
    return ask(asked.model, asked.cluster, asked.recipe, progress)
