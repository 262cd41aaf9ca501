"""Where the rules and the planner disagree, word by word, and what each word alone would change.

    saved = 1 - step(rules' layout with that word from the optimum) / step(rules' layout)
`dp` follows the other degrees. A word that cannot change alone (the layout would break a rule, or not fit) is worth
something only together with others.
"""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.estimate import estimate as estimate_layout
from lockstep.decide.planner.guide.draft import Draft
from lockstep.price.layout import Layout

WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tp", ("tp",)),
    ("cp", ("cp",)),
    ("ep", ("ep",)),
    ("etp", ("etp",)),
    ("pp", ("pp",)),
    ("micro-batch", ("micro_batch",)),
    ("ZeRO", ("zero", "shard")),
    ("recomputation", ("recompute",)),
    ("schedule", ("schedule", "vpp")),
)
"""(word, fields of Layout that change together); a schedule needs stages on both sides."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One word in which the two layouts differ."""

    word: str
    rules: str
    optimum: str
    step_time_s: float | None
    """Of the rules' layout with only this setting from the optimum; None where that does not run or fit."""
    saved_frac: float | None

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def differences(found: Estimate, best: Estimate) -> tuple[Difference, ...]:
    """The words that differ, the one that saves most alone first; those that cannot change alone last."""
    told = [_difference(word, fields, found, best) for word, fields in WORDS if _differ(fields, found, best)]
    return tuple(sorted(told, key=lambda each: (each.saved_frac is None, -(each.saved_frac or 0.0))))


def _differ(fields: tuple[str, ...], found: Estimate, best: Estimate) -> bool:
    if fields == ("schedule", "vpp") and 1 in (found.layout.pp, best.layout.pp):
        return False
    return any(getattr(found.layout, name) != getattr(best.layout, name) for name in fields)


def _difference(word: str, fields: tuple[str, ...], found: Estimate, best: Estimate) -> Difference:
    changed = Draft(found.job, found.cluster, found.layout).change(
        **{name: getattr(best.layout, name) for name in fields}
    )
    rules, optimum = _value(fields, found.layout), _value(fields, best.layout)
    if not (changed.keeps_rules and changed.fits):
        return Difference(word, rules, optimum, None, None)
    step_s = estimate_layout(found.job, found.cluster, changed.layout).step_time_s
    return Difference(word, rules, optimum, step_s, 1 - step_s / found.step_time_s)


def _value(fields: tuple[str, ...], layout: Layout) -> str:
    """The word's value: `interleaved x4`, `3 over 8`, `none`."""
    first, *rest = (getattr(layout, name) for name in fields)
    if not rest or rest[0] in (0, 1):
        return str(first)
    return f"{first} {'x' if fields[0] == 'schedule' else 'over '}{rest[0]}"
