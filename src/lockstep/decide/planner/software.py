"""`Software`: the training software that a plan is for: its newest stack, and the layouts that it can run.

    --for NAME     the stack whose times are used          the configuration that is written
    megatron       megatron-te                             flags of Megatron-LM
    bridge         megatron-te                             YAML over a recipe of Megatron Bridge
    torchtitan     torchtitan                              its TOML
    deepspeed      deepspeed                               its JSON
    nanotron       nanotron                                its YAML
    hf, fsdp       hf-trainer, fsdp-compile                YAML of Accelerate

A search keeps to the axes that the software has (`CHOICES` of its export), and asks the export about every layout that
it would choose: what a flag or a key does not exist for is not chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockstep.base.errors import BadInput, Infeasible, UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.decide.planner.candidates import AlsoHeld
from lockstep.decide.planner.export import CHOICES, TARGETS, version
from lockstep.decide.planner.export.refusals import Placed, Refusals, refuse_model
from lockstep.decide.planner.points import Refuses
from lockstep.decide.planner.search import Takes
from lockstep.decide.planner.space import Space
from lockstep.describe.stacks import DEFAULT, default_stack, stack
from lockstep.describe.workload import RECOMPUTE, Model, Transformer
from lockstep.describe.workload.modules import never_fused
from lockstep.price.layout import Job, Layout, Recipe

AXES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "sharding": ("--zero", lambda pair: f"{pair[0]}"),
    "schedules": ("--schedule", str),
    "recompute": ("--recompute", lambda code: RECOMPUTE[code]),
    "sequence_parallel": ("--sequence-parallel", lambda code: "on" if code else "off"),
}
"""Axes whose values are written otherwise on the command line."""


@dataclass(frozen=True, slots=True)
class Software:
    """Training software with a configuration that can be written."""

    name: str
    target: str
    """Of `export`."""

    @property
    def stack(self) -> str:
        """The newest release whose times are known: a name of `stacks`."""
        return stack(self.name).name

    @property
    def version(self) -> str:
        """The software and the version that its configuration is written for."""
        return version(self.target)

    def narrowed(self, space: Space) -> Space:
        """What the software has of `space`. Raises BadInput at what was given and does not exist there."""
        kept: Json = {}
        for axis, allowed in CHOICES[self.target].items():
            kept[axis] = tuple(one for one in getattr(space, axis) if one in allowed)
            if not kept[axis]:
                flag, write = AXES.get(axis, (f"--{axis.replace('_', '-')}", str))
                had = ", ".join(dict.fromkeys(map(write, allowed)))
                given = ", ".join(dict.fromkeys(map(write, getattr(space, axis))))
                raise BadInput(f"{self.version} does not run {given}; it has {had}", flag)
        return replace(space, **kept)

    def also_B(self, job: Job) -> AlsoHeld | None:
        """What layouts hold at a moment that a step does not have; None where there is none."""

    def takes(self, job: Job) -> Takes:
        """Whether the software can run a layout of `job`."""
        return lambda layout: self.why_not(job, layout) is None

    def refuses(self, job: Job) -> Refuses:
        """Why the software cannot run a layout of `job`, as a text."""

        def reason(layout: Layout) -> str:
            error = self.why_not(job, layout)
            return "" if error is None else "; ".join(one.why for one in error.violations)

        return reason

    def why_not(self, job: Job, layout: Layout) -> Infeasible | None:
        """Every reason why the software cannot run a layout; None where it can."""
        try:
            TARGETS[self.target](Placed(job, layout))
        except Infeasible as error:
            return error
        return None

    def nothing(self, job: Job, fastest: Layout) -> Infeasible:
        """The error where none of the layouts that fit can be run, `fastest` among them."""
        reasons = self.why_not(job, fastest)
        violations = reasons.violations if reasons else []
        said = "; ".join(one.why for one in violations)
        return Infeasible(
            f"{self.version} can run none of the layouts that fit; the fastest, {fastest}: {said}", violations
        )

    def check(self, job: Job) -> None:
        """Raises Infeasible where no layout can be run, whatever it is: of the model or the recipe."""
        sharding: Any = CHOICES[self.target].get("sharding", ((0, 0), (1, 0)))
        pair = job.recipe.objective.pair
        plain = [Layout(dp=job.devices, zero=zero, micro_batch=pair) for zero, _ in sharding]
        errors = [self.why_not(job, layout) for layout in plain]
        refused = [{one.why for one in error.violations} if error else set[str]() for error in errors]
        if set.intersection(*refused):
            raise next(error for error in errors if error)


SOFTWARE = {
    one.name: one
    for one in (
        Software("megatron", "megatron"),
        Software("bridge", "bridge"),
        Software("torchtitan", "torchtitan"),
        Software("deepspeed", "deepspeed"),
        Software("nanotron", "nanotron"),
        Software("hf", "accelerate"),
        Software("fsdp", "accelerate"),
    )
}


def software(name: str) -> Software:
    """The software called `name`. Raises UnknownName."""
    if name not in SOFTWARE:
        raise UnknownName("training software", name, SOFTWARE, "--for")
    return SOFTWARE[name]


def usual_stack(model: Model, vendor: str) -> tuple[str, tuple[str, ...]]:
    """The stack that times are of where none is given, and why, where it is not the usual one of the vendor's devices.

    What software for decoders of text does not train (images, an encoder with a decoder) is timed as the first software
    of the table that can train it.
    """
    usual = default_stack(vendor)
    no = Refusals("Megatron-LM")
    refuse_model(_plainly(model, usual), no)
    if usual != DEFAULT or not no.reasons:
        return usual, ()
    trains = (one.stack for one in SOFTWARE.values() if one.why_not(_plainly(model, one.stack), Layout()) is None)
    found = next(trains, usual)
    return found, (f"software {found}, as --stack was not given and Megatron-LM is not for it: {no.reasons[0]}",)


def _plainly(model: Model, software: str) -> Job:
    """The model trained by some software on one device, with nothing chosen."""
    return Job(model, Recipe.by(software, seq=2, batch=1), 1)


def of_class(recipe: Recipe, model: Model) -> Recipe:
    """The recipe as its software trains the class of a model: without fused attention where that has none."""
    if not isinstance(model, Transformer) or not recipe.software.ways["permutation"].name.startswith("transformers"):
        return recipe
    if not never_fused(model.model_type, model.attention.heads, model.attention.kv_heads):
        return recipe
    told = f"attention is not fused: the class of {model.name} in transformers never runs a fused kernel"
    return replace(recipe, flash_attention=False, notes=(*recipe.notes, told))
