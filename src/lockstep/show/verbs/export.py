"""Launch flags or a configuration file of other software for a layout."""

from pathlib import Path
from typing import Annotated, Unpack

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.estimate import best_estimate, names_layout
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Cluster, Estimate, Layout, Model, Plan
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.shared import CLUSTER, MODEL, LayoutWords


@dataclass(frozen=True, slots=True, repr=False)
class Export(Shown):
    """Launch flags or a configuration file of another tool for one layout."""

    estimate: Estimate
    to: str
    text: str
    version: str
    """The software and its version that the text is written for."""
    planned: Estimate | None = None
    """The planner's best layout, where the software cannot run it and `estimate` is the best that it can."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        from lockstep.decide.planner.from_file import imported

        return {
            **picked(self, "to version text"),
            "planned": None if self.planned is None else picked(self.planned, "layout step_time_s"),
            **picked(self.estimate, "layout step_time_s mfu_frac"),
            "assumptions": list(self.estimate.assumptions()),
            **imported(self.estimate.job),
        }


@strict
def export(
    model: Annotated[str | Path | Model | Plan | Estimate, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    layout: Layout | None = None,
    *,
    to: Annotated[
        str | None,
        Option(
            "TOOL",
            "Target tool: megatron, bridge, deepspeed, torchtitan, torchtitan-cli, accelerate or nanotron.",
            default="what the plan was made for",
        ),
    ] = None,
    **words: Unpack[LayoutWords],
) -> Export:
    """What `to` (a name of TARGETS, megatron say) is launched with: for a result, the given layout, or the best one.

    Without a layout it is the best one that `to` can run, and states what that costs against the planner's best.
    Raises UnknownName, BadInput, and Infeasible with every reason why `to` cannot run it.
    """
    from lockstep.decide.planner.estimate import Estimate
    from lockstep.decide.planner.export import TARGETS, version
    from lockstep.decide.planner.export import export as write
    from lockstep.decide.planner.result import Plan
    from lockstep.decide.planner.runnable import best_for

    if to is None and isinstance(model, Plan) and model.software is not None:
        to = model.software.target
    if to is None:
        raise BadInput(f"name the tool to write for: {', '.join(TARGETS)}", "--to")
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
