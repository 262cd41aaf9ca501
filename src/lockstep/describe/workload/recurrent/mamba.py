"""Mamba-1, the selective state-space layer (Gu and Dao 2023, arXiv 2312.00752, section 3 and figure 3).

    h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t        y_t = C_t h_t + D x_t        out = W_out (y silu(z))

with x and z from one projection, a short convolution over x, and dt, B, C from another. E channels (inner), N states
for each. The scan is one kernel that keeps its states on chip: it counts 9 E N FLOPs a token, as its authors do
(github.com/state-spaces/mamba, issue 110), runs no matrix products, and is priced as the memory that it moves. What
it keeps: mamba_ssm/ops/selective_scan_interface.py, MambaInnerFn with checkpoint_lvl=1, which makes dt and the
convolution's output again.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload.checks import LIMITS, flags, whole
from lockstep.describe.workload.piece import Piece, Row
from lockstep.describe.workload.recurrent.chunk import Product, Stream
from lockstep.describe.workload.weight import Weight

SCAN_FLOPS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba:
    """A Mamba-1 mixer."""

    inner: int
    """Channels of the scan."""
    state: int
    """States of a channel."""
    rank: int
    """Width from which time steps are made."""
    conv: int = 4
    """Tokens that the convolution sees."""
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False
    """Norms on time steps, B and C (Jamba)."""

    def __post_init__(self) -> None:
        for name in ("inner", "state", "rank", "conv"):
            whole("recurrent", name, getattr(self, name), LIMITS["ffn"])
        flags("recurrent", self, "bias", "conv_bias", "inner_norms")

    @property
    def heads(self) -> int:
        """What tensor parallelism shares out: channels."""
        return self.inner

    def weights(self, hidden: int) -> Iterator[Weight]:
        """Projections, convolution, state matrices."""
        inner, wide = self.inner, self.rank + 2 * self.state
        yield Weight("recurrent in", "recurrent", (hidden, 2 * inner), "tensor")
        if self.bias:
            yield Weight("recurrent in bias", "recurrent", (2 * inner,), "tensor")
        yield Weight("convolution", "recurrent", (inner, 1, self.conv), "tensor")
        if self.conv_bias:
            yield Weight("convolution bias", "recurrent", (inner,), "tensor")
        yield Weight("recurrent steps", "recurrent", (inner, wide), "tensor")
        yield Weight("time step up", "recurrent", (self.rank, inner), "tensor")
        yield Weight("time step bias", "recurrent", (inner,), "tensor")
        # A vector of states for every channel, which no product takes.
        yield Weight("decay", "recurrent", (inner, 1, self.state), "tensor")
        yield Weight("skip", "recurrent", (inner,), "tensor")
        if self.inner_norms:
            yield Weight("recurrent norms", "norms", (wide,))
        yield Weight("recurrent out", "recurrent", (inner, hidden), "tensor")
        if self.bias:
            yield Weight("recurrent out bias", "recurrent", (hidden,))

    def core_flops(self, seq: Number, counting: str) -> Number:
        """FLOPs of a token in convolution and scan."""
        del seq, counting
        return self.inner * (SCAN_FLOPS * self.state + 2 * self.conv)

    def rows(self, piece: Piece) -> Iterator[Row]:
        """What the layer keeps behind its input."""
        yield Row("recurrent projection", 2 * self.inner * piece.element_B, "tp")
        yield Row("recurrent steps", (self.rank + 4 * self.state) * piece.element_B, "kv", most=1)
        yield Row("recurrent output", self.inner * piece.element_B, "tp")

    def products(self, seq: Number) -> tuple[Number, tuple[Product, ...]]:
        """Tokens of a chunk, and its products: none."""
        return seq, ()

    def streams(self) -> tuple[Stream, ...]:
        """Convolution, made again backward; scan of x, time steps and gates."""
        return Stream(self.inner, 2.0, 5.0), Stream(self.inner, 4.0, 8.0)
