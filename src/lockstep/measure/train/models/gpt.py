"""A tiny GPT: character and position embeddings, pre-norm blocks of causal attention and MLP, an output layer.

B batch, S sequence, H hidden, D size of a head. Blocks take the number of heads from the width of `query`, so that a
tensor-parallel rank can hold some of them.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lockstep.measure.train.data import WINDOW

HIDDEN, HEAD = 32, 8


class Embedding(nn.Module):
    """Character plus position."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.token = nn.Embedding(classes, HIDDEN)
        self.position = nn.Parameter(0.02 * torch.randn(WINDOW, HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        """(B, S) numbers to (B, S, H)."""
        embedded: Tensor = self.token(x)
        return embedded + self.position[: x.shape[1]]


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    SPLIT: ClassVar = {
        "attention_norm": "enter", "query": "column", "key": "column", "value": "column", "mixed": "row",
        "mlp_norm": "enter", "up": "column", "down": "row",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.query, self.key, self.value, self.mixed = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, H) to (B, S, H)."""
        x = x + self.attention(self.attention_norm(x))
        added: Tensor = self.down(nn.functional.gelu(self.up(self.mlp_norm(x))))
        return x + added

    def attention(self, x: Tensor) -> Tensor:
        """Causal attention of the heads that `query` holds."""
        query, key, value = (
            linear(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        looked = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed: Tensor = self.mixed(looked.transpose(1, 2).flatten(2))
        return mixed


def build(layers: int, classes: int) -> nn.Sequential:
    """`layers` pieces: embedding, blocks, output."""
    last = nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, classes))
    return nn.Sequential(Embedding(classes), *(Block() for _ in range(layers - 2)), last)
