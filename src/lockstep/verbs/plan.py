"""The best parallel layouts of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from lockstep.errors import BadInput
from lockstep.hardware import Cluster
from lockstep.planner import Plan
from lockstep.planner import plan as find_plan
from lockstep.planner.search import Progress
from lockstep.units import parse_count, parse_time_s
from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.meaning import refuse_idle
from lockstep.verbs.words.quantity import Quantity, Time
from lockstep.verbs.words.question import positive, read_question, whole
from lockstep.verbs.words.shared import QuestionWords
from lockstep.workload import Model

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
