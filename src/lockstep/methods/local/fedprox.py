"""FedProx: local steps are pulled back to where the round began.

    gradient of f_i(y) + (mu / 2) |y - x|^2   =   g_i(y) + mu (y - x)
y the worker's parameters, x those at the start of the round, mu the strength. A large mu shortens the drift of workers
with different data and the progress alike; it does not remove the bias of the fixed point.

Source: T. Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, equation 2.
"""

from __future__ import annotations

from typing import Any

Array = Any


def proximal_gradient(gradient: Array, parameters: Array, start: Array, strength: float) -> Array:
    """The gradient of the local objective with its proximal term."""
    return gradient + strength * (parameters - start)
