"""Arrays of numpy and of torch through the same names."""

from __future__ import annotations

import sys
from typing import Any

Array = Any
"""A numpy array or a torch tensor."""


def namespace(array: Array) -> Any:
    """The library that made `array`: the module `numpy`, or `torch` once somebody has imported it."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def norm(array: Array) -> Array:
    """Euclidean norm of all entries, a scalar of the same library."""
    return namespace(array).sqrt((array * array).sum())
