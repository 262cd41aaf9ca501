"""`strict` and `verb`: what every function of this interface does before it computes anything.

`strict` refuses a keyword that the function does not have. Many verbs take `**words: Unpack[SomeWords]`. A type checker
knows what is in there, Python does not: it would hand a misspelled word on, and the answer would be for another
question. A file of a plan, given as MODEL, stands for the words that it has. `verb` also answers for every combination,
as `Rows`, where a model, a cluster or a numeric option is given a list or a range (`many.py`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import product, repeat
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast

from lockstep.base.errors import LONGEST, BadInput, option_hint, shown
from lockstep.base.rows import listed
from lockstep.base.types.progress import Progress
from lockstep.base.units import NUMBER, TIME, parse_integer
from lockstep.show.verbs.words.about import about, note
from lockstep.show.verbs.words.kinds import Kind, Signature, kind_of, lacking, signature
from lockstep.show.verbs.words.named import Engine
from lockstep.show.verbs.words.plan_file import plan_given
from lockstep.show.verbs.words.run_file import ACCEPT, RunFile
from lockstep.show.verbs.words.stack_file import read_stack, with_contents

EVERY = "all"
"""As --cluster: every device of the catalog."""
FOR_LISTS = ("engine", "store")
"""Options of every verb that takes lists."""
OF_LISTS = {
    name: kind_of(name, kind)
    for name, kind in {"engine": str | Engine | None, "store": str | Path | None, "progress": Progress | None}.items()
}
ONE_EACH = ("model", "cluster")
"""Words of which several objects or names give a row each."""
NO_LIST = "belongs to a list or range, such as --ranks 2..1024x2 or --size 1MB,10MB"
Function = TypeVar("Function", bound=Callable[..., Any])


def strict(function: Function) -> Function:
    """`function`, which raises TypeError for an unknown keyword: the verb, the keyword and what was probably meant."""

    @wraps(function)
    def call(*given: Any, **words: Any) -> Any:
        given, words = checked(function, given, words)
        named = {**dict(zip(signature(function).positional, given, strict=False)), **words}
        _refuse_several(function, named)
        accepted = named.pop(ACCEPT, None)
        words.pop(ACCEPT, None)
        plan = plan_given(named.get("model"), () if accepted is None else [one.strip() for one in accepted.split(",")])
        if accepted is not None and not isinstance(plan, RunFile):
            raise BadInput("belongs to a configuration of other software that is given as MODEL", "--accept-unknown")
        if plan is None:
            return function(*given, **words)
        with plan.located(named):
            answering = plan.answering(named, keywords(function), bool(about(function).chooses))
            return function(**checked(function, (), answering)[1])

    return cast(Function, _public(call))


def verb(function: Function) -> Function:
    """`function`, strict, and asked for every combination of values where options are given several.

    Its keyword `progress`, if given, then counts combinations; `engine` says where they are answered, `store` which
    file keeps their answers.
    """
    one = strict(function)

    @wraps(function)
    def call(*given: Any, **words: Any) -> Any:
        given, words = checked(function, given, words, lists=True)
        lists = several(function, given, words)
        if not lists:
            for name in set(FOR_LISTS) & set(words) - set(keywords(function)):
                if words.pop(name) is not None:
                    raise BadInput(NO_LIST, f"--{name}")
            return one(*given, **words)
        from lockstep.show.verbs.words.many import answer_rows

        named = {**dict(zip(signature(function).positional, given, strict=False)), **words}
        more = {name: named.pop(name, None) for name in (*FOR_LISTS, "progress")}
        return answer_rows(call, lists, named, choices(named), **more)

    note(function, lists=True)
    return cast(Function, _public(call, OF_LISTS))


def _public(call: Any, more: Iterable[str] = ()) -> Any:
    """`call`, whose signature names every keyword that it takes, those of an unpacked TypedDict and `more` included."""
    if call.__name__ != call.__module__.rpartition(".")[2]:
        return call  # No verb: nobody looks at it, and a signature of 90 keywords takes a millisecond.
    plain = inspect.signature(call)
    kinds = signature(call).kinds
    named = [
        one.replace(annotation=kinds[one.name].type) if one.name in kinds else one
        for one in plain.parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    known, keyword_only = {one.name for one in named}, inspect.Parameter.KEYWORD_ONLY
    parameters = named + [
        inspect.Parameter(name, keyword_only, default=None, annotation=kind.type)
        for name, kind in {**kinds, **{name: OF_LISTS[name] for name in more}}.items()
        if name not in known
    ]
    call.__signature__ = plain.replace(parameters=parameters)
    return call


def checked(
    function: Callable[..., Any], given: Sequence[Any], words: Mapping[str, Any], lists: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and keywords of a call of `function`, each value checked against the type that is declared for it.

    With `lists`, a question may be asked for several values of a number, a model or a cluster. Raises TypeError where
    Python would, and BadInput for a value of another type and for keywords that are missing.
    """
    known = signature(function)
    kinds = {**OF_LISTS, **known.kinds} if lists else known.kinds
    _check_names(function, known, kinds, given, words)
    chosen = about(function).chooses

    def read(kind: Kind, value: Any) -> Any:
        several = kind.name in chosen or (lists and (kind.unit is not None or kind.name in ONE_EACH))
        return value if value is None and kind.required else kind.checked(value, several)

    places = [*(known.kinds[name] for name in known.positional), *repeat(known.rest, len(given))]
    arguments = tuple(read(kind, value) for kind, value in zip(places, given, strict=False) if kind is not None)
    # None leaves a keyword at its default.
    named = {
        word: read(kinds[word], value)
        for word, value in words.items()
        if value is not None or NoneType in kinds[word].parts
    }
    if named.get("stack") is not None:
        named["stack"] = with_contents(named["stack"])
    everything = {**dict(zip(known.positional, arguments, strict=False)), **named}
    missing = [name for name in known.required if everything.get(name) is None]
    if missing:
        given_words = {word for word, value in everything.items() if value is not None}
        raise lacking(function, missing, given_words, f"see help(lockstep.{function.__name__})")
    return arguments, named


def _check_names(
    function: Callable[..., Any],
    known: Signature,
    kinds: Mapping[str, Kind],
    given: Sequence[Any],
    words: Iterable[str],
) -> None:
    """Raises TypeError for a keyword that the function does not have or has already, and for too many arguments."""
    name = function.__name__
    for word in words:
        if word not in kinds:
            raise TypeError(_refusal(name, word, tuple(kinds)))
        if word in known.positional[: len(given)]:
            raise TypeError(f"{name}() got multiple values for argument {word!r}")
    most = len(known.positional)
    if len(given) > most and known.rest is None:
        expected = f"at most {most} without a keyword ({', '.join(known.positional)})" if most else "keywords alone"
        raise TypeError(f"{name}() takes {expected}, but was given {len(given)}")


def several(
    function: Callable[..., Any], given: Sequence[Any], words: Mapping[str, Any]
) -> dict[str, list[tuple[Any, Any]]]:
    """The options that are given a list or a range: (value as given, value in SI units) by name."""
    chosen = about(function).chooses
    kinds = {name: kind for name, kind in keywords(function).items() if name not in chosen}
    named = {**dict(zip(kinds, given, strict=False)), **words}
    found = {name: [(one, one) for one in values] for name, values in choices(named).items() if name in kinds}
    for name, value in named.items():
        unit = kinds[name].unit if name in kinds else None
        if unit is not None:
            values = listed(value, unit.factors, kinds[name].where, vector=unit.vector)
            if values is not None:
                found[name] = [(one, _in_SI(one, unit.factors)) for one in values]
    if "law" in kinds and (several_laws := laws(named.get("law"))):
        found["law"] = [(one, one) for one in several_laws]
    return found


def choices(named: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The models and the clusters among the words, by name, where several are given."""
    found = {"model": models(named.get("model")), "cluster": machines(named.get("cluster"), named.get("stack"))}
    return {name: several for name, several in found.items() if several}


def models(value: Any) -> dict[str, Any]:
    """The models in a list by name."""
    if isinstance(value, list | tuple):
        return {str(getattr(one, "name", one)): one for one in value}
    if not isinstance(value, str) or "," not in value or os.path.exists(value):
        return {}
    return {one: one for one in (part.strip() for part in value.split(","))}


def machines(value: Any, stack: Any = None) -> dict[str, Any]:
    """The clusters in a list by name; for `all` a machine of every device that `stack` runs on, the cheapest first."""
    if isinstance(value, list | tuple):
        return {str(getattr(one, "name", one)): one for one in value}
    if not isinstance(value, str) or os.path.isfile(value):
        return {}
    name, _, count = value.partition(":")
    if name == EVERY:
        from lockstep.describe.hardware import machines as one_of_each

        vendors = None if stack is None else read_stack(stack).vendors
        return dict(one_of_each(parse_integer(count or 1, "--cluster", minimum=1), vendors))
    parts = [part.strip() for part in value.split(",")]
    return {one: one for one in parts} if len(parts) > 1 else {}


def laws(value: Any) -> list[str]:
    """The laws in a list separated by `;`, each of them for every number of a range such as `cv=0.1..0.5+0.1`."""
    if not isinstance(value, str) or not (";" in value or ".." in value) or os.path.exists(value.partition(":")[2]):
        return []
    found: list[str] = []
    for law in (part.strip() for part in value.split(";")):
        name, colon, rest = law.partition(":")
        numbers = [part.partition("=") for part in rest.split(",")]
        each = [listed(number.strip(), TIME, "--law") or (number,) for _, _, number in numbers]
        found += [
            name + colon + ",".join(key + equals + one for (key, equals, _), one in zip(numbers, chosen, strict=True))
            for chosen in product(*each)
        ]
    return list(dict.fromkeys(found)) if len(found) > 1 else []


def _refuse_several(function: Callable[..., Any], named: Mapping[str, Any]) -> None:
    """Raises BadInput for a list or a range where one number is wanted."""
    kinds, chosen = keywords(function), about(function).chooses
    for name, value in named.items():
        kind = kinds.get(name)
        unit = None if kind is None or name in chosen or not isinstance(value, str) else kind.unit
        if kind and unit and listed(value, unit.factors, kind.where, vector=unit.vector) is not None:
            wanted = unit.wanted.removeprefix("a ")
            raise BadInput(f"takes one {wanted}, not a list or a range; got {shown(value)}", kind.where)


def _in_SI(value: Any, units: Mapping[str, float]) -> Any:
    """The number that a value with a unit is; itself where it is none."""
    read = NUMBER.fullmatch(value) if isinstance(value, str) else None
    if read is None or (read[2] or "") not in units:
        return value
    number = float(read[1].replace("_", "")) * units[read[2] or ""]
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def keywords(function: Callable[..., Any]) -> Mapping[str, Kind]:
    """Every keyword that `function` takes, those of an unpacked TypedDict included, and what it takes."""
    return signature(function).kinds


def _refusal(verb: str, word: str, allowed: Sequence[str]) -> str:
    """What Python itself says of an unknown keyword, and what to say instead."""
    hint = option_hint(word, allowed, verb, _keyword, f"see help(lockstep.{verb})")
    return f"{verb}() got an unexpected keyword argument {word[:LONGEST]!r}; {hint}"


def _keyword(name: str, value: str) -> str:
    return f"{name}={value}" if value else repr(name)
