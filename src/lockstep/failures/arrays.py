"""Arguments of broadcasting formulas as arrays of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def floats(*given: ArrayLike) -> tuple[Array, ...]:
    """Every argument as an array of doubles."""
    return tuple(np.asarray(one, dtype=np.float64) for one in given)
