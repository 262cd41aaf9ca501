"""Checks of the fields of a description; each raises an error at the field's dotted key."""

from __future__ import annotations

import math

from lockstep.base.errors import BadInput, UnknownName

# Largest value of a field; beyond it a number is taken for a mistake, and products stay below 2**63.
LIMITS = {
    "layers": 10_000, "hidden": 1_000_000, "vocab": 100_000_000, "heads": 100_000, "kv_heads": 100_000,
    "head_dim": 100_000, "ffn": 10_000_000, "experts": 100_000, "top_k": 100_000, "positions": 1_000_000_000,
}  # fmt: skip


def whole(owner: str, name: str, value: object, limit: int, minimum: int = 1) -> None:
    """Raises BadInput unless `value` is a whole number from `minimum` to `limit`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be a whole number, got {shortened(value)}", _key(owner, name))
    if not minimum <= value <= limit:
        raise BadInput(f"{name} must be from {minimum} to {limit:,}, got {shortened(value)}", _key(owner, name))


def positive(owner: str, name: str, value: object) -> None:
    """Raises BadInput unless `value` is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadInput(f"{name} must be a number above 0, got {shortened(value)}", _key(owner, name))


def one_of(owner: str, name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises UnknownName unless `value` is one of the words `allowed`."""
    if value not in allowed:
        raise UnknownName(name, str(value), allowed, _key(owner, name))


def flags(owner: str, record: object, *names: str) -> None:
    """Raises BadInput unless every named field is true or false."""
    for name in names:
        value = getattr(record, name)
        if not isinstance(value, bool):
            raise BadInput(f"{name} must be true or false, got {shortened(value)}", _key(owner, name))


def _key(owner: str, name: str) -> str:
    """The dotted key of a field, as it stands in a file: `layers`, `attention.heads`."""
    return f"{owner}.{name}" if owner != "model" else name


def shortened(value: object) -> str:
    """`value` for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def divisors_near(number: int, wanted: int, count: int = 3) -> list[int]:
    """The divisors of `number` closest to `wanted`, ascending, for messages that say what to try."""
    small = [divisor for divisor in range(1, min(number, 100_000) + 1) if number % divisor == 0]
    return sorted(sorted(small, key=lambda divisor: abs(divisor - wanted))[:count])
