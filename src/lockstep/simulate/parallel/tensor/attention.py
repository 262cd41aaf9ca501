"""Self-attention cut by heads: every rank has whole heads, so scores and softmax need no other rank.

    y = concat over heads of softmax(Q K^T / sqrt(d) + mask) V,  times W_out
Q, K, V projections by columns (whole heads), W_out by rows: one all-reduce forward, one backward.

Source: M. Shoeybi et al., "Megatron-LM", 2019, section 3, figure 3b; A. Vaswani et al., NeurIPS 2017.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.tensor.layer import Layer, Local, State, check_divides
from lockstep.simulate.parallel.tensor.linear import column, pointwise, row


def attention(
    x: str, y: str, *, batch: int, seq: int, hidden: int, heads: int, ranks: int, causal: bool = True,
    sequence_parallel: bool = False,
) -> Layer:  # fmt: skip
    """Weights `qkv` [h, 3h] (queries, keys, values of all heads) and `attention_out` [h, h]."""
    check_divides(ranks, heads=heads)
    if hidden % heads:
        raise BadInput(f"{heads} heads do not divide hidden = {hidden}", "heads")
    tokens, head = batch * seq, hidden // heads
    shape = (batch, seq, heads // ranks, head)
    projected = column(
        x, "qkv", "projected", tokens=tokens, inputs=hidden, outputs=3 * hidden, ranks=ranks,
        sequence_parallel=sequence_parallel, blocks=3,
    )  # fmt: skip
    flops = 4.0 * tokens * seq * hidden / ranks

    def forward(state: State, rank: int) -> None:
        q, k, v = _heads(state["projected"], shape)
        score = q @ k.swapaxes(-1, -2) / np.sqrt(head)
        if causal:
            score = np.where(np.tri(seq, dtype=bool), score, -np.inf)
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        state["weight"] = weight / weight.sum(axis=-1, keepdims=True)
        state["context"] = _flat(state["weight"] @ v)

    def backward(state: State, rank: int) -> None:
        q, k, v = _heads(state["projected"], shape)
        (context,) = _heads(state["d context"], shape, 1)
        weight = state["weight"]
        arriving = context @ v.swapaxes(-1, -2)
        score = weight * (arriving - (arriving * weight).sum(axis=-1, keepdims=True)) / np.sqrt(head)
        parts = (score @ k, score.swapaxes(-1, -2) @ q, weight.swapaxes(-1, -2) @ context)
        state["d projected"] = np.concatenate([_flat(part) for part in parts], axis=1)

    mixed = pointwise(
        projected, Local("attention", forward, flops, True), Local("d attention", backward, 2 * flops, True), "context"
    )
    return mixed + row(
        "context", "attention_out", y, tokens=tokens, inputs=hidden, outputs=hidden, ranks=ranks,
        sequence_parallel=sequence_parallel,
    )  # fmt: skip


def _heads(value: Array, shape: tuple[int, int, int, int], blocks: int = 3) -> list[Array]:
    """[t, blocks * width] -> `blocks` arrays [batch, head, seq, d]."""
    return [part.reshape(shape).transpose(0, 2, 1, 3) for part in np.split(value, blocks, axis=1)]


def _flat(value: Array) -> Array:
    """[batch, head, seq, d] -> [t, width]."""
    batch, heads, seq, head = value.shape
    return value.transpose(0, 2, 1, 3).reshape(batch * seq, heads * head)
