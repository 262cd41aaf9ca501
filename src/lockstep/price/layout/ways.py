"""The way in which a recipe's software runs a slot of a model's layers."""

from __future__ import annotations

from lockstep.describe.stacks import Way
from lockstep.describe.workload import Rotary, Transformer
from lockstep.price.layout.formats import NARROW_B, NF4
from lockstep.price.layout.recipe import Recipe


def way(recipe: Recipe, model: Transformer, slot: str) -> Way:
    """The way of that slot, for what the model and the recipe are."""
    chosen = recipe.software.ways[slot]
    return chosen if chosen.otherwise is None else chosen.of(_traits(recipe, model))


def ways_of(recipe: Recipe, model: Transformer) -> dict[str, Way]:
    """The way of every slot, for what the model and the recipe are."""
    traits = _traits(recipe, model)
    return {slot: chosen.of(traits) for slot, chosen in recipe.software.ways.items()}


def recipe_traits(recipe: Recipe) -> set[str]:
    """Traits of a recipe and its software, whatever the model."""
    habits, software = recipe.habits, recipe.software
    known = {
        "trained": recipe.adapters is None,
        "autocast": habits.autocast,
        "no_autocast": not habits.autocast,
        "unfused": not recipe.fused_elementwise,
        "compiled": software.compiled,
        "interpreted": not (software.compiled and recipe.fused_elementwise),
        "fp32_adapters": not (habits.half_adapters or recipe.casts_adapters),
        "unquantised": recipe.base is None,
        "nf4": recipe.base in NF4,
        # What FSDP2 comes with adds the outputs of every rank whose keys it gathers.
        "torch_context": recipe.sharding == "fsdp2" and recipe.cp_kind == "gather",
        "scaled": recipe.dtype in NARROW_B,
    }
    return {trait for trait, held in known.items() if held}


def _traits(recipe: Recipe, model: Transformer) -> set[str]:
    mlp = model.mlp
    known = {
        "rmsnorm": model.norm == "rmsnorm",
        "unstretched": not _stretched(model.rotary),
        "gelu_new": mlp is not None and mlp.activation == "gelu_new",
        "relu2": mlp is not None and mlp.activation == "relu2",
    }
    return recipe_traits(recipe) | {trait for trait, held in known.items() if held}


def _stretched(rotary: Rotary | None) -> bool:
    """Whether sines and cosines are multiplied by a factor other than one."""
    return rotary is not None and rotary.scaling == "yarn" and rotary.mscale != rotary.mscale_all_dim
