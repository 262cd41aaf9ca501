"""What the router of a model chooses, and how much more than the mean the busiest rank of experts gets.

Natural routing takes the measured load (`expert_loads.toml`) of the nearest kind: a model in training, or one that was
released and is trained on; then the number of experts, then the length of sequences, whose tokens are alike.

    distance = KIND (kind differs) + |log2(E / E')| + LENGTH |log2(s / s')|     E: experts;  s: tokens of a sequence
"""

from __future__ import annotations

from functools import cache
from math import log2

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload import Experts
from lockstep.price.layout.layout import LayoutGrid
from lockstep.price.layout.recipe import Recipe
from lockstep.simulate.parallel.expert.load import Load, busiest_frac, routing_load
from lockstep.simulate.parallel.expert.spread import Choices

KIND, LENGTH = 3.0, 0.1
"""Doublings of experts that another kind of training counts for, and a doubling of the sequence. Chosen: a Mixtral has
the load of another model with eight experts rather than that of a released one with 128."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A load that was measured."""

    experts: int
    released: bool
    seq: int
    spread: float
    what: str
    source: str

    def distance(self, routed: Experts, recipe: Recipe) -> float:
        """How unlike it is to what is asked."""
        differs = KIND * (self.released != recipe.fine_tunes)
        return differs + abs(log2(routed.experts / self.experts)) + LENGTH * abs(log2(recipe.passed_seq / self.seq))


@cache
def measured_loads() -> tuple[Measured, ...]:
    """Every measured load."""
    rows = shipped_table("lockstep.price.layout", "expert_loads.toml")["load"]
    return tuple(Measured(what=row.pop("from"), **row) for row in map(dict, rows))


def natural_load(routed: Experts, recipe: Recipe) -> Measured:
    """The measured load that natural routing takes."""
    return min(measured_loads(), key=lambda one: one.distance(routed, recipe))


def load_of(routed: Experts, recipe: Recipe) -> Load | None:
    """How popular the experts are; None where all get equally many."""
    return routing_load(recipe.routing, natural_load(routed, recipe).spread if recipe.routing == "natural" else 0.0)


def choices_of(routed: Experts) -> Choices:
    """What the router of a layer chooses for a token."""
    return Choices(routed.experts, routed.top_k, routed.groups, routed.top_groups)


def busiest_rank_frac(routed: Experts | None, recipe: Recipe, grid: LayoutGrid) -> Number:
    """Tokens of the busiest rank of experts over the mean; 1 for balanced routing and without experts."""
    if routed is None or (load := load_of(routed, recipe)) is None:
        return 1.0
    return busiest_frac(choices_of(routed), grid.ep, group_tokens(recipe, grid), load)


def group_tokens(recipe: Recipe, grid: LayoutGrid) -> Number:
    """Tokens of a micro-batch on the ranks that divide and cut the experts."""
    return grid.micro_batch * recipe.passed_seq / (grid.cp * grid.tp) * grid.ep * grid.expert_tp
