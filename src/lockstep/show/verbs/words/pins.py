"""What a plan may choose from: words of a layout (`read_pins`) and of a recipe (`read_choices`)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.rows import listed
from lockstep.base.types.plain import Json
from lockstep.base.units import COUNT
from lockstep.show.verbs.words.question import any_layout
from lockstep.show.verbs.words.recipe import RecipeWords
from lockstep.show.verbs.words.shared import LAYOUT_WORDS
from lockstep.show.verbs.words.stages import BEST, read_stages

if TYPE_CHECKING:
    from lockstep.decide.planner.pins import Pins

ALONE = ("order", "stages", "mtp_stage", "sequence_parallel")
"""Words of which a search takes one value."""
CHOSEN = (*RecipeWords.__annotations__, *(name for name in LAYOUT_WORDS if name not in ALONE))
"""Words of which a search takes several values."""
WITH_COMMAS = ("way", "train", "recompute_modules", "jitter", "rank_jitter")
"""Words of a recipe of which one value may have commas."""
MOST_RECIPES = 32


def read_pins(words: Mapping[str, Any]) -> Pins:
    """What is decided, checked value by value. Raises BadInput and UnknownName at the flag."""
    from lockstep.decide.planner.pins import Pins

    given = {name: value for name, value in words.items() if value is not None}
    fields: dict[str, Any] = {name: _values(name, value) for name, value in given.items() if name not in ALONE}
    if given.get("stages") == BEST:
        raise BadInput("best is for one layout, as lockstep estimate takes it; give counts of layers", "--stages")
    if "stages" in given:
        fields["stages"] = read_stages(given["stages"])
    if "mtp_stage" in given:
        where = {"mtp_stage": given["mtp_stage"], "stages": fields.get("stages", ())}
        fields["mtp_stage"] = any_layout(1, where).mtp_stage
    if "order" in given:
        fields["order"] = any_layout(1, {"order": given["order"]}).order
    if "sequence_parallel" in given:
        fields["sequence_parallel"] = (given["sequence_parallel"],)
    return Pins(**fields)


def _values(name: str, given: Any) -> tuple[Any, ...]:
    """Each value as `Layout` has it."""
    several = listed(given, COUNT, _flag(name)) or (given,)
    return tuple(getattr(any_layout(1, {name: one}), name) for one in several)


def read_choices(words: Mapping[str, Any]) -> dict[str, Json]:
    """Every combination of the values of the recipe's words: what tells it apart, as flags -> the words with it.

    Values are separated by commas, where a comma means something in a value by semicolons.
    """
    values = {name: _choices(name, words[name]) for name in RecipeWords.__annotations__ if words.get(name) is not None}
    several = {name: found for name, found in values.items() if found}
    combinations = [dict(zip(several, one, strict=True)) for one in product(*several.values())]
    if len(combinations) > MOST_RECIPES:
        raise BadInput(
            f"{len(combinations)} recipes, each of them a search; at most {MOST_RECIPES}", _flag(next(iter(several)))
        )
    return {" ".join(f"{_flag(name)} {value}" for name, value in one.items()): {**words, **one} for one in combinations}


def _choices(name: str, given: Any) -> tuple[Any, ...] | None:
    return listed(given, COUNT, _flag(name), vector=name in WITH_COMMAS)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def first_pins(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words with the first of their values, as they describe a layout."""
    given = {name: value for name, value in words.items() if value is not None}
    found = {name: value if name in ALONE else _values(name, value)[0] for name, value in given.items()}
    if "stages" in found:
        found.setdefault("pp", max(1, len(read_stages(found["stages"])) // found.get("vpp", 1)))
    return found
