"""Gated delta net (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464, equation 10), as in Qwen3-Next.

    S_t = a_t S_{t-1} (I - b_t k_t k_t^T) + b_t v_t k_t^T      o_t = S_t q_t      out = W_out (norm(o) silu(z))

H value heads of d_v, each with a query and key head of d_k, of which there may be fewer (G). In chunks of C tokens
the product of the transitions takes the UT transform (Yang et al. 2024, arXiv 2406.06484, section 3.2): T, the
inverse of a C x C triangle made of K K^T; W = T K and U = T V; then, with the state, W S, Q S, the masked Q K^T times
the new values, and the state's update. Per head 2 (C (3 d_k + 2 d_v) + C^2/6 + 3 d_k d_v) FLOPs a token, all but the
last halved where a mask is counted. What it keeps: fla/ops/gated_delta_rule/chunk.py (queries and keys repeated to H
heads and normalized, values, gates, T) and the convolution's input; W, U and states are made again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload.checks import LIMITS, whole
from lockstep.describe.workload.piece import Piece, Row
from lockstep.describe.workload.recurrent.chunk import Product, Stream, flops_per_token
from lockstep.describe.workload.weight import Weight

CHUNK = 64
"""Tokens of a chunk: fixed in fla/ops/gated_delta_rule/chunk.py."""
GATES_B = 4.0
"""Bytes of a decay, of a strength and of the scales of the norms: fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """A gated delta net."""

    heads: int
    """Value heads."""
    key_heads: int
    """Query and key heads."""
    key_dim: int
    value_dim: int
    conv: int = 4
    """Tokens that the convolution sees."""

    def __post_init__(self) -> None:
        for name in ("heads", "key_heads", "key_dim", "value_dim", "conv"):
            whole("recurrent", name, getattr(self, name), LIMITS["head_dim"])
        if self.heads % self.key_heads:
            raise BadInput(f"key_heads={self.key_heads} does not divide {self.heads} heads", "recurrent.key_heads")

    @property
    def inner(self) -> int:
        """Width of all value heads."""
        return self.heads * self.value_dim

    @property
    def shared(self) -> int:
        """Width of all queries and keys before they are repeated."""
        return 2 * self.key_heads * self.key_dim

    def weights(self, hidden: int) -> Iterator[Weight]:
        """Projections, convolution, gates, norm."""
        inner, shared, groups = self.inner, self.shared, self.key_heads
        yield Weight("recurrent in", "recurrent", (hidden, 2 * inner + 2 * self.heads), "tensor")
        yield Weight("recurrent in shared", "recurrent", (hidden, shared), "kv", kv_heads=groups)
        yield Weight("convolution", "recurrent", (inner, 1, self.conv), "tensor")
        yield Weight("convolution shared", "recurrent", (shared, 1, self.conv), "kv", kv_heads=groups)
        for name in ("time step bias", "decay"):
            yield Weight(name, "recurrent", (self.heads,), "tensor")
        yield Weight("recurrent norm", "norms", (self.value_dim,))
        yield Weight("recurrent out", "recurrent", (inner, hidden), "tensor")

    def core_flops(self, seq: Number, counting: str) -> Number:
        """FLOPs of a token in convolution and recurrence."""
        chunk, products = self.products(seq)
        return 2 * self.conv * (self.inner + self.shared) + flops_per_token(products, chunk, counting)

    def rows(self, piece: Piece) -> Iterator[Row]:
        """What the layer keeps behind its input."""
        element_B = piece.element_B
        yield Row("convolution input", self.inner * element_B, "tp")
        yield Row("convolution input shared", self.shared * element_B, "kv", most=self.key_heads)
        yield Row("recurrent query and key", 2 * self.heads * self.key_dim * element_B, "tp")
        yield Row("recurrent value", self.inner * element_B, "tp")
        yield Row("recurrent gates", 4 * self.heads * GATES_B, "tp")
        yield Row("recurrent triangle", self.heads * CHUNK * element_B, "tp")
        for name in ("recurrent output", "recurrent output gate", "recurrent out input"):
            yield Row(name, self.inner * element_B, "tp")

    def products(self, seq: Number) -> tuple[Number, tuple[Product, ...]]:
        """Tokens of a chunk, and its products."""
        c, d_k, d_v, heads = np.minimum(CHUNK, seq), self.key_dim, self.value_dim, self.heads
        inside = ((c, c, d_k), (c, c, c / 6), (c, d_k, c), (c, d_v, c), (c, c, d_k), (c, d_v, c))
        state = ((c, d_v, d_k), (c, d_v, d_k), (d_k, d_v, c))
        return c, (
            *(Product(m, n, k, heads, triangle=True) for m, n, k in inside),
            *(Product(m, n, k, heads) for m, n, k in state),
        )

    def streams(self) -> tuple[Stream, ...]:
        """Convolution; norms of queries and keys; the recurrence's reading and writing; gated norm."""
        wide = 2 * self.heads * self.key_dim
        return (
            Stream(self.inner + self.shared, 2.0, 3.0),
            Stream(wide, 2.0, 3.0),
            Stream(wide + self.inner, 1.5, 3.0),
            Stream(self.inner, 3.0, 5.0),
        )
