"""Types of arrays and of formulas that broadcast over them.

Docstrings state a shape as names of axes in brackets, outermost first: `[layouts, stages]` has a row per layout and a
column per stage, `[rounds, 2]` two columns, `[]` is one number and `[...]` any shape. Arrays of one formula broadcast.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]
"""Of open element type."""

Whole: TypeAlias = int | npt.NDArray[np.integer[Any]]
"""A whole number or an array of them."""
Number: TypeAlias = float | npt.NDArray[np.number[Any]]
"""A number or an array of them: what closed forms take and return, broadcast."""
Truth: TypeAlias = bool | np.bool_ | Bools
"""A condition or an array of them."""
