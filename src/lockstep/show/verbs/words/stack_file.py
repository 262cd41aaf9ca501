"""`--stack` and `--way`: training software by name, by a file of the user's own, or with other ways to run slots.

    --stack mine.toml              a file as `describe/stacks/own.py` describes it, called by `name`, else by the file's
    name
    --way gate=halves,norm=split   the software with these ways instead of its own

What a file says stands for its path wherever words are kept, in plans and in sweeps, so that these do not change with
the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput, UnknownName, located
from lockstep.base.types.plain import Json, plain
from lockstep.show.verbs.words.option import Option

if TYPE_CHECKING:
    from lockstep.base.documents import Locate
    from lockstep.describe.stacks import Stack
    from lockstep.show.verbs.words.kinds import Kind

STACK = Option(
    "NAME",
    "Training software: its switches, attention kernel and time on the host; or a TOML file of your own. Options "
    "given beside it override its switches.",
    names="stacks",
    default="megatron-te, deepspeed for models that it does not train, maxtext on TPUs",
)
WAY = Option(
    "SLOT=WAY,...",
    "Ways in which the software runs slots of a layer, instead of its own: norm=one,gate=halves. See lockstep stack.",
)
AT_STACK, AT_WAY = "--stack", "--way"
ENDING = ".toml"
SOURCE = "a file of one's own"
Given = str | Path | Mapping[str, Any]


def with_contents(given: Given) -> Given:
    """What a file says, in place of its path; names, and lists of several, as they are. Raises BadInput at the line."""
    return _contents(given) if isinstance(given, str | Path) and _is_file(given) else given


def read_stack(given: Given, way: str | Mapping[str, str] | None = None) -> Stack:
    """The software called so, in a file or described by plain data, with the ways that are given besides.

    Raises BadInput and UnknownName.
    """
    from lockstep.describe.stacks import stack

    found = with_contents(given)
    software = _described(found) if isinstance(found, Mapping) else stack(str(found))
    for slot, name in read_way(way).items():
        if slot not in software.slots:
            raise UnknownName("slot of a layer", slot, software.slots, AT_WAY)
        with located(AT_WAY):
            software = software.having(**{slot: name})
    return software


def read_way(way: str | Mapping[str, str] | None) -> dict[str, str]:
    """Ways by slot. Raises BadInput."""
    if way is None or isinstance(way, Mapping):
        return dict(way or {})
    pairs = [part.strip().partition("=") for part in way.split(",")]
    found = {slot.strip(): name.strip() for slot, _, name in pairs}
    if not all(slot and name for slot, name in found.items()):
        raise BadInput(f"{way[:60]!r} must be written SLOT=WAY, such as norm=split,gate=halves", AT_WAY)
    if len(found) < len(pairs):
        raise BadInput(f"{way[:60]!r} says twice how one slot is run", AT_WAY)
    return found


def _is_file(given: str | Path) -> bool:
    """Whether a file is meant: no name of the catalog, and there is one or it is called as one."""
    from lockstep.describe.stacks import stacks
    from lockstep.describe.stacks.stack import NEWEST

    if isinstance(given, Path):
        return True
    several = "," in given and not os.path.isfile(given)
    return given not in (*stacks(), *NEWEST) and not several and (given.endswith(ENDING) or os.path.isfile(given))


def _contents(path: str | Path) -> Json:
    """The tables of a file, checked, with the name and the source that it has where it says none."""
    from lockstep.base.documents.toml import read_toml
    from lockstep.describe.stacks import stacks

    data, locate = read_toml(path)
    found = {"name": Path(path).stem, "source": SOURCE, "date": "", **data}
    if found["name"] in [*stacks()]:
        raise BadInput(f'{found["name"]} is a stack of the catalog; give yours another, name = "..."', locate("name"))
    _described(found, locate)
    return found


def _described(given: Mapping[str, Any], locate: Locate | None = None) -> Stack:
    """The software, with switches as the recipe has them."""
    from lockstep.describe.stacks import own_stack
    from lockstep.describe.workload import read_training
    from lockstep.price.layout import Recipe

    entry = plain(given)
    try:
        switches = entry.get("switches", {})
        if isinstance(switches, Mapping):
            entry["switches"] = {name: _switch(name, value) for name, value in switches.items()}
        found = own_stack(entry)
        for name, settings in found.train.items():
            read_training(f"{name}:{settings}", f"train.{name}")
        Recipe.by(found, seq=1, batch=2)  # Raises BadInput for words that options do not have.
    except BadInput as error:
        place = _place(error.where or "")
        raise BadInput(error.message, AT_STACK if locate is None else locate(*place)) from None
    return found


def _switch(name: str, value: object) -> object:
    """A switch as `Recipe.options` has it, read as its option is."""
    if name not in _options():
        raise UnknownName("switch of a stack", name, _options(), f"switches.{name}")
    kind, read = _options()[name]
    given = ",".join(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
    with located(kind.where):
        return read(kind.checked(given), kind.where)


def _place(where: str) -> tuple[str, ...]:
    """The keys in a file of what an error is about: dotted keys, or the option that a switch stands for."""
    switch = next((name for name, (kind, _) in _options().items() if kind.where == where), None)
    return tuple(where.split(".")) if switch is None else ("switches", switch)


@cache
def _options() -> dict[str, tuple[Kind, Any]]:
    """By name in `Recipe.options` what an option takes, and how that is read."""
    from lockstep.show.verbs.words.kinds import kind_of
    from lockstep.show.verbs.words.recipe import RecipeWords, fields_of_words

    kinds = RecipeWords.__annotations__
    return {field.name: (kind_of(word, kinds[word]), field.read) for word, field in fields_of_words().items()}
