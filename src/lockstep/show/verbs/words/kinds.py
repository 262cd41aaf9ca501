"""What a keyword may be given, read once from its annotation, and the one check of every value against it.

A class that only a type checker imports is known by its name: a value is one of it when a class of that name is among
its own. Nothing is imported, so that the check costs nothing.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from lockstep.base.errors import BadInput, shown
from lockstep.base.records import dataclass
from lockstep.show.verbs.words.about import Need, about
from lockstep.show.verbs.words.named import Named
from lockstep.show.verbs.words.option import Argument, Declared, declared_of
from lockstep.show.verbs.words.quantity import One, Unit

ARTICLES = {
    "str": "text", "Path": "a path", "bool": "True or False", "int": "a whole number", "float": "a number",
    "Model": "a model", "Cluster": "a cluster", "Layout": "a Layout", "Plan": "a plan", "Estimate": "an estimate",
    "Engine": "an engine", "Law": "a law",
}  # fmt: skip
"""How a message names what is wanted."""
LARGEST = sys.float_info.max
SENTENCE = re.compile(r"(?<!e\.g)\. ")
DROPPED = "InMemory"
"""Name of a file that was dropped on the page, which stands for a path."""
LINK = Need((frozenset({"cluster"}), frozenset({"latency", "bandwidth"})), "--latency and --bandwidth, or --cluster")
RATE = Need((frozenset({"cluster"}), frozenset({"flops"})), "--flops, or --cluster")
RUN = (
    Need((frozenset({"cluster"}),), "--cluster (e.g. dgx-h100:64)"),
    Need((frozenset({"batch"}), frozenset({"batch_tokens"})), "--batch (sequences, e.g. 512) or --batch-tokens"),
)
"""What every verb about a training run needs beside the model."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What one keyword of a function takes."""

    name: str
    where: str
    """Its place in messages: the flag, the name of the argument, or the keyword of what only a program can give."""
    parts: tuple[Any, ...]
    """The members of the union: classes, generic types of `typing`, and `Unit` for numbers with units."""
    declared: Declared | None
    required: bool
    """Whether it must have a value; what may be None need not, even where it has no default."""

    @property
    def type(self) -> Any:
        """The members as a type that a person reads; a number with a unit may be text."""
        plain = [(str, int, float) if isinstance(one, Unit) else (one,) for one in self.parts]
        return reduce(or_, itertools.chain(*plain))

    @property
    def unit(self) -> Unit | None:
        """Of a number of which several may be given."""
        return next((one for one in self.parts if isinstance(one, Unit) and one.listed), None)

    def checked(self, value: Any, several: bool = False) -> Any:
        """The value, a number of numpy as one of Python's; `several`: or a sequence of values. One of what
        may be repeated is a sequence of one. Raises BadInput.
        """
        value = _python(value)
        if any(_fits(value, part) for part in self.parts):
            if isinstance(value, int | float) and value < 0:
                raise BadInput(f"cannot be negative, got {value:g}", self.where)
            return value
        if getattr(self.declared, "repeated", False) and any(_fits((value,), part) for part in self.parts):
            return (value,)
        if several and _is_list(value) and not any(one is None for one in value):
            return tuple(self.checked(one) for one in value)
        wanted = " or ".join(dict.fromkeys(_wanted(one) for one in self.parts if one is not type(None)))
        raise BadInput(f"expected {wanted}, got {shown(value)}", self.where)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes."""

    kinds: Mapping[str, Kind]
    """By keyword, those of an unpacked TypedDict last."""
    positional: tuple[str, ...]
    rest: Kind | None
    """Each of any number of further arguments."""
    required: tuple[str, ...]
    """Keywords that must have a value."""


def lacking(function: Callable[..., Any], names: Sequence[str], given: Iterable[str], more: str) -> BadInput:
    """The error that names all the keywords that `function` lacks, and what each means; `more`: where to read on.

    With them it names what else must be given, beside the keywords `given`.
    """
    known, known_words = signature(function), set(given)
    everything = {**known.kinds, **({known.rest.name: known.rest} if known.rest else {})}
    said = [everything[name].where + _meaning(everything[name]) for name in names]
    needs = about(function).needs
    if needs is None:
        needs = RUN if {"cluster", "batch", "batch_tokens"} <= set(known.kinds) else ()
    said += [need.words for need in needs if not any(known_words >= one for one in need.either)]
    if len(said) == 1:
        (missing,) = (everything[name] for name in names)
        return BadInput(f"must be given{_meaning(missing)}; {more}", missing.where)
    return BadInput(f"must be given: {'; '.join(said)}; {more}")


def _meaning(kind: Kind) -> str:
    """The first sentence of the help text, in brackets."""
    said = SENTENCE.split(kind.declared.help)[0].rstrip(".") if kind.declared else ""
    return f" ({said})" if said else ""


@cache
def signature(function: Callable[..., Any]) -> Signature:
    """What `function` takes, from its annotations; each of them is read once."""
    plain = inspect.unwrap(function)
    kinds, positional, rest = dict[str, Kind](), list[str](), None
    for one in inspect.signature(plain).parameters.values():
        if isinstance(one.annotation, str):
            why = "its file must not have `from __future__ import annotations`, as the types of options are read"
            raise TypeError(f"{plain.__name__}: the type of {one.name} is text; {why}")
        if one.kind is one.VAR_KEYWORD:
            (words,) = get_args(one.annotation)
            kinds |= {name: kind_of(name, kind) for name, kind in words.__annotations__.items()}
        elif one.kind is one.VAR_POSITIONAL:
            rest = kind_of(one.name, one.annotation)
        else:
            kinds[one.name] = kind_of(one.name, one.annotation, one.default is one.empty)
            positional += [one.name] if one.kind is one.POSITIONAL_OR_KEYWORD else []
    return Signature(kinds, tuple(positional), rest, tuple(name for name, kind in kinds.items() if kind.required))


def kind_of(name: str, annotation: Any, required: bool = False) -> Kind:
    """What a keyword with this annotation takes."""
    declared = declared_of(annotation)
    parts = tuple(_parts(annotation))
    return Kind(name, _place(name, declared), parts, declared, required and type(None) not in parts)


def _place(name: str, declared: Declared | None) -> str:
    if isinstance(declared, Argument):
        return declared.metavar
    flag = getattr(declared, "flag", "")
    return flag if len(flag) > len("-x") else f"--{name.replace('_', '-')}"


def _parts(annotation: Any) -> Iterator[Any]:
    """The members of a union, those of unions in it included."""
    if get_origin(annotation) is Annotated:
        said = next((one for one in annotation.__metadata__ if isinstance(one, Unit | One)), None)
        yield from _parts(annotation.__origin__) if said is None else [said.kind if isinstance(said, One) else said]
    elif get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _parts(one)
    else:
        yield annotation


def _python(value: Any) -> Any:
    """A number, truth value or text of numpy as one of Python's; anything else as it is."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        found = value.item()
        return found if isinstance(found, bool | int | float | str) else value
    return value


def _fits(value: Any, part: Any) -> bool:
    """Whether a value is of one member of a union."""
    if isinstance(part, Unit):
        return _is_text(value) or _is_number(value)
    if part is str:
        return _is_text(value)
    if part in (int, float):
        return _is_number(value) and (part is float or isinstance(value, int))
    if part is Any or part is object:
        return True
    if part is Path and _is_one_of(value, (DROPPED,)):
        return True
    origin = get_origin(part)
    if origin is not None:
        return _fits_generic(value, origin, get_args(part))
    if isinstance(part, type) and issubclass(part, Named):
        return _is_one_of(value, part.names)
    return isinstance(value, part)


def _fits_generic(value: Any, origin: type, members: Sequence[Any]) -> bool:
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_is_text(name) for name in value)
    if not issubclass(origin, Iterable):
        return callable(value)
    parts = tuple(_parts(members[0]))
    return _is_list(value) and all(any(_fits(_python(one), part) for part in parts) for one in value)


def _is_one_of(value: Any, names: Sequence[str]) -> bool:
    return any(one.__name__ in names for one in type(value).__mro__)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_number(value: Any) -> bool:
    """Whether it is a number that is finite, and as a float too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _wanted(part: Any) -> str:
    if isinstance(part, Unit):
        return part.wanted
    origin = get_origin(part)
    name = getattr(origin or part, "__name__", str(part))
    if origin is None:
        return ARTICLES.get(name, f"an object of {name}")
    if issubclass(origin, Mapping):
        return "a mapping of names to values"
    return "a list" if issubclass(origin, Iterable) else "a function"
