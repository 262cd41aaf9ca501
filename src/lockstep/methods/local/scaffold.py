"""SCAFFOLD: control variates take the difference between a worker's data and everybody's out of its steps.

    local step     y <- y - a (g_i(y) - c_i + c)
    after K steps  c_i' = c_i - c + (x - y_i) / (K a)           (option II: the mean gradient on the way)
    server         c <- c + (share of workers that took part) * mean of (c_i' - c_i)
c_i control of worker i, c of the server, zeros at first. Sends a control beside the parameters: twice the bytes per
round. At the common optimum the corrected gradients of all workers are zero, so the drift ends there.

Source: S. P. Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020,
algorithm 1.
"""

from __future__ import annotations

from typing import Any

Array = Any


def corrected_gradient(gradient: Array, own: Array, common: Array) -> Array:
    """g_i - c_i + c."""
    return gradient - own + common


def new_control(own: Array, common: Array, start: Array, end: Array, steps: int, step_size: float) -> Array:
    """c_i of the next round, from the worker's movement over `steps` local steps."""
    return own - common + (start - end) / (steps * step_size)
