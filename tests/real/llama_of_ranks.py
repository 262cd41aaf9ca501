"""A small decoder in PyTorch's own modules, which real software divides among ranks, and the same in Lockstep."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import Job, Layout
from lockstep.price.step.program import step_program
from lockstep.simulate.program import Kind
from recipes import recipe_by


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder and of its batch."""

    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocab: int
    layers: int
    seq: int
    sequences: int

    @classmethod
    def drawn(cls, random: Random, parts: int = 1, layers: tuple[int, ...] = (2, 3, 4)) -> Shape:
        """Sizes that so many ranks divide."""
        kv_heads, shared = parts * random.choice([1, 2]), random.choice([1, 2, 4])
        return cls(
            parts * random.choice([16, 24, 40]),
            kv_heads * shared,
            kv_heads,
            random.choice([4, 8, 16]),
            parts * random.choice([16, 56, 72]),
            parts * random.choice([32, 96]),
            random.choice(layers),
            parts * random.choice([2, 4, 6]),
            random.choice([1, 2, 3]),
        )

    @property
    def described(self) -> Transformer:
        """The same as Lockstep has it."""
        return Transformer(
            name="llama-like",
            layers=self.layers,
            hidden=self.hidden,
            vocab=self.vocab,
            attention=Attention(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head),
            mlp=Mlp(ffn=self.ffn),
            positions="rotary",
            max_positions=self.seq,
            norm="rmsnorm",
        )

    def model(self) -> nn.Sequential:
        """Embedding, layers, norm, head."""
        ends = nn.RMSNorm(self.hidden), nn.Linear(self.hidden, self.vocab, bias=False)
        return nn.Sequential(nn.Embedding(self.vocab, self.hidden), *(Block(self) for _ in range(self.layers)), *ends)

    def words(self) -> torch.Tensor:
        """A micro-batch."""
        return torch.randint(self.vocab, (self.sequences, self.seq))


class Attended(nn.Module):
    """Attention with fewer heads of keys and values."""

    def __init__(self, of: Shape) -> None:
        super().__init__()
        self.head, self.shared = of.head, of.heads // of.kv_heads
        self.query, self.out = linear(of.hidden, of.heads * of.head), linear(of.heads * of.head, of.hidden)
        self.key, self.value = (linear(of.hidden, of.kv_heads * of.head) for _ in range(2))

    def forward(self, x: Any) -> Any:
        """Causal."""
        query, key, value = (
            made(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for made in (self.query, self.key, self.value)
        )
        key, value = (one.repeat_interleave(self.shared, 1) for one in (key, value))
        looked = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(looked.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """A gated block."""

    def __init__(self, of: Shape) -> None:
        super().__init__()
        self.gate, self.up = (linear(of.hidden, of.ffn) for _ in range(2))
        self.down = linear(of.ffn, of.hidden)

    def forward(self, x: Any) -> Any:
        """SwiGLU."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer."""

    def __init__(self, of: Shape) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(of.hidden), nn.RMSNorm(of.hidden)
        self.attention, self.feed_forward = Attended(of), Gated(of)

    def forward(self, x: Any) -> Any:
        """Pre-norm."""
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


def linear(inputs: int, outputs: int) -> nn.Linear:
    """Without a bias."""
    return nn.Linear(inputs, outputs, bias=False)


def priced_B(shape: Shape, layout: Layout, part: str, **words: Any) -> Counter[str]:
    """Bytes of a step's collectives of some groups (`dp copies`, `tp`) by collective."""
    recipe = recipe_by(words.pop("stack", "torchtitan"), seq=shape.seq * layout.cp, **words)
    return traffic_B(Job(shape.described, recipe, layout.world), layout, part)


def traffic_B(job: Job, layout: Layout, part: str) -> Counter[str]:
    """The same of any job, as a trace of the estimate has them."""
    program = step_program(job, cluster("dgx-h100", gpus=job.devices), layout)
    found: Counter[str] = Counter()
    for at in range(len(program)):
        one = program[at]
        if program.kind[at] in (Kind.COLLECTIVE, Kind.SEND) and one.label.split()[0] in part.split():
            found[one.label.split()[1]] += one.size_B
    return Counter({op: round(size_B) for op, size_B in found.items() if round(size_B)})
