"""The way in which a recipe's software runs a slot of a model's layers."""

from __future__ import annotations

from lockstep.layout.recipe import Recipe
from lockstep.stacks import Way
from lockstep.workload import Rotary, Transformer


def way(recipe: Recipe, model: Transformer, slot: str) -> Way:
    """The way of that slot, for what the model and the recipe are."""
    chosen = recipe.software.ways[slot]
    return chosen if chosen.otherwise is None else chosen.of(_traits(recipe, model))


def recipe_traits(recipe: Recipe) -> set[str]:
    """Traits of a recipe and its software, whatever the model."""
    known = {
        "trained": recipe.adapters is None,
        "autocast": recipe.habits.autocast,
        "unfused": not recipe.fused_elementwise,
        "compiled": recipe.software.compiled,
        "interpreted": not (recipe.software.compiled and recipe.fused_elementwise),
    }
    return {trait for trait, held in known.items() if held}


def _traits(recipe: Recipe, model: Transformer) -> set[str]:
    mlp = model.mlp
    known = {
        "rmsnorm": model.norm == "rmsnorm",
        "unstretched": not _stretched(model.rotary),
        "gelu_new": mlp is not None and mlp.activation == "gelu_new",
    }
    return recipe_traits(recipe) | {trait for trait, held in known.items() if held}


def _stretched(rotary: Rotary | None) -> bool:
    """Whether sines and cosines are multiplied by a factor other than one."""
    return rotary is not None and rotary.scaling == "yarn" and rotary.mscale != rotary.mscale_all_dim
