"""A job on a cluster and on parts of it: where more devices stop helping."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.errors import BadInput
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_money_usd, parse_time_s
from lockstep.show.verbs.words.calling import verb
from lockstep.show.verbs.words.meaning import refuse_idle
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.network import flags
from lockstep.show.verbs.words.operations import read_operation
from lockstep.show.verbs.words.option import Option, Switch, taken
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import positive, read_question
from lockstep.show.verbs.words.shared import CLUSTER, MODEL, OperationWords, QuestionWords, TargetWords
from lockstep.show.verbs.words.targets import read_target

if TYPE_CHECKING:
    from lockstep.decide.campaigns import Scaling


class ScalingWords(QuestionWords, OperationWords, TargetWords, total=False):
    """Keywords of `scaling`: those of a planner's question and those of an operation."""


DEADLINE = Option("D", "Deadline, e.g. 30d: finds the fewest devices that finish in time, failures included.")
BUDGET = Option("USD", "Budget in dollars: finds the fastest size that it pays for.")


@verb
def scaling(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    weak: Annotated[bool, Switch("Grow the batch with the devices; --batch is the batch on all of them.")] = False,
    deadline: Annotated[Time | None, DEADLINE] = None,
    budget: Annotated[Quantity | None, BUDGET] = None,
    progress: Progress | None = None,
    **words: Unpack[ScalingWords],
) -> "Scaling":
    """Parts of `cluster` and all of it, each planned anew: where more devices stop helping.

    Strong scaling keeps the batch, `weak` cuts it with the devices. With a target (as for `campaign`) rows have days
    and money with failures; `deadline` and `budget` choose a size. Raises Infeasible when nothing fits on any size.
    """
    from lockstep.decide.campaigns import scaling as find

    operation, aim = taken(words, OperationWords), taken(words, TargetWords)
    question = taken(words, QuestionWords)
    asked = read_question(model, cluster, **question)
    refuse_idle(question, asked.job)
    target = read_target(asked.model, aim, asked.recipe)
    if target is None:
        _refuse_operation(operation)
    with flags("--write"):
        return find(
            asked.model,
            asked.cluster,
            asked.recipe,
            target=target,
            operation=partial(read_operation, asked.cluster, operation),
            weak=weak,
            deadline_s=None if deadline is None else positive(parse_time_s(deadline, "--deadline"), "--deadline"),
            budget_usd=None if budget is None else positive(parse_money_usd(budget, "--budget"), "--budget"),
            progress=progress,
        )


def _refuse_operation(words: Mapping[str, object]) -> None:
    """Without a target there is no run that could fail or save."""
    for name in sorted(name for name, value in words.items() if value is not None):
        flag = f"--{name.removesuffix('_frac').replace('_', '-')}"
        raise BadInput("needs the length of a run: --tokens, --loss or --compute-optimal", flag)
