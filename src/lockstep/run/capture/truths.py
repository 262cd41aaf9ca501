"""What is known of tensors without values: in a step that is worth a capture every number is finite.

Programs look whether a loss or a norm is, and leave the update out where it is not. What such a question gives is
known, and so is what follows from it until the program asks.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor

NOWHERE = frozenset(("isnan", "isinf", "isposinf", "isneginf"))
KEEPS = frozenset(
    ("any", "all", "max", "min", "amax", "amin", "mean", "_to_copy", "view", "_unsafe_view", "detach", "clone", "alias")
) | {"squeeze", "unsqueeze", "expand"}
NOT, OR, AND = ({"logical_not", "bitwise_not"}, {"logical_or", "bitwise_or"}, {"logical_and", "bitwise_and", "mul"})
COMPARES = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
JOINS = frozenset(("stack", "cat"))
ALL = NOWHERE | KEEPS | NOT | OR | AND | set(COMPARES) | JOINS | {"sum"}


def truth(one: Any) -> bool | None:
    """The value of all elements of a tensor, where it is known."""
    found: bool | None = getattr(one, "known_truth", None)
    return found


def follow(function: Any, args: Any, given: Any) -> None:
    """Keeps what is known of what an operation gives."""
    name = function._opname
    changes = name[-1] == "_" and bool(args) and given is args[0]
    if not isinstance(given, FakeTensor) or (not changes and name not in ALL):
        return
    found = _follows(name.rstrip("_") if changes else name, args)
    if found is not None or truth(given) is not None:
        given.known_truth = found  # type: ignore[attr-defined]


def _follows(name: str, args: Any) -> bool | None:
    first, second = args[0], args[1] if len(args) > 1 else None
    if name in NOWHERE:
        return False
    if name in COMPARES:
        return _compared(name, first, second)
    if name in JOINS:
        found = {truth(one) for one in first}
        return found.pop() if len(found) == 1 else None
    known, other = truth(first), truth(second)
    if name in OR:
        return True if True in (known, other) else False if known is False is other else None
    if name in AND:
        return False if False in (known, other) else True if known is True is other else None
    if known is None:
        return None
    return not known if name in NOT else known if name in KEEPS or (name == "sum" and not known) else None


def _compared(name: str, first: Any, second: Any) -> bool | None:
    """Of a tensor with itself, with what is not finite, or of a known one with a number."""
    if first is second and name in ("eq", "ne"):
        return name == "eq"
    if not isinstance(second, int | float):
        return None
    if not math.isfinite(second):
        return {"eq": False, "ne": True}.get(name)
    known = truth(first)
    return None if known is None else bool(COMPARES[name](known, second))
