"""`ConfigReader`: typed, located reading of one table of a Hugging Face config.json.

Every getter takes the names under which a value may stand (model types differ), and says what is wrong at "file:line".
Null is absent, but for a flag, where it is false as in the library, and where a family distinguishes them (`is_null`).
Keys that no getter reads are ignored: such files hold many that do not shape the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lockstep.base.documents import Locate
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.describe.workload.checks import LIMITS, divisors_near, shortened

ACTIVATION_NAMES = {
    "silu": "silu", "swish": "silu", "swiglu": "silu",
    "gelu": "gelu", "gelu_new": "gelu_new", "gelu_fast": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_10": "gelu",
    "gelu_python": "gelu", "quick_gelu": "gelu", "gelu_pytorch": "gelu",
    "relu": "relu", "relu2": "relu2",
}  # fmt: skip


ONE_VALUE = ("hidden", "layers", "heads", "kv_heads", "head_dim", "experts")
"""Limits of sizes whose names mean one thing; a file of the others may hold several, as of positions."""


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """One table of the file, and where it stands."""

    data: Mapping[str, object]
    locate: Locate
    path: tuple[str, ...] = ()

    def where(self, *names: str) -> str:
        """ "file:line" of the first of `names` that is there."""
        found = self._find(names)
        return self.locate(*self.path, found) if found else self.locate(*self.path)

    def has(self, *names: str) -> bool:
        """Whether one of `names` is there and not null."""
        return self._find(names) is not None

    def is_null(self, name: str) -> bool:
        """Whether `name` is there and null."""
        return name in self.data and self.data[name] is None

    def _find(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self.data.get(name) is not None), None)

    def size(self, *names: str, limit: str, default: int | None = None, minimum: int = 1) -> int:
        """A whole number up to LIMITS[limit]; missing without a default is an error, and so are two that differ."""
        self._agree(names, limit)
        found = self._find(names)
        if found is None:
            if default is None:
                also = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
                raise BadInput(f"key {names[0]}{also} is missing; it must be a whole number", self.where())
            return default
        value = self.data[found]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadInput(f"{found} must be a whole number, got {shortened(value)}", self.where(found))
        if not minimum <= value <= LIMITS[limit]:
            allowed = f"{minimum} to {LIMITS[limit]:,}"
            raise BadInput(f"{found} must be from {allowed}, got {shortened(value)}", self.where(found))
        return value

    def _agree(self, names: tuple[str, ...], limit: str) -> None:
        """Raises BadInput where a file gives one size under two names, and two values."""
        there = [name for name in names if self.data.get(name) is not None]
        if limit in ONE_VALUE and len({repr(self.data[name]) for name in there}) > 1:
            values = " and ".join(f"{name}={shortened(self.data[name])}" for name in there)
            raise BadInput(f"{values} are names of one size, and differ", self.where(there[-1]))

    def number(self, *names: str, default: float | None = None) -> float | None:
        """A finite number above 0."""
        found = self._find(names)
        if found is None:
            return default
        value = self.data[found]
        try:
            number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        except OverflowError:
            number = math.inf
        if not 0 < number < math.inf:
            raise BadInput(f"{found} must be a number above 0, got {shortened(value)}", self.where(found))
        return number

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        found = self._find(names)
        if found is None:
            return default and not any(self.is_null(name) for name in names)
        value = self.data[found]
        if not isinstance(value, bool):
            raise BadInput(f"{found} must be true or false, got {shortened(value)}", self.where(found))
        return value

    def words(self, name: str) -> list[Any]:
        """A list, empty when absent."""
        value = self.data.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise BadInput(f"{name} must be a list, got {shortened(value)}", self.where(name))
        return value

    def activation(self, *names: str, default: str = "") -> str:
        """The activation function, as one of the words of `Mlp`."""
        found = self._find(names)
        if found is None:
            if not default:
                raise BadInput(f"key {names[0]} is missing; it names the activation function", self.where())
            return default
        value = self.data[found]
        if not isinstance(value, str) or value not in ACTIVATION_NAMES:
            given = value if isinstance(value, str) else shortened(value)
            raise UnknownName(f"activation in {found}", given, ACTIVATION_NAMES, self.where(found))
        return ACTIVATION_NAMES[value]

    def table(self, *names: str) -> ConfigReader:
        """A nested table, empty when absent."""
        found = self._find(names)
        if found is None:
            return ConfigReader({}, self.locate, self.path)
        value = self.data[found]
        if not isinstance(value, dict):
            raise BadInput(f"{found} must be a table, got {shortened(value)}", self.where(found))
        return ConfigReader(value, self.locate, (*self.path, found))

    def head_dim(self, hidden: int, heads: int, default: int | None = None) -> int:
        """Width of a head: given, or `default` where absent, or hidden / heads, which must then divide."""
        if not self.has("head_dim") and (default is None or self.is_null("head_dim")):
            if hidden % heads:
                tries = " or ".join(str(number) for number in divisors_near(hidden, heads))
                message = (
                    f"{heads} attention heads do not divide the hidden size {hidden}; try {tries}, or give head_dim"
                )
                raise BadInput(message, self.where("num_attention_heads", "n_head", "n_heads"))
            default = hidden // heads
        return self.size("head_dim", limit="head_dim", default=default)

    def must_divide(self, name: str, number: int, of: int, what: str) -> None:
        """Raises BadInput at `name` unless its `number` divides `of`, which is `what`."""
        if of % number:
            raise BadInput(f"{name}={number} does not divide {of} {what}", self.where(name))

    def refuse(self, name: str, why: str) -> None:
        """Raises BadInput at `name`: the model has a part that is not described."""
        raise BadInput(f"{name}={shortened(self.data.get(name))} is not supported: {why}", self.where(name))
