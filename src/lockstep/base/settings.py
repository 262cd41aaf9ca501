"""Settings of an experiment or of a training method: a frozen dataclass whose fields say what they mean and allow.

    @dataclass(frozen=True, slots=True)
    class Settings:
        step_size: float = setting(0.1, "Of gradient descent.", above=0)
        delays: tuple[int, ...] = setting((0, 1, 2), "Updates between read and write.", least=0, most=1000)

Text is read by the type of the default and by the unit at the end of the name (`_s`, `_B`, `_Bps`, `_frac`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar

from lockstep.base.errors import BadInput, UnknownName, shown
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_bandwidth_Bps, parse_count, parse_frac, parse_integer, parse_size_B, parse_time_s

S = TypeVar("S")

MOST_NUMBERS = 1000
"""Values that a setting with several of them may have."""
SMALLEST, LARGEST = 1e-60, 1e60
"""Magnitude limits for non-zero values, so that x**4 stays a finite float64."""
_UNITS: dict[str, Callable[[object, str], float]] = {
    "_s": parse_time_s, "_B": parse_size_B, "_Bps": parse_bandwidth_Bps, "_frac": parse_frac,
}  # fmt: skip


def setting(
    default: Any,
    words: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[str] | Callable[[], Sequence[str]] = (),
) -> Any:
    """A field of a settings class: its default, one sentence of help, and what is allowed (bounds of every value).

    Choices that other packages may add to are a function, which is asked when they are needed.
    """
    bounds = {"least": least, "most": most, "above": above, "below": below}
    return field(default=default, metadata={"help": words, "choices": choices, **bounds})


def read_settings(kind: type[S], given: Mapping[str, object]) -> S:
    """An object of `kind` with the values that are given, as text or as Python values; defaults for the rest."""
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    values: Json = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UnknownName("setting", key, tuple(known), "--set")
        values[name] = _read(known[name], value)
    return kind(**values)


def described(kind: type[Any]) -> list[Json]:
    """Name, default, what is allowed and help of every setting."""
    return [
        {"name": one.name, "default": one.default, "allowed": allowed(one), "help": one.metadata["help"]}
        for one in fields(kind)
    ]


def choices_of(one: Field[Any]) -> tuple[str, ...]:
    """The names that a setting may be; empty for any text, and for numbers."""
    choices = one.metadata["choices"]
    return tuple(choices() if callable(choices) else choices)


def allowed(one: Field[Any]) -> str:
    """What a setting may be, in words."""
    if named := choices_of(one):
        return ", ".join(named)
    several = isinstance(one.default, tuple)
    inner: Any = one.default
    if several:
        inner = inner[0]
    if isinstance(inner, bool):
        return "true or false"
    if isinstance(inner, str):
        return "text"
    kind = "whole number" if isinstance(inner, int) else "number"
    words = {"least": "at least", "above": "above", "most": "at most", "below": "below"}
    if one.metadata["least"] is not None and one.metadata["most"] is not None:
        words |= {"least": "from", "most": "to"}
    bounds = [f"{word} {one.metadata[key]:g}" for key, word in words.items() if one.metadata[key] is not None]
    return " ".join([f"{kind}s separated by commas, each" if several and bounds else kind + "s" * several, *bounds])


def _read(one: Field[Any], value: object) -> Any:
    where = f"--set {one.name}"
    if one.default is MISSING:
        raise TypeError(f"the setting {one.name} has no default")
    if not isinstance(one.default, tuple):
        return _single(one, one.default, value, where)
    parts: Sequence[object] = value.split(",") if isinstance(value, str) else _listed(value, where)
    if not 1 <= len(parts) <= MOST_NUMBERS:
        raise BadInput(f"needs 1 to {MOST_NUMBERS} values, got {len(parts)}", where)
    return tuple(_single(one, one.default[0], part, where) for part in parts)


def _listed(value: object, where: str) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return value
    if isinstance(value, int | float):
        return (value,)
    raise BadInput("expected values separated by commas", where)


def _single(one: Field[Any], like: Any, value: object, where: str) -> Any:
    """One value of the type of `like`, within the bounds."""
    if isinstance(like, bool):
        return _truth(value, where)
    if isinstance(like, str):
        return _word(one, value, where)
    number = _number(one.name, like, value.strip() if isinstance(value, str) else value, where)
    rules = one.metadata
    if (
        (rules["least"] is not None and number < rules["least"])
        or (rules["most"] is not None and number > rules["most"])
        or (rules["above"] is not None and number <= rules["above"])
        or (rules["below"] is not None and number >= rules["below"])
    ):
        raise BadInput(
            f"must be a {allowed(one).replace('numbers separated by commas, each', 'number')}, got {value}", where
        )
    if number and not SMALLEST <= abs(number) <= LARGEST:
        raise BadInput(f"must be 0 or between {SMALLEST:g} and {LARGEST:g} in size, got {value}", where)
    return number


def _number(name: str, like: float, value: object, where: str) -> float:
    """A number in SI units, by the unit in the name; negative ones only where there is no unit."""
    if isinstance(like, int):
        return parse_integer(value, where, minimum=0)
    for ending, parse in _UNITS.items():
        if name.endswith(ending):
            return parse(value, where)
    if isinstance(value, str) and value.startswith("-"):
        return -parse_count(value[1:], where)
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return -parse_count(-value, where)
    return parse_count(value, where)


def _truth(value: object, where: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if not isinstance(value, str) or value.lower() not in words:
        raise BadInput(f"must be true or false, got {shown(value)}", where)
    return words[value.lower()]


def _word(one: Field[Any], value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"must be text, got {shown(value)}", where)
    text, named = value.strip(), choices_of(one)
    if named and text not in named:
        raise UnknownName(one.name.replace("_", " "), text, named, where)
    return text
