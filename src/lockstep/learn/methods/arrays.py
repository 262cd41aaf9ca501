"""Arrays of numpy and of torch through the same names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

Array = Any
"""A numpy array or a torch tensor."""


def ieee(function: Function) -> Function:
    """`function` without numpy's warnings about overflow and NaN: values go through as IEEE 754 says, as in torch.

    Which operations warn about a signalling NaN differs between processors; the results do not.
    """

    return np.errstate(all="ignore")(function)


def namespace(array: Array) -> Any:
    """The library that made `array` [...]: the module `numpy`, or `torch` once somebody has imported it."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def norm(array: Array) -> Array:
    """Euclidean norm [] of all entries of `array` [...], in its own library."""
    return namespace(array).sqrt((array * array).sum())


def cast(array: Array, dtype: str) -> Array:
    """`array` [...] as numbers of the named kind, such as `int32`, in its own library."""
    library = namespace(array)
    return library.asarray(array, dtype=getattr(library, dtype))


def like(values: Array, array: Array) -> Array:
    """`values` [...], of numpy or of the same library, as the kind of number and on the device of `array` [...]."""
    return namespace(array).asarray(values, dtype=array.dtype, **place(array))


def place(array: Array) -> dict[str, Any]:
    """Keyword arguments with which its library makes a new array on the device of `array` [...]."""
    return {} if namespace(array).__name__ == "numpy" else {"device": array.device}


def wide(array: Array) -> Array:
    """`array` [...] with at least 32 bits per entry, which linear algebra needs."""
    return cast(array, "float32") if array.dtype.itemsize < 4 else array


def flat(array: Array) -> Array:
    """All entries of `array` [...] in one row: [elems]."""
    return array.reshape(-1)
