"""What the router of a model chooses, and how much more than the mean the busiest rank of experts gets."""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Experts
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.recipe import Recipe
from lockstep.simulate.parallel.expert.load import busiest_frac
from lockstep.simulate.parallel.expert.spread import Choices


def choices_of(routed: Experts) -> Choices:
    """What the router of a layer chooses for a token."""
    return Choices(routed.experts, routed.top_k, routed.groups, routed.top_groups)


def busiest_rank_frac(routed: Experts | None, recipe: Recipe, grid: LayoutGrid) -> Number:
    """Tokens of the busiest rank of experts over the mean; 1 for balanced routing and without experts."""
    if routed is None or recipe.skew is None:
        return 1.0
    return busiest_frac(choices_of(routed), grid.ep, group_tokens(recipe, grid), recipe.skew)


def group_tokens(recipe: Recipe, grid: LayoutGrid) -> Number:
    """Tokens of a micro-batch on the ranks that divide and cut the experts."""
    return grid.micro_batch * recipe.passed_seq / (grid.cp * grid.tp) * grid.ep * grid.expert_tp
