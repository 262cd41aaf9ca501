"""The networks of `models`: each an `nn.Sequential` of pieces, made by a function of the model's name.

In the GPT B is the batch, S the sequence, H hidden, D the size of a head. Its blocks take the number of heads from the
width of `query`, so that a tensor-parallel rank can hold some of them.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lockstep.run.train.models import WINDOW

PIXELS, WIDTH = 64, 64
EXPERTS = 4
SIDE, CHANNELS = 8, 12
HIDDEN, HEAD = 32, 8


class Residual(nn.Module):
    """x + down(relu(up(x)))."""

    SPLIT: ClassVar = {"enter": "enter", "up": "column", "down": "row"}

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Identity()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width) to (batch, width)."""
        added: Tensor = self.down(self.up(self.enter(x)).relu())
        return x + added


def mlp(layers: int, classes: int) -> nn.Sequential:
    """A residual multi-layer perceptron of `layers` pieces: input, blocks x + W2 relu(W1 x), output."""
    first = nn.Sequential(nn.Linear(PIXELS, WIDTH), nn.ReLU())
    return nn.Sequential(first, *(Residual(WIDTH) for _ in range(layers - 2)), nn.Linear(WIDTH, classes))


class Experts(nn.Module):
    """E two-layer experts side by side, as batched matrices."""

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        scale = width**-0.5
        self.up = nn.Parameter(scale * torch.randn(experts, width, width))
        self.down = nn.Parameter(scale * torch.randn(experts, width, width))

    def forward(self, room: Tensor) -> Tensor:
        """(experts, places, width) to the same."""
        return (room @ self.up).relu() @ self.down


class Mixture(nn.Module):
    """x + p_e expert_e(x), e the expert with the largest routing probability p_e (Switch Transformer, 2101.03961)."""

    def __init__(self, experts: int, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts: nn.Module = Experts(experts, width)
        self.num_experts = experts

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width) to (batch, width)."""
        likings, chosen = self.router(x).softmax(-1).max(-1)
        sent = nn.functional.one_hot(chosen, self.num_experts).to(x.dtype).T[:, :, None]
        returned = self.experts(sent * x)
        made: Tensor = x + likings[:, None] * (sent * returned).sum(0)
        return made


def moe(layers: int, classes: int) -> nn.Sequential:
    """An MLP of `layers` pieces, the middle ones experts: each sample goes to the one its router likes best.

    Its output is scaled by the liking. No sample is dropped: every expert has room for the whole batch, so the exchange
    of expert parallelism has one size.
    """
    first = nn.Sequential(nn.Linear(PIXELS, WIDTH), nn.ReLU())
    return nn.Sequential(first, *(Mixture(EXPERTS, WIDTH) for _ in range(layers - 2)), nn.Linear(WIDTH, classes))


class Convolution(nn.Module):
    """x + relu(norm(conv(x))); the norm is nothing until someone puts one there (method batch-norm)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, side, side) to the same."""
        added: Tensor = self.norm(self.conv(x)).relu()
        return x + added


def cnn(layers: int, classes: int) -> nn.Sequential:
    """A small convolutional network of `layers` pieces: input, residual convolutions, average pooling and output."""
    first = nn.Sequential(nn.Unflatten(1, (1, SIDE, SIDE)), nn.Conv2d(1, CHANNELS, 3, padding=1), nn.ReLU())
    last = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(CHANNELS * SIDE**2 // 4, classes))
    return nn.Sequential(first, *(Convolution(CHANNELS) for _ in range(layers - 2)), last)


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


def gpt(layers: int, classes: int) -> nn.Sequential:
    """A tiny GPT of `layers` pieces: embedding, pre-norm blocks of causal attention and MLP, output."""
    last = nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, classes))
    return nn.Sequential(Embedding(classes), *(Block() for _ in range(layers - 2)), last)
