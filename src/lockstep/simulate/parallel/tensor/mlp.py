"""The feed-forward block: a column layer, GELU, a row layer: one all-reduce forward, one backward.

    y = gelu(x W_1) W_2,   W_1 by columns, W_2 by rows: the widened activations never leave their rank
Cut the other way round, GELU would need the whole sum first, because gelu(a + b) is not gelu(a) + gelu(b).

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3, figure 3a.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.tensor.layer import Layer, Local, State
from lockstep.simulate.parallel.tensor.linear import column, pointwise, row

SCALE = math.sqrt(2 / math.pi)


def mlp(x: str, y: str, *, tokens: int, hidden: int, ffn: int, ranks: int, sequence_parallel: bool = False) -> Layer:
    """y = gelu(x mlp_in) mlp_out; weights `mlp_in` [h, f] and `mlp_out` [f, h]."""
    wide = column(
        x, "mlp_in", "wide", tokens=tokens, inputs=hidden, outputs=ffn, ranks=ranks,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip

    def forward(state: State, rank: int) -> None:
        state["active"] = gelu(state["wide"])

    def backward(state: State, rank: int) -> None:
        state["d wide"] = state["d active"] * gelu_slope(state["wide"])

    active = pointwise(wide, Local("gelu", forward), Local("d gelu", backward), "active")
    return active + row(
        "active", "mlp_out", y, tokens=tokens, inputs=ffn, outputs=hidden, ranks=ranks,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip


def gelu(x: Array) -> Array:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), [...]. Source: D. Hendrycks, K. Gimpel, 2016."""
    return np.asarray(0.5 * x * (1 + np.tanh(SCALE * (x + 0.044715 * x**3))))


def gelu_slope(x: Array) -> Array:
    """Derivative [...] of `gelu` at `x` [...]."""
    inner = np.tanh(SCALE * (x + 0.044715 * x**3))
    return np.asarray(0.5 * (1 + inner) + 0.5 * x * (1 - inner**2) * SCALE * (1 + 3 * 0.044715 * x**2))
