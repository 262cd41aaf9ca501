"""The best parallel layouts of a training run."""

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from lockstep.base.documents.files import writable_yaml
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.progress import Progress
from lockstep.base.units import parse_frac, parse_time_s
from lockstep.show.verbs.words.about import choosing, sharing
from lockstep.show.verbs.words.calling import strict, verb
from lockstep.show.verbs.words.meaning import refuse_idle
from lockstep.show.verbs.words.named import Cluster, Model
from lockstep.show.verbs.words.option import Option
from lockstep.show.verbs.words.pins import CHOSEN, first_pins, read_choices, read_pins
from lockstep.show.verbs.words.plan_file import write_plan
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import batches_of, positive, read_layout, read_question, whole
from lockstep.show.verbs.words.shared import (
    CLUSTER,
    EPOCHS,
    LAYOUT_WORDS,
    LENGTHS,
    MODEL,
    PACKING,
    SAMPLES,
    LayoutWords,
)
from lockstep.show.verbs.words.targets import read_course, read_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.base.types.plain import Json
    from lockstep.decide.planner.pins import Pins
    from lockstep.decide.planner.result import Plan
    from lockstep.decide.planner.software import Software
    from lockstep.decide.planner.space import Space
    from lockstep.price.layout import Job, Recipe

MAX_TOP = 1000
OF_MEMORY = ("memory", "host memory")
"""Why layouts that keep the rules are rejected."""
MOST_ASKED = 256
"""Devices up to which a plan that does not fit is asked again with every change: a search each."""


def _together(batches: "Sequence[Quantity]") -> AbstractContextManager[None]:
    """A context in which plans with these batches are searched together."""
    from lockstep.decide.planner.alike import alike

    return alike(batches_of(batches))


TOKENS = Option("T", "Training tokens, e.g. 15T; adds days and cost, failures not included (see lockstep campaign).")
OBJECTIVE = Option(
    "O",
    "What to minimise: robust, time or cost; robust is the time when links and software turn out slow, among layouts "
    "at most 3 % slower than the fastest; time is by the formulas alone; cost is that of the cheapest size up to the "
    "cluster's.",
    default="robust",
)
DEADLINE = Option("D", "Deadline, e.g. 30d, with --tokens: finds the fewest devices that finish in time.")
SOFTWARE = Option(
    "SOFTWARE",
    "Only layouts that this software can run: megatron, bridge, torchtitan, deepspeed, nanotron, hf (Hugging Face's "
    "Trainer) or fsdp; timed with its newest --stack. --export writes its configuration.",
    "--for",
    names="software",
)
OOM_RISK = Option(
    "P",
    "Only layouts that run out of memory with at most this probability, from 1% to 99%; memory tells a layout's.",
)
OUT = Option("FILE", "File for the question and the best layout, ending in .yaml; MODEL of other verbs.", "-o")


@verb
@sharing("batch", _together)
@choosing(CHOSEN, LAYOUT_WORDS)
def plan(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    tokens: Annotated[Quantity | None, TOKENS] = None,
    samples: Annotated[Quantity | None, SAMPLES] = None,
    epochs: Annotated[Quantity | None, EPOCHS] = None,
    lengths: Annotated[str | None, LENGTHS] = None,
    packing: Annotated[str | None, PACKING] = None,
    objective: Annotated[str, OBJECTIVE] = "robust",
    deadline: Annotated[Time | None, DEADLINE] = None,
    software: Annotated[str | None, SOFTWARE] = None,
    oom_risk: Annotated[Quantity | None, OOM_RISK] = None,
    out: Annotated[str | Path | None, OUT] = None,
    top: Annotated[Quantity, Option("K", "Number of layouts to list.", default="5")] = 5,
    progress: Progress | None = None,
    **words: Unpack[LayoutWords],
) -> "Plan":
    """The best layouts, the Pareto front and why the others were not chosen. Raises Infeasible when nothing fits."""
    from lockstep.decide.planner.choices import best_of
    from lockstep.decide.planner.neighbours import NEAR_FRAC, NEAR_TOKENS_FRAC
    from lockstep.decide.planner.plan import plan as find_plan

    path = None if out is None else writable_yaml(out, "--out")
    asked = _read(model, cluster, software, dict(words))
    asked = replace(asked, pins=_risking(asked.pins, oom_risk))
    in_tokens = words.get("batch_tokens") is not None
    data: Json = {"tokens": tokens, "samples": samples, "epochs": epochs, "lengths": lengths, "packing": packing}
    first = next(iter(asked.recipes.values()))
    course = read_course(data, first)
    wanted: Json = {
        "tokens": None if course is not None else read_tokens(data, first),
        "course": course,
        "deadline_s": None if deadline is None else positive(parse_time_s(deadline, "--deadline"), "--deadline"),
        "objective": objective,
        "top": whole(top, "--top"),
        "progress": progress,
        "batch_frac": NEAR_TOKENS_FRAC if in_tokens else NEAR_FRAC,
    }
    if wanted["top"] > MAX_TOP:
        raise BadInput(f"must be at most {MAX_TOP}, got {wanted['top']}", "--top")
    wanted |= {"pins": asked.pins, "software": asked.software}
    try:
        found = best_of(asked.recipes, lambda recipe: find_plan(asked.model, asked.cluster, recipe, **wanted))
    except Infeasible as error:
        asked.explain(error)
        raise
    if path is not None:
        chosen = next(text for text, recipe in asked.recipes.items() if recipe is found.job.recipe)
        write_plan(path, found, {"model": model, "cluster": cluster, **asked.said[chosen]})
    return found


def _risking(pins: "Pins", oom_risk: "Quantity | None") -> "Pins":
    """The pins of layouts that run out of memory with at most this probability. Raises BadInput."""
    from lockstep.price.layout import most_used_frac

    if oom_risk is None:
        return pins
    return replace(pins, memory_frac=most_used_frac(parse_frac(oom_risk, "--oom-risk"), "--oom-risk"))


@strict
@choosing(CHOSEN, LAYOUT_WORDS)
def space_of(
    model: Annotated[str | Path | Model, MODEL],
    cluster: Annotated[str | Path | Cluster | None, CLUSTER] = None,
    *,
    software: str | None = None,
    **words: Unpack[LayoutWords],
) -> "tuple[Job, Cluster, Space, Software | None]":
    """What a plan of one recipe searches: the job on the whole cluster, the layouts, and what must be able to run them.

    Raises BadInput.
    """
    from lockstep.price.layout import Job

    asked = _read(model, cluster, software, dict(words))
    job = Job(asked.model, next(iter(asked.recipes.values())), asked.cluster.num_devices)
    space = asked.pins.space(job, asked.cluster.devices_per_unit(0))
    narrow = space if asked.software is None else asked.software.narrowed(space)
    return job, asked.cluster, narrow, asked.software


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a plan is asked, as objects; and the words of the first recipe and layout among those it may choose from."""

    model: Model
    cluster: Cluster
    recipes: "Mapping[str, Recipe]"
    said: "Mapping[str, Json]"
    """The words of each recipe."""
    pins: "Pins"
    software: "Software | None"
    words: "Json"

    def explain(self, error: Infeasible) -> None:
        """Adds what would make it fit to `error`. Raises BadInput where what is given of the layout is impossible."""
        from lockstep.decide.planner.levers import levers
        from lockstep.price.layout import Job

        recipe = next(iter(self.recipes.values()))
        if all(one.why not in OF_MEMORY for one in error.violations):
            job = Job(self.model, recipe, self.cluster.num_devices)
            said = {name: value for name, value in self.words.items() if name in LAYOUT_WORDS}
            try:
                refuse_idle(self.words, job, read_layout(job, said, self.cluster))
            except BadInput as broken:
                # Of a word that was not given, the search has tried the other values.
                if (broken.where or "").removeprefix("--").replace("-", "_") in self.words:
                    raise
        elif self.cluster.num_devices <= MOST_ASKED:
            error.find_levers = partial(levers, self.model, self.cluster, recipe, self.pins)


def _read(
    model: str | Path | Model, cluster: str | Path | Cluster | None, software: str | None, words: "Json"
) -> _Asked:
    """The question. Raises BadInput and UnknownName at the flag."""
    from lockstep.decide.planner.software import software as find_software

    found = None if software is None else find_software(software)
    if found is not None and words.get("stack") is None:
        words["stack"] = found.stack
    layout = {name: words.pop(name) for name in LAYOUT_WORDS if name in words}
    pins, several = read_pins(layout), read_choices(words)
    asked = {text: read_question(model, cluster, **one) for text, one in several.items()}
    for text, one in several.items():
        refuse_idle(one, asked[text].job)
    text, first = next(iter(asked.items()))
    recipes = {text: one.recipe for text, one in asked.items()}
    known = {**several[text], **first_pins(layout)}
    return _Asked(first.model, first.cluster, recipes, several, pins, found, known)
