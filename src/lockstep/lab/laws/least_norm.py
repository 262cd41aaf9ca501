"""The solution of X theta = y that is nearest to a start, in a diagonal norm.

    theta = start + D X' (X D X')^-1 (y - X start)        least sum (theta_i - start_i)^2 / D_i
X: n equations in d >= n unknowns, of full rank; D: the preconditioner of the method that walks there.
"""

from __future__ import annotations

import numpy as np

from lockstep.lab.findings import Array


def least_norm_solution(x: Array, y: Array, scale: Array, start: Array | float = 0.0) -> Array:
    """The nearest solution to `start` in the norm sum (theta_i - start_i)^2 / scale_i, shape (d,)."""
    origin = np.zeros(x.shape[1]) + start
    return np.asarray(origin + scale * (x.T @ np.linalg.solve((x * scale) @ x.T, y - x @ origin)))
