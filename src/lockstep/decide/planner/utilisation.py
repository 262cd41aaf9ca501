"""`Utilisation`: the shares of a device's peak that training uses, and the FLOPs that they count.

    MFU = FLOPs that the model needs, by the recipe's convention / (seconds of a step x devices x peak)
    HFU = FLOPs that kernels execute, recomputation included     / (seconds of a step x devices x peak)

A fused attention kernel skips what a causal mask hides, so HFU counts only what the mask leaves, by every convention,
and is at most 1; without a fused kernel all of the scores are computed and counted. MFU counts by convention:

    causal   attention that the mask leaves: at most HFU
    full     every query against every key, as most published tables do: more than kernels execute, so it may be larger
             than HFU, and above 1 where nearly all FLOPs are attention's
    6n       six for every parameter that a token uses, and nothing for attention
"""

from __future__ import annotations

from functools import lru_cache

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json
from lockstep.base.units import format_frac
from lockstep.describe.hardware import Device
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import (
    ConvNet,
    Flops,
    Objective,
    TrainingFlops,
    Transformer,
    convnet_forward_flops,
    head_forward_flops,
    layer_weights,
    parameters,
    training_flops,
)
from lockstep.describe.workload.flops import fold_flops
from lockstep.price.layout import Job, Layout

FIRST = ("query", "key", "value", "query down", "key-value down")
"""Products that read what a layer reads."""
HALF = ("bf16", "fp16")
"""Formats whose peak most published utilisations are of."""
ATTENTION_FRAC = 0.1
"""Share of attention in a model's FLOPs from which on an MFU is shown with its convention."""
COUNTED = {
    "full": "attention counted in full",
    "causal": "attention counted as the causal mask leaves it",
    "6n": "attention not counted",
}
"""How an MFU counts attention, by convention."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """The utilisation of a step, and what has to be known to read it."""

    mfu_frac: float
    """Model FLOPs utilisation by the recipe's convention."""
    causal_mfu_frac: float
    """The same, counting only the attention that a causal mask leaves."""
    hfu_frac: float
    """Hardware FLOPs utilisation: FLOPs that kernels execute."""
    attention_frac: float
    """Share of attention's scores and weighted values in the model's FLOPs, counted in full."""
    convention: str
    dtype: str
    """The format whose dense peak these are of."""
    masked: bool
    """Whether a causal mask hides any of the attention."""

    @property
    def counted(self) -> str:
        """How MFU counts attention; empty where that makes little difference, or none."""
        matters = self.attention_frac >= ATTENTION_FRAC and (self.masked or self.convention == "6n")
        return COUNTED[self.convention] if matters else ""

    @property
    def name(self) -> str:
        """`MFU`, with its peak where that is not half precision's, and its convention where that matters."""
        return _named("MFU", self.notes(self.counted))

    @property
    def peak(self) -> str:
        """Of which peak it is, empty where that is half precision's."""
        return "" if self.dtype in HALF else f"of the {self.dtype} peak"

    def notes(self, counted: str) -> str:
        """What has to be known to read MFU, with `counted` of attention."""
        return "; ".join(filter(None, (self.peak, counted)))

    def longer(self, times: float) -> Utilisation:
        """That of the same step where it takes `times` as long."""
        return replace(
            self,
            mfu_frac=self.mfu_frac / times,
            causal_mfu_frac=self.causal_mfu_frac / times,
            hfu_frac=self.hfu_frac / times,
        )

    def __str__(self) -> str:
        """For example `82.6 % MFU (attention counted in full; 48.7 % with only what the causal mask leaves)`."""
        counted = self.counted
        if counted and self.convention == "full":
            counted += ", which can exceed 100 %" if self.mfu_frac > 1 else ""
            counted += f"; {format_frac(self.causal_mfu_frac)} with only what the causal mask leaves"
        return f"{format_frac(self.mfu_frac)} {_named('MFU', self.notes(counted))}"


def _named(what: str, notes: str) -> str:
    return f"{what} ({notes})" if notes else what


def plain_mfu(found: Utilisation | None) -> Json:
    """MFU in the JSON form of an answer, with what has to be known to read it."""
    return {
        "mfu_frac": None if found is None else found.mfu_frac,
        "mfu_convention": None if found is None else found.convention,
        "peak_dtype": None if found is None else found.dtype,
    }


def utilisation(job: Job, layout: Layout, step_time_s: float, device: Device) -> Utilisation:
    """The utilisation of a step of `step_time_s` seconds."""
    recipe = job.recipe
    available = step_time_s * job.devices * device.peak(recipe.dtype)
    full, causal = (model_flops(job, counting) for counting in ("full", "causal"))
    return Utilisation(
        mfu_frac=model_flops(job) / available,
        causal_mfu_frac=causal / available,
        hfu_frac=executed_flops(job, layout) / available,
        attention_frac=_attention_frac(job),
        convention=recipe.mfu_convention,
        dtype=recipe.dtype,
        masked=causal < full,
    )


def _attention_frac(job: Job) -> float:
    """Share of attention's scores and weighted values in a forward pass, counted in full."""
    if isinstance(job.model, ConvNet):
        return 0.0
    forward = training_flops(job.model, job.recipe.attended_tokens).forward
    return float(forward.attention_core / forward.total)


@lru_cache(maxsize=256)
def model_flops(job: Job, convention: str | None = None) -> float:
    """FLOPs of one optimizer step that the model needs, counted by `convention`: the recipe's where none is given."""
    recipe = job.recipe
    counting = convention or recipe.mfu_convention
    if isinstance(job.model, ConvNet):
        return 3.0 * convnet_forward_flops(job.model) * recipe.batch
    if counting == "6n":
        forwards, backwards = recipe.objective.forwards, recipe.objective.models
        each = 2.0 * forwards + 4.0 * backwards
        return each * parameters(job.model).active * recipe.passed_tokens
    found = training_flops(job.model, recipe.attended_tokens, counting, training=recipe.training_of(job.model))
    return float(found.model) * recipe.passed_tokens


def executed_flops(job: Job, layout: Layout) -> float:
    """FLOPs of one optimizer step that kernels execute, with recomputation, whatever the recipe's convention."""
    if isinstance(job.model, ConvNet):
        return model_flops(job)
    counting = "causal" if job.recipe.flash_attention else "full"
    return float(layout_flops(job, job.model, layout, counting).hardware) * job.recipe.passed_tokens


def recomputed_share(job: Job, layout: Layout) -> float:
    """Model FLOPs per FLOP when recomputed ones count too, both by the recipe's convention."""
    if isinstance(job.model, ConvNet):
        return 1.0
    found = layout_flops(job, job.model, layout, "causal" if job.recipe.mfu_convention == "causal" else "full")
    return float(found.model / found.hardware)


def layout_flops(job: Job, model: Transformer, layout: Layout, counting: str) -> TrainingFlops:
    """FLOPs per token of a step of a job's transformer, with what the layout recomputes."""
    recipe, chunks = job.recipe, len(layout.stages) // layout.pp or layout.vpp
    training = recipe.training_of(model)
    passes = float(recipe.passes(layout.grid())[0])
    if training.objective.every:
        training = replace(training, objective=replace(training.objective, forwards=passes))
    found = training_flops(
        model, recipe.attended_tokens, counting, layout.recompute, recipe.recompute_modules, training
    )
    again = found.recomputed + Flops(mlp=-_unfinished(job, model, layout))
    again = again * recipe.recomputed_frac(job.layers / layout.pp, chunks)
    beyond = _beyond(job, model, layout, training.objective) + Flops(attention_projections=-_spared(job, model, layout))
    return replace(found, recomputed=again + beyond)


def _spared(job: Job, model: Transformer, layout: Layout) -> Number:
    """Of a token, FLOPs of the gradient of the first layer's input, which nothing needs above a frozen embedding;
    software that runs layers again has it all the same (peft, enable_input_require_grads).
    """
    adapters = job.recipe.adapters_on(model)
    if adapters is None or layout.recompute == "full" or not job.recipe.habits.own_projections:
        return 0.0
    names = FIRST + (("gate", "up") if model.parallel_block else ())
    found = [one for one in layer_weights(model, model.kinds[0].stored) if one.name in names]
    beside = (
        2 * one.shape[0] * adapters.rank_of(one) for one in found if adapters.adapts(one) and not adapters.joins(one)
    )
    return sum(2 * one.active_elems for one in found) + sum(beside)


def _unfinished(job: Job, model: Transformer, layout: Layout) -> Number:
    """Of a token, FLOPs of the last products of layers, which are not run again where nothing after them is kept
    (torch/utils/checkpoint.py, early stop): an adapter beside it is, and so are a norm and weights of experts.
    """
    recipe = job.recipe
    if not recipe.habits.recompute_stops or layout.recompute != "full" or model.norm_placement != "pre":
        return 0.0
    adapters = recipe.adapters_on(model)
    return sum(
        2 * one.active_elems
        for kind in model.kinds
        for one in layer_weights(model, kind.stored)
        if one.name == "down" and not (adapters and adapters.adapts(one))
    )


def _beyond(job: Job, model: Transformer, layout: Layout, objective: Objective) -> Flops:
    """Of a token, what runs besides: a head again, where a loss takes logits in tiles; and sums of experts' matrices
    with their adapters, each twice in a pass (torch/nn/utils/parametrize.py, register_parametrization, tries a
    parametrization first) and with two products backward.
    """
    recipe = job.recipe
    again = find_way("loss", recipe.loss_kind).numbers.get("again", 0.0)
    head = head_forward_flops(model, recipe.attended_tokens) * again
    fold = fold_flops(model, recipe.training_of(model)) / (layout.micro_batch * recipe.seq)
    passes = objective.forwards - objective.bare + objective.models * (1 + (layout.recompute == "full"))
    return head + Flops(routed_experts=2 * fold * passes)
