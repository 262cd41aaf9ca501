"""The best parallel layouts of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.errors import BadInput, Infeasible
from lockstep.units import parse_count, parse_time_s
from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.meaning import refuse_idle
from lockstep.verbs.words.option import Option
from lockstep.verbs.words.quantity import Quantity, Time
from lockstep.verbs.words.question import positive, read_question, whole
from lockstep.verbs.words.shared import CLUSTER, MODEL, QuestionWords

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.planner import Plan
    from lockstep.planner.search import Progress
    from lockstep.workload import Model

MAX_TOP = 1000
MOST_ASKED = 256
"""Devices up to which a plan that does not fit is asked again with every change: a search each."""


_LAYOUT = "Layout"


@verb
def plan(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster, CLUSTER],
    *,
    tokens: Annotated[
        Quantity | None,
        Option("T", "Training tokens, e.g. 15T: adds days and cost, failures not included (see lockstep campaign)."),
    ] = None,
    objective: Annotated[
        str,
        Option(
            "O",
            "What to minimise: robust, the time when links and software turn out slow, among layouts at most 3 % "
            "slower than the fastest; time, by the formulas alone; or cost, for the cheapest size up to the cluster's.",
        ),
    ] = "robust",
    deadline: Annotated[
        Time | None, Option("D", "Deadline, e.g. 30d, with --tokens: finds the fewest devices that finish in time.")
    ] = None,
    top: Annotated[Quantity, Option("K", "Number of layouts to list. (default: 5)")] = 5,
    offload: Annotated[
        str,
        Option(
            "W",
            "State kept in host memory: none, optimizer (and gradients) or parameters (as well, at ZeRO 3). "
            "(default: none)",
            panel=_LAYOUT,
        ),
    ] = "none",
    progress: Progress | None = None,
    **words: Unpack[QuestionWords],
) -> Plan:
    """The best layouts, the Pareto front and why the others were not chosen. Raises Infeasible when nothing fits."""
    from lockstep.planner import plan as find_plan

    asked = read_question(model, cluster, **words)
    refuse_idle(words, asked.job)
    listed = whole(top, "--top")
    if listed > MAX_TOP:
        raise BadInput(f"must be at most {MAX_TOP}, got {listed}", "--top")
    try:
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
    except Infeasible as error:
        if any(one.why == "memory" for one in error.violations) and asked.cluster.num_devices <= MOST_ASKED:
            from lockstep.planner.levers import levers

            error.levers = levers(asked.model, asked.cluster, asked.recipe, offload)
        raise
