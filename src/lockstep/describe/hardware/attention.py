"""`AttentionKernel`: the rate of a fused attention kernel by length of the sequence and size of a head.

    rate = peak * frac / (1 + L / s) * min(1, D / 128)^p * d / D

Symbols: s tokens per sequence, d elements of a head, D those of the size that the kernel is built for, to which heads
are padded (FlashAttention 1: 32, 64, 128, csrc/flash_attn/fmha_api.cpp, run_fmha_fwd; FlashAttention 2: 32, 64, 96 and
so on, csrc/flash_attn/src/flash_fwd_launch_template.h; in Triton: powers of two, BLOCK_HEADDIM), L tokens that cost as
much as the fixed work of a row of tiles (those on the diagonal are computed whole, though a causal mask needs half of
them), p what narrow heads lose. Without a mask L is `full_share` of that. Rates count the FLOPs that a kernel executes:
forward 2 products over the scores that the mask leaves, backward 5 (FlashAttention-2, arXiv 2307.08691, section 3).
Constants and their sources: `catalog/efficiency.toml`; `python tools/fit/attention.py` fits them to published rates.
"""

from __future__ import annotations

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number

WIDE_HEAD = 128
"""Elements of a head from which kernels run at their full rate."""


@dataclass(frozen=True, slots=True)
class AttentionKernel:
    """Achieved fractions of a device's half-precision peak, forward and backward."""

    forward_frac: float
    backward_frac: float
    forward_tokens: float = 0.0
    """L of the module's head, forward."""
    backward_tokens: float = 0.0
    full_share: float = 1.0
    """Share of L where nothing is masked."""
    narrow_power: float = 0.0
    """p of the module's head."""
    head_sizes: tuple[int, ...] = ()
    """Sizes of heads that the kernel is built for: others are padded to the next one. None means any size."""
    source: str = ""

    def frac(self, tokens: Number, head_dim: int, causal: bool, backward: bool) -> Number:
        """Fraction of the peak at sequences of `tokens`."""
        most, ramp = self.forward_frac, self.forward_tokens
        if backward:
            most, ramp = self.backward_frac, self.backward_tokens
        share = 1.0 if causal else self.full_share
        padded = next((size for size in self.head_sizes if size >= head_dim), head_dim)
        narrow = head_dim / padded * float(min(1.0, padded / WIDE_HEAD) ** self.narrow_power)
        return most * narrow / (1.0 + share * ramp / tokens)

    def slowed(self, factor: float) -> AttentionKernel:
        """The kernel that takes `factor` times as long."""
        return replace(self, forward_frac=self.forward_frac / factor, backward_frac=self.backward_frac / factor)
