"""`best_of`: a plan for each of several recipes, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lockstep.base.errors import Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.utilisation import Utilisation, plain_mfu
from lockstep.price.layout import Layout, Recipe

if TYPE_CHECKING:
    from lockstep.decide.planner.result import Plan


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the recipes, and the best layout with it."""

    words: str
    """As on the command line."""
    why_not: str | None = None
    """Why there is no layout."""
    layout: Layout | None = None
    step_time_s: float | None = None
    memory_B: float | None = None
    utilisation: Utilisation | None = None

    @property
    def mfu_frac(self) -> float | None:
        """Model FLOPs utilisation."""
        return None if self.utilisation is None else self.utilisation.mfu_frac

    @classmethod
    def of(cls, words: str, plan: Plan) -> Choice:
        """That of a plan."""
        best = plan.best
        return cls(words, None, best.layout, best.step_time_s, float(best.memory.total_B), best.utilisation)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "words why_not layout step_time_s memory_B") | plain_mfu(self.utilisation)


def best_of(recipes: Mapping[str, Recipe], planned: Callable[[Recipe], Plan]) -> Plan:
    """The best plan of all `recipes`, by words, with the others in `Plan.choices`, best first.

    The best is the cheapest per token where that is the objective; else the one with fewest devices, then the fastest.
    Raises Infeasible, that of the first recipe, where nothing fits with any.
    """
    found: dict[str, Plan] = {}
    errors: dict[str, Infeasible] = {}
    for words, recipe in recipes.items():
        try:
            found[words] = planned(recipe)
        except Infeasible as error:
            errors[words] = error
    if not found:
        raise next(iter(errors.values()))
    if len(recipes) == 1:
        return found[next(iter(recipes))]
    ranked = sorted(found, key=lambda words: _rank(found[words]))
    choices = [Choice.of(words, found[words]) for words in ranked] + [
        Choice(words, str(error)) for words, error in errors.items()
    ]
    return replace(found[ranked[0]], choices=tuple(choices))


def _rank(plan: Plan) -> tuple[float, float]:
    """Smaller is better."""
    cost = plan.best.cost_per_token
    return (cost if plan.objective == "cost" and cost is not None else plan.job.devices, plan.best.step_time_s)
