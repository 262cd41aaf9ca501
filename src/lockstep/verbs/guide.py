"""The verb about rules of thumb: `guide`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.meaning import refuse_idle
from lockstep.verbs.words.question import read_question
from lockstep.verbs.words.shared import CLUSTER, MODEL, QuestionWords

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.planner.guide import Guidance
    from lockstep.planner.search import Progress
    from lockstep.workload import Model


@verb
def guide(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    progress: Progress | None = None,
    **words: Unpack[QuestionWords],
) -> Guidance:
    """The layout that the field's rules lead to, rule by rule, compared with the planner's best. Raises BadInput."""
    from lockstep.planner.guide import guide as ask

    asked = read_question(model, cluster, **words)
    refuse_idle(words, asked.job)
    return ask(asked.model, asked.cluster, asked.recipe, progress)
