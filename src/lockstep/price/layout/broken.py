"""Which of the `RULES` a layout breaks, or each of a grid of them; `check` refuses one that breaks any."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Bools
from lockstep.price.layout.job import Job
from lockstep.price.layout.layout import Layout, LayoutGrid
from lockstep.price.layout.rule import Rule
from lockstep.price.layout.rules import FOLLOWS, RULES, WORLD


def broken_rules(grid: LayoutGrid, job: Job) -> dict[str, Bools]:
    """For each rule, where it is broken (arrays of their own, smaller, shapes)."""
    return {rule.key: np.asarray(rule.broken(grid, job), dtype=bool) for rule in RULES}


def broken_by(layout: Layout, job: Job) -> list[Rule]:
    """The rules that one layout breaks, without those that say the same fault again."""
    keys = {key for key, mask in broken_rules(layout.grid(), job).items() if mask.any()}
    return [rule for rule in RULES if rule.key in keys and FOLLOWS.get(rule.key) not in keys]


def check(layout: Layout, job: Job) -> None:
    """Raises BadInput with a sentence for every rule that `layout` breaks, at the flag of the first.

    A wrong number of ranks is often the consequence of another mistake, so it comes last.
    """
    refuse(sorted(broken_by(layout, job), key=lambda rule: rule.key == WORLD), layout, job)


def refuse(rules: Sequence[Rule], layout: Layout, job: Job) -> None:
    """Raises BadInput with what each of `rules` teaches; nothing when there are none."""
    if rules:
        raise BadInput("; ".join(rule.teach(layout, job) for rule in rules), rules[0].flag)
