"""A whole transformer layer: x + attention(norm(x)), then x + mlp(norm(x)); four all-reduces of b s h elements.

    elements sent per rank, forward and backward     8 (k - 1)/k b s h          (ring; sequence parallel: the same)
    FLOPs per rank                                   (72 b s h^2 + 12 b s^2 h) / k   with f = 4 h, scores included
    elements per FLOP, without scores                (k - 1) / (9 h)            free of batch and sequence
so wider layers communicate less per FLOP and more ranks more: tensor parallelism belongs inside a node. What its
exchanges cost is `traffic.flows`. The norms have no weights here: with sequence parallelism theirs would need one more
small all-reduce per step, not per layer.

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3; V. Korthikanti et al., MLSys 2023, section 4.2.2;
D. Narayanan et al., SC 2021, section 3.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.tensor.attention import attention
from lockstep.simulate.parallel.tensor.layer import Layer, Local, State
from lockstep.simulate.parallel.tensor.mlp import mlp

EPSILON = 1e-5


def block(
    *, batch: int, seq: int, hidden: int, heads: int, ffn: int, ranks: int, causal: bool = True,
    sequence_parallel: bool = False,
) -> Layer:  # fmt: skip
    """Input `x`, output `z`; weights `qkv`, `attention_out`, `mlp_in`, `mlp_out`."""
    first = attention(
        "n1", "a", batch=batch, seq=seq, hidden=hidden, heads=heads, ranks=ranks, causal=causal,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip
    second = mlp(
        "n2", "m", tokens=batch * seq, hidden=hidden, ffn=ffn, ranks=ranks, sequence_parallel=sequence_parallel
    )
    return residual(first, "x", "r") + residual(second, "r", "z")


def residual(layer: Layer, x: str, z: str) -> Layer:
    """z = x + layer(norm(x)); norm and sum need no other rank."""
    inner, outer = layer.input, layer.output

    def norm(state: State, rank: int) -> None:
        state[inner] = normalised(state[x])

    def add(state: State, rank: int) -> None:
        state[z] = state[x] + state[outer]

    def split(state: State, rank: int) -> None:
        state[f"d {outer}"] = state[f"d {z}"]

    def join(state: State, rank: int) -> None:
        state[f"d {x}"] = state[f"d {z}"] + norm_gradient(state[x], state[f"d {inner}"])

    forward = (Local(f"norm {x}", norm), *layer.forward, Local(f"{z} = {x} + {outer}", add))
    backward = (Local(f"d {outer}", split), *layer.backward, Local(f"d {x}", join))
    return replace(layer, forward=forward, backward=backward, input=x, output=z)


def normalised(x: Array) -> Array:
    """(x - mean) / sqrt(variance + epsilon) of each row of `x` [tokens, width]. Source: J. Ba et al., 2016."""
    centred = x - x.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON))


def norm_gradient(x: Array, gradient: Array) -> Array:
    """Gradient of `normalised` with respect to x, given that of its result; all [tokens, width]."""
    y = normalised(x)
    scale = 1 / np.sqrt(x.var(axis=1, keepdims=True) + EPSILON)
    along = (gradient * y).mean(axis=1, keepdims=True)
    return np.asarray(scale * (gradient - gradient.mean(axis=1, keepdims=True) - y * along))
