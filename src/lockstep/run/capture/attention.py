"""Fused attention as the card would choose it, by the kernel's own operation: its saved tensors are the card's."""

from __future__ import annotations

from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)
MOST_HEAD = 256
ALIGNED = 8
CUDNN_FIRST, FLASH = (9, 0), (8, 0)
"""Compute capabilities from which PyTorch takes cuDNN's kernel first, and from which FlashAttention runs."""


class Attention:
    """`scaled_dot_product_attention` on a card of a compute capability."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.first = "cudnn" if tuple(capability) >= CUDNN_FIRST else "flash" if tuple(capability) >= FLASH else ""

    def __call__(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        aten = torch.ops.aten
        if query.device.type == "cpu":
            return aten.scaled_dot_product_attention.default(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        query, key, value = (_cast(one) for one in (query, key, value))
        if (
            enable_gqa
            and query.dim() == 4
            and key.shape[-3] != query.shape[-3]
            and (self.first != "cudnn" or query.dtype not in HALVES)
        ):
            repeats = query.shape[-3] // key.shape[-3]
            key, value = (one.repeat_interleave(repeats, -3) for one in (key, value))
        if not _fits(query, key, value, enable_gqa):
            return aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )[0]
        grads = any(one.requires_grad for one in (query, key, value)) and torch.is_grad_enabled()
        fused = bool(self.first) and query.dtype in HALVES and query.shape[-1] <= MOST_HEAD
        cudnn = self.first == "cudnn" and not getattr(attn_mask, "requires_grad", False)
        if fused and cudnn and query.shape[-1] % ALIGNED == 0 and query.shape[-1] <= 128:
            return aten._scaled_dot_product_cudnn_attention(
                query, key, value, attn_mask, grads, dropout_p, is_causal, False, scale=scale
            )[0]
        if fused and attn_mask is None:
            width = query.shape[-1]
            padded = (torch.nn.functional.pad(one, (0, -width % ALIGNED)) if width % ALIGNED else one
                      for one in (query, key, value))  # fmt: skip
            said = scale if scale is not None else width**-0.5
            return aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, False, scale=said)[0][
                ..., :width
            ]
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(attn_mask.logical_not(), -torch.inf)
        mask = None if attn_mask is None else attn_mask.expand(*query.shape[:-1], key.shape[-2])
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, grads, dropout_p, is_causal, scale=scale
        )[0]


def _cast(one: Any) -> Any:
    if torch.is_autocast_enabled("cuda") and one.is_floating_point():
        return one.to(torch.get_autocast_dtype("cuda"))
    return one


def _fits(query: Any, key: Any, value: Any, enable_gqa: bool) -> bool:
    """Whether a fused kernel takes tensors of these shapes: rows and heads are not spread over others."""
    batches = {tuple(one.shape[:1] if enable_gqa else one.shape[:2]) for one in (query, key, value)}
    return query.dim() == key.dim() == value.dim() == 4 and len(batches) == 1
