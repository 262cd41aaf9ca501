"""The answer about a run as one document: plan, step, memory, what would change it, what it rests on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.documents.files import writable
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, plain
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.capture import CapturedMemory, is_capture, read_capture
from lockstep.show.verbs.cite import cite
from lockstep.show.verbs.memory import StageMemories
from lockstep.show.verbs.plan import plan
from lockstep.show.verbs.sensitivity import advise
from lockstep.show.verbs.support import support
from lockstep.show.verbs.words.about import choosing
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.pins import CHOSEN
from lockstep.show.verbs.words.quantity import Quantity
from lockstep.show.verbs.words.shared import CLUSTER, LAYOUT_WORDS, MODEL, LayoutWords
from lockstep.show.verbs.words.varied import AT, At, refuse_at

if TYPE_CHECKING:
    from lockstep.check.validation.nearest import Near
    from lockstep.decide.planner.result import Plan
    from lockstep.show.verbs.cite import References
    from lockstep.show.verbs.sensitivity import Advice
    from lockstep.show.verbs.support import Matrix


@dataclass(frozen=True, slots=True, repr=False)
class RunReport(Shown):
    """A plan and what the other verbs say of its best layout."""

    plan: "Plan"
    memory: StageMemories
    advice: "Advice"
    support: "Matrix"
    """What is published of the device."""
    references: "References"
    near: "tuple[Near, ...]"
    """Published steps that are most like it."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            "plan": self.plan.to_dict(),
            "memory": self.memory.to_dict(),
            "sensitivity": self.advice.to_dict(),
            "support": self.support.to_dict(),
            **self.references.to_dict(),
            "nearest": plain(self.near),
        }


OBJECTIVE = Option("O", "What the plan minimises: robust, time or cost (see lockstep plan).")
SOFTWARE = Option("SOFTWARE", "Only layouts that this software can run (see lockstep plan).", "--for")


@strict
@choosing(CHOSEN, LAYOUT_WORDS)
def report(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    out: Annotated[str | Path | None, Option("FILE", "File for the report, ending in .html.", "-o")] = None,
    tokens: Annotated[Quantity | None, Option("T", "Training tokens, e.g. 15T: adds days and cost.")] = None,
    objective: Annotated[str, OBJECTIVE] = "robust",
    software: Annotated[str | None, SOFTWARE] = None,
    at: Annotated[At, AT] = (),
    **words: Unpack[LayoutWords],
) -> RunReport | CapturedMemory:
    """The plan of a run, or a captured step, with all that there is to say of it, written to `out` where it is given.

    Raises Infeasible when nothing fits, BadInput where the file cannot be written.
    """
    from lockstep.check.validation.nearest import nearest
    from lockstep.decide.planner.estimate import stage_memories

    path = None if out is None else writable(Path(out), "--out")
    if path is not None and path.suffix not in (".html", ".htm"):
        raise BadInput(f"{path.name!r} must end in .html", "--out")
    if is_capture(model):
        step = read_capture(str(model), cluster, {**words, "tokens": tokens, "for": software}, at)
        if path is not None:
            step.save(path)
        return step
    refuse_at(at)
    found = plan(model, cluster, tokens=tokens, objective=objective, software=software, **words)
    best = found.best
    stages = tuple(stage_memories(best.job, best.cluster, best.layout))
    made = RunReport(
        found,
        StageMemories(best.job, best.cluster, best.layout, stages),
        advise(best),
        support(best.cluster.device.name),
        cite(best),
        nearest(best),
    )
    if path is not None:
        made.save(path)
    return made
