"""The best parallel layouts of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.errors import BadInput, Infeasible
from lockstep.units import parse_count, parse_time_s
from lockstep.verbs.words.calling import verb
from lockstep.verbs.words.meaning import refuse_idle
from lockstep.verbs.words.option import Option
from lockstep.verbs.words.pins import first_pins, read_pins
from lockstep.verbs.words.quantity import Quantity, Time
from lockstep.verbs.words.question import positive, read_layout, read_question, whole
from lockstep.verbs.words.shared import CLUSTER, LAYOUT_WORDS, MODEL, PinWords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.hardware import Cluster
    from lockstep.layout import Job
    from lockstep.planner import Plan
    from lockstep.planner.search import Progress
    from lockstep.types.plain import Json
    from lockstep.workload import Model

MAX_TOP = 1000
OF_MEMORY = ("memory", "host memory")
"""Why layouts that keep the rules are rejected."""
MOST_ASKED = 256
"""Devices up to which a plan that does not fit is asked again with every change: a search each."""


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
    software: Annotated[
        str | None,
        Option(
            "SOFTWARE",
            "Only layouts that this software can run, timed with its newest --stack: megatron, torchtitan or "
            "deepspeed. --export writes its configuration.",
            "--for",
            names="software",
        ),
    ] = None,
    top: Annotated[Quantity, Option("K", "Number of layouts to list. (default: 5)")] = 5,
    progress: Progress | None = None,
    **words: Unpack[PinWords],
) -> Plan:
    """The best layouts, the Pareto front and why the others were not chosen. Raises Infeasible when nothing fits."""
    from lockstep.planner import plan as find_plan
    from lockstep.planner import software as find_software

    described: Json = dict(words)
    said = {name: described.pop(name) for name in LAYOUT_WORDS if name in described}
    wanted = None if software is None else find_software(software)
    if wanted is not None and described.get("stack") is None:
        described["stack"] = wanted.stack
    asked, pins = read_question(model, cluster, **described), read_pins(said)
    refuse_idle(described, asked.job)
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
            pins=pins,
            software=wanted,
            progress=progress,
        )
    except Infeasible as error:
        if all(one.why not in OF_MEMORY for one in error.violations):
            _refuse_pins(asked.job, {**described, **first_pins(said)}, asked.cluster)
        elif asked.cluster.num_devices <= MOST_ASKED:
            from lockstep.planner.levers import levers

            error.levers = levers(asked.model, asked.cluster, asked.recipe, pins)
        raise


def _refuse_pins(job: Job, words: Mapping[str, object], cluster: Cluster) -> None:
    """Raises BadInput where what is decided of the layout breaks a rule whatever the rest is."""
    layout = read_layout(job, {name: value for name, value in words.items() if name in LAYOUT_WORDS}, cluster)
    refuse_idle(words, job, layout)
