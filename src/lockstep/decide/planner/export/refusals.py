"""`Placed`: what is exported. `Refusals`: collects what a framework cannot express, and raises all of it at once."""

from __future__ import annotations

from collections.abc import Collection

from lockstep.base.errors import Infeasible, Violation
from lockstep.base.records import dataclass, field
from lockstep.price.layout import Job, Layout, Recipe


@dataclass(frozen=True, slots=True)
class Placed:
    """A layout of a job: what an export writes."""

    job: Job
    layout: Layout
    attention_kernel: str | None = None
    """That the step is priced with; None where it is not known, or attention is not fused."""
    machines: int = 1
    """Hosts that the devices are in."""


@dataclass(slots=True)
class Refusals:
    """Reasons against an export to `target`."""

    target: str
    reasons: list[str] = field(default_factory=list)

    def when(self, broken: bool, reason: str) -> None:
        """Notes `reason` if `broken`."""
        if broken:
            self.reasons.append(reason)

    def settle(self) -> None:
        """Raises Infeasible if there is any reason."""
        if self.reasons:
            raise self.error()

    def error(self) -> Infeasible:
        """All reasons."""
        message = f"{self.target} cannot express this plan: " + "; ".join(self.reasons)
        return Infeasible(message, [Violation(reason, 1.0, 1.0) for reason in self.reasons])


class FirstRefusal(Refusals):
    """Raises Infeasible at the first reason: for those who ask often, and only whether."""

    def when(self, broken: bool, reason: str) -> None:
        """Raises Infeasible if `broken`."""
        if broken:
            self.reasons.append(reason)
            raise self.error()


def refuse_model(job: Job, no: Refusals) -> None:
    """Notes a model that software for decoders of text does not train."""
    name = job.model.name
    no.when(job.transformer is None, f"{name} is not a transformer")
    no.when(job.images and job.transformer is not None, f"{name} reads images; only models of text are exported")
    no.when(job.crosses, f"{name} is an encoder with a decoder; only decoders are exported")
    model = job.transformer
    headless = model is not None and model.patches is None and model.attention.causal and not model.has_head
    no.when(headless, f"{name} has no projection onto the vocabulary; only language models are exported")


def refuse_sharding(software: str, layout: Layout, recipe: Recipe, no: Refusals) -> None:
    """Notes the sharding of other software than `software`, the one exported to."""
    other = layout.zero > 0 and layout.dp * layout.cp > 1 and recipe.sharding not in ("any", software)
    no.when(other, f"--sharding {recipe.sharding}; export with --sharding {software} or without")


def refuse_formats(
    recipe: Recipe, no: Refusals, adapters: bool = False, megatron: bool = False, objectives: Collection[str] = ()
) -> None:
    """Notes number formats that none of the tools can be told of; adapters and objectives, unless it trains with them;
    and what only Megatron Core has: a number of layers to recompute, CUDA graphs, an exchange beside another
    micro-batch.
    """
    if not megatron:
        no.when(recipe.recompute_layers > 0, f"--recompute-layers {recipe.recompute_layers}")
        no.when(recipe.cuda_graphs != "none", f"--cuda-graphs {recipe.cuda_graphs}")
        no.when(recipe.overlap_ep == "passes", "--overlap-ep passes")
    narrow = (recipe.cached_B, recipe.cached_attention_B, recipe.dispatch_B)
    no.when(any(size_B is not None for size_B in narrow), "activations kept or sent in a separate format")
    no.when(recipe.adapters is not None and not adapters, f"adapters (--train {recipe.train})")
    own = recipe.objective.repeats or recipe.objective.name in ("grpo", "rloo", "reward")
    other = own and recipe.objective.name not in objectives
    no.when(other, f"{recipe.objective.name} (--train {recipe.train})")
    no.when(recipe.local_steps > 1, f"local steps (--local-steps {recipe.local_steps})")
    no.when(recipe.vocab_parallel != "none", f"vocabulary layers over stages ({recipe.vocab_parallel})")
    no.when(recipe.parameter_B != 2.0, f"parameters of {recipe.parameter_B:g} bytes")
