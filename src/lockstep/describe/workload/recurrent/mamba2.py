"""Mamba-2, state-space duality in chunks (Dao and Gu 2024, arXiv 2405.21060, section 6 and listing 1).

    h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t^T       y_t = h_t^T C_t + D x_t       out = W_out norm(y silu(z))

H heads of P channels with one scalar A each, N states, B and C shared by the heads of each of G groups. In chunks of Q
tokens: C B^T (Q x Q, per group), the masked scores times x, the state that a chunk leaves (N x P), and what the state
before it gives (Q x P): 2 (Q N G + Q P H + 2 N P H) FLOPs a token, the first two halved where a mask is counted.
What it keeps: mamba_ssm/ops/triton/ssd_combined.py, MambaSplitConv1dScanCombinedFn: the whole projection and the scan's
output; convolution, states and the norm's output are made again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload.checks import LIMITS, flags, whole
from lockstep.describe.workload.piece import Piece, Row
from lockstep.describe.workload.recurrent.chunk import Product, Stream, flops_per_token
from lockstep.describe.workload.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 mixer."""

    heads: int
    head_dim: int
    state: int
    groups: int = 1
    conv: int = 4
    """Tokens that the convolution sees."""
    chunk: int = 256
    """Tokens of a chunk of the scan."""
    bias: bool = False
    conv_bias: bool = True

    def __post_init__(self) -> None:
        for name in ("heads", "head_dim", "state", "groups", "conv", "chunk"):
            whole("recurrent", name, getattr(self, name), LIMITS["ffn"])
        flags("recurrent", self, "bias", "conv_bias")
        if self.heads % self.groups:
            raise BadInput(f"groups={self.groups} does not divide {self.heads} heads", "recurrent.groups")

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    @property
    def shared(self) -> int:
        """Width of B and C of all groups."""
        return 2 * self.groups * self.state

    def weights(self, hidden: int) -> Iterator[Weight]:
        """Projections, convolution, state parameters, norm."""
        inner, shared, groups = self.inner, self.shared, self.groups
        own = 2 * inner + self.heads
        yield Weight("recurrent in", "recurrent", (hidden, own), "tensor")
        yield Weight("recurrent in shared", "recurrent", (hidden, shared), "kv", kv_heads=groups)
        if self.bias:
            yield Weight("recurrent in bias", "recurrent", (own,), "tensor")
            yield Weight("recurrent in shared bias", "recurrent", (shared,), "kv", kv_heads=groups)
        yield Weight("convolution", "recurrent", (inner, 1, self.conv), "tensor")
        yield Weight("convolution shared", "recurrent", (shared, 1, self.conv), "kv", kv_heads=groups)
        if self.conv_bias:
            yield Weight("convolution bias", "recurrent", (inner,), "tensor")
            yield Weight("convolution shared bias", "recurrent", (shared,), "kv", kv_heads=groups)
        for name in ("time step bias", "decay", "skip"):
            yield Weight(name, "recurrent", (self.heads,), "tensor")
        yield Weight("recurrent norm", "norms", (inner,), "tensor")
        yield Weight("recurrent out", "recurrent", (inner, hidden), "tensor")
        if self.bias:
            yield Weight("recurrent out bias", "recurrent", (hidden,))

    def core_flops(self, seq: Number, counting: str) -> Number:
        """FLOPs of a token in convolution and scan."""
        chunk, products = self.products(seq)
        return 2 * self.conv * (self.inner + self.shared) + flops_per_token(products, chunk, counting)

    def rows(self, piece: Piece) -> Iterator[Row]:
        """What the layer keeps behind its input."""
        yield Row("recurrent projection", (2 * self.inner + self.heads) * piece.element_B, "tp")
        yield Row("recurrent B and C", self.shared * piece.element_B, "kv", most=self.groups)
        yield Row("recurrent output", self.inner * piece.element_B, "tp")

    def products(self, seq: Number) -> tuple[Number, tuple[Product, ...]]:
        """Tokens of a chunk, and its products."""
        q = np.minimum(self.chunk, seq)
        return q, (
            Product(q, q, self.state, self.groups, triangle=True),
            Product(q, self.head_dim, q, self.heads, triangle=True),
            Product(self.state, self.head_dim, q, self.heads),
            Product(q, self.head_dim, self.state, self.heads),
        )

    def streams(self) -> tuple[Stream, ...]:
        """Convolution, made again backward; what the scan reads and writes; gated norm, made again."""
        return Stream(self.inner + self.shared, 2.0, 5.0), Stream(self.inner, 2.0, 4.0), Stream(self.inner, 3.0, 8.0)
