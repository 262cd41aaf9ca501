"""The verb about rules of thumb: `guide`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.types.progress import Progress
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.meaning import refuse_idle
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.question import read_question
from lockstep.show.verbs.words.shared import CLUSTER, MODEL, QuestionWords

if TYPE_CHECKING:
    from lockstep.decide.planner.guide import Guidance


@verb
def guide(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    progress: Progress | None = None,
    **words: Unpack[QuestionWords],
) -> "Guidance":
    """The layout that the field's rules lead to, rule by rule, compared with the planner's best. Raises BadInput."""
    from lockstep.decide.planner.guide import guide as ask

    asked = read_question(model, cluster, **words)
    refuse_idle(words, asked.job)
    return ask(asked.model, asked.cluster, asked.recipe, progress)
