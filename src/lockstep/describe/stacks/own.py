"""`own_stack`: training software of a user's own, as plain data: what it has otherwise than a stack of the catalog.

    like = "torchtitan"                  required; all that is not said is as this stack has it
    name = "mine"                        and other fields of `Stack` (OWN)
    [ways]                               how it runs a slot of a layer: a way of the catalog, or one below
    gate = "mine"
    [habits]                             fields of `Habits`
    [switches]                           options of a run that it sets, fields of `layout.Recipe` or of `Options`
    [train]                              settings of an objective that it has where a run does not give them
    grpo = "old=if-needed,beta=0"
    [gate.mine]                          a way of its own, a row of `ways.toml`
    forward = ["one kernel of ours 3"]

Switches and settings are checked where options are known (`show/verbs/words/stack_file.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from lockstep.base.errors import BadInput, UnknownName, located, shown
from lockstep.base.types.plain import Json
from lockstep.describe.stacks.habits import Habits
from lockstep.describe.stacks.stack import ATTENTION_KERNELS, LOSS, OWN, Stack, stacks
from lockstep.describe.stacks.ways import FROM_LAYOUT, KEYS, NUMBERS, OF_FORMAT, PARTS, WIDENED, Way, read_ways, ways

TABLES = ("ways", "habits", "switches", "train")
BOUNDS = {"elementwise_factor": (0.1, 100.0), "launch_s": (0.0, 1.0), "recompute_host_s": (0.0, 60.0),
           "step_s": (0.0, 3600.0)}  # fmt: skip
"""The least and the most of each number."""
TIMES = ("launch_s", "recompute_host_s", "step_s")
MOST_WAYS = 100
"""A user's own ways of a slot."""
MOST_LETTERS = 500
"""Of a text."""
NAME_LETTERS = 60


def own_stack(entry: Mapping[str, Any]) -> Stack:
    """The software that `entry` describes, with switches as they stand there.

    Raises BadInput and UnknownName, located at the dotted key.
    """
    given = dict(entry)
    base = _base(given.pop("like", None))
    slots = [slot for slot in base.ways if slot not in FROM_LAYOUT]
    for key, value in given.items():
        if key not in (*OWN.split(), *TABLES, *slots):
            raise UnknownName("key of a stack", key, ("like", *OWN.split(), *TABLES, *slots), key)
        if key in slots and isinstance(value, str):
            raise BadInput(f'{key} is a table of ways of your own; write {key} = "{value}" below [ways]', key)
        if key not in OWN.split() and not isinstance(value, Mapping):
            raise BadInput(f"{key} must be a table, got {shown(value)}", key)
    rows = {key: given.pop(key) for key in slots if key in given}
    tables = {key: given.pop(key, {}) for key in TABLES}
    found = replace(base, **{name: _field(name, value) for name, value in given.items()}, rows=_rows(rows))
    if LOSS in tables["ways"] and "cross_entropy" in tables["switches"]:
        raise BadInput("loss in [ways] and cross_entropy in [switches] set the same; keep one of them", f"ways.{LOSS}")
    for slot, name in tables["ways"].items():
        if slot not in base.slots:
            raise UnknownName("slot of a layer", slot, base.slots, f"ways.{slot}")
        with located(f"ways.{slot}"):
            found = found.having(**{slot: name})
    timed = any(getattr(found, name) != getattr(base, name) for name in TIMES)
    return replace(
        found,
        habits=_habits(base.habits, tables["habits"]),
        switches={**found.switches, **tables["switches"]},
        train={**found.train, **tables["train"]},
        kind="user" if timed else base.kind,
    )


def _base(like: object) -> Stack:
    if like is None:
        raise BadInput('like is missing: the stack of the catalog it is like, such as like = "torchtitan"', "like")
    if not isinstance(like, str) or like not in stacks():
        raise UnknownName("software stack", like, stacks(), "like")
    return stacks()[like]


def _field(name: str, value: object) -> Any:
    if name in BOUNDS:
        least, most = BOUNDS[name]
        if type(value) not in (int, float) or not least <= float(str(value)) <= most:
            raise BadInput(f"{name} must be a number from {least:g} to {most:g}, got {shown(value)}", name)
        return float(str(value))
    if name in ("attention", "vendors"):
        return _several(name, value)
    longest = NAME_LETTERS if name == "name" else MOST_LETTERS
    if not isinstance(value, str) or not value.isprintable() or len(value) > longest:
        raise BadInput(f"{name} must be text of at most {longest} letters on one line, got {shown(value)}", name)
    if name == "name" and not value.strip():
        raise BadInput("name must not be empty", name)
    if name == "recompute":
        _known("recomputation", value, ("none", "selective", "full"), name)
    if name == "kernels":
        _known("library of kernels", value, sorted({one.kernels for one in stacks().values()}), name)
    return value


def _several(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(one, str) for one in value):
        raise BadInput(f"{name} must be a list of names, got {shown(value)}", name)
    every = [one for stack in stacks().values() for one in getattr(stack, name)]
    for one in value:
        # A kernel may be one that is run on the devices of some curve alone, kernel@curve.
        if name == "vendors" or "@" in one:
            _known(f"name in {name}", one, list(dict.fromkeys(every)), name)
        else:
            _known("attention kernel", one, ATTENTION_KERNELS, name)
    return tuple(value)


def _known(what: str, value: str, words: Sequence[str], where: str) -> None:
    if value not in words:
        raise UnknownName(what, value, words, where)


def _rows(rows: Json) -> Json:
    for slot, named in rows.items():
        for name in named:
            if name in ways()[slot]:
                raise BadInput(f"{slot}.{name} is a way of the catalog; give yours another name", f"{slot}.{name}")
        if len(named) > MOST_WAYS:
            raise BadInput(f"{slot} has more than the {MOST_WAYS} ways allowed", slot)
        for name, row in named.items():
            formats = OF_FORMAT if slot in WIDENED else ()
            _check_keys(f"{slot}.{name}", row, list(ways()[slot].values()), formats)
    read_ways(rows, ways())
    return rows


def _check_keys(where: str, row: object, alike: Sequence[Way], formats: Sequence[str] = ()) -> None:
    """Raises UnknownName for parts and numbers that no way of the catalog has there: nothing reads them."""
    known = {key for one in alike for key in (*one.parts, *one.numbers)} | {*formats}
    for key, value in row.items() if isinstance(row, Mapping) else ():
        if key in (*PARTS, *NUMBERS):
            _known(f"key of the way {where}", key, (*KEYS, *sorted(known)), f"{where}.{key}")
        if key in PARTS:
            _check_keys(f"{where}.{key}", value, [one.parts[key] for one in alike if key in one.parts])


def _habits(base: Habits, given: Json) -> Habits:
    types: dict[str, type[Any]] = {one.name: type(one.default) for one in fields(Habits)}
    for name, value in given.items():
        where = f"habits.{name}"
        _known("habit of a software", name, [*types], where)
        if not isinstance(value, types[name]):
            wanted = "true or false" if types[name] is bool else "a word"
            raise BadInput(f"the habit {name} must be {wanted}, got {shown(value)}", where)
        with located(where):
            Habits(**{name: value})
    return replace(base, **given)
