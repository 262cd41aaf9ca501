"""Bytes that one layer keeps for the backward pass of one micro-batch, tensor by tensor.

    kept_tensors(model, piece, experts=False)         every tensor by name; their sum explains the total
    layer_activation_B(model, piece, experts, recompute)

With b sequences of s tokens, hidden h, a heads, tp = t, half precision, dropout and unfused attention, a GPT layer sums
to the closed forms of Korthikanti et al. 2022 (arXiv 2205.05198), section 4 and 5:

    sbh (34 + 5as/h)               eq. 1: t = 1
    sbh (10 + 24/t + 5as/(ht))     eq. 2: tensor parallel
    sbh (34 + 5as/h) / t           eq. 4: with sequence parallel
    34 sbh / t                     eq. 6: selective recomputation and sequence parallel
    2 sbh, and 2 sbh / t           full recomputation, without and with sequence parallel

The same list, with other widths, holds for grouped queries, gated blocks, latent attention and experts. Fused attention
keeps queries, keys, values, output and one fp32 log-sum-exp per head and token, and nothing that grows with s^2.
Left out, as in the paper: per-token scalars of the norms and token ids. Routing is taken as balanced, so a rank runs
top_k times its own tokens through experts whatever ep is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lockstep.workload.architecture import Attention, Experts, Mlp, Transformer
from lockstep.workload.recompute import FULL, NONE, SELECTIVE, recompute_code

MASK_B = 1.0
FP32_B = 4.0
Spread = Literal["tp", "sequence", "kv", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one rank pushes through a layer at a time, and with which kernels. Numbers may be arrays."""

    micro_batch: Any
    """Sequences (b)."""
    seq: Any
    """Tokens per whole sequence (s); each of cp ranks holds s / cp."""
    tp: Any = 1
    cp: Any = 1
    sequence_parallel: Any = False
    """Between the parallel blocks, the tp ranks split the tokens (Korthikanti et al. 2022, section 4.2.2)."""
    expert_tp: Any = None
    """Ways in which the inside of an expert is cut; None means like tp (Megatron's default)."""
    capacity_factor: Any = 1.0
    """Rows given to experts, over top_k times the tokens."""
    element_B: float = 2.0
    """Bytes of an activation element."""
    flash_attention: bool = True
    dropout: bool = False
    fused_elementwise: bool = True
    """A gated block keeps gate, up and their product (3 ffn) rather than also act(gate) (4 ffn), and routing weights
    multiply inside it, so that expert outputs are not kept."""

    @property
    def tokens(self) -> Any:
        """Tokens on one context-parallel rank."""
        return self.micro_batch * self.seq / self.cp

    @property
    def split(self) -> Any:
        """Ways in which sequence parallelism splits the tokens: tp, or 1 where it is off."""
        if np.ndim(self.sequence_parallel):
            return np.where(self.sequence_parallel, self.tp, 1)
        return self.tp if self.sequence_parallel else 1

    @property
    def expert_ways(self) -> Any:
        """Ways in which the inside of an expert is cut."""
        return self.tp if self.expert_tp is None else self.expert_tp

    @property
    def rows_per_token(self) -> Any:
        """Rows on this rank per routed token: the ranks that split the tokens gather them for a cut expert."""
        gathered = self.expert_ways / self.tp
        if np.ndim(self.sequence_parallel):
            return np.where(self.sequence_parallel, gathered, 1.0)
        return gathered if self.sequence_parallel else 1.0


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """One tensor that waits for the backward pass."""

    name: str
    size_B: Any
    spread: Spread
    """What divides it: tp, sequence parallelism, the cut of key-value heads, or nothing; cp divides all."""
    kept_up_to: int
    """The strongest recompute mode (a code of recompute.py) that still keeps it."""


def kept_tensors(model: Transformer, piece: Piece, experts: bool = False) -> tuple[KeptTensor, ...]:
    """Every tensor that one layer keeps on one rank when nothing is recomputed, with its bytes."""
    return tuple(_layer(model, piece, experts))


def layer_activation_B(model: Transformer, piece: Piece, experts: bool = False, recompute: Any = "none") -> Any:
    """Bytes that one layer keeps on one rank; `recompute` is a word, a code or an array of codes."""
    code = recompute_code(recompute)
    total: Any = 0.0
    for tensor in _layer(model, piece, experts):
        total = total + tensor.size_B * (code <= tensor.kept_up_to)
    return total


def embedding_kept_tensors(model: Transformer, piece: Piece) -> tuple[KeptTensor, ...]:
    """What the embedding keeps beside the first layer's input, which that layer counts."""
    found = []
    if model.embedding_norm:
        found.append(_full_width("embedding norm input", model, piece, FULL))
    if piece.dropout:
        found.append(_mask("embedding dropout mask", model, piece, FULL))
    return tuple(found)


def head_kept_tensors(model: Transformer, piece: Piece, logit_B: float = FP32_B) -> tuple[KeptTensor, ...]:
    """What follows the last layer: final norm, head input, and logits of `logit_B` bytes (fp32: section 4.3)."""
    found = [_full_width("final norm input", model, piece, FULL)] if model.final_norm else []
    if model.mlm_head:
        names = ("mlm dense input", "mlm activation input", "mlm norm input")
        found.extend(_full_width(name, model, piece, FULL) for name in names)
    if model.has_head:
        found.append(_full_width("head input", model, piece, FULL))
        columns = -(-model.vocab // piece.tp)
        found.append(KeptTensor("logits", piece.tokens * columns * logit_B, "tp", FULL))
    return tuple(found)


def embedding_activation_B(model: Transformer, piece: Piece) -> Any:
    """Bytes that the embedding keeps on one rank of the first stage."""
    return sum((tensor.size_B for tensor in embedding_kept_tensors(model, piece)), 0.0)


def head_activation_B(model: Transformer, piece: Piece, logit_B: float = FP32_B) -> Any:
    """Bytes that the head keeps on one rank of the last stage, logits included."""
    return sum((tensor.size_B for tensor in head_kept_tensors(model, piece, logit_B)), 0.0)


# --- one layer -----------------------------------------------------------------------------------------------


def _layer(model: Transformer, piece: Piece, experts: bool) -> Iterator[KeptTensor]:
    """Residual stream and norms, then attention, then the feed-forward block."""
    yield from _stream(model, piece)
    if model.attention.latent:
        yield from _latent(model, piece)
    else:
        yield from _projections(model, piece)
    yield from _core(model, piece)
    if piece.dropout:
        yield _mask("attention residual dropout mask", model, piece, SELECTIVE)
        yield _mask("mlp residual dropout mask", model, piece, SELECTIVE)
    if experts and model.experts:
        yield from _experts(model, model.experts, piece)
    elif model.mlp:
        yield from _mlp(model.mlp, piece)


def _stream(model: Transformer, piece: Piece) -> Iterator[KeptTensor]:
    """Tensors of hidden width: the layer's input, inputs of norms, inputs of the two blocks.

    The layer's input is all that full recomputation keeps. Without a norm in front it is the attention input too.
    """
    yield _full_width("layer input", model, piece, FULL)
    if model.parallel_block:
        names = ["attention input"] if model.parallel_norms == 1 else ["attention input", "mlp input"]
    else:
        names = {
            "pre": ["attention input", "norm 2 input", "mlp input"],
            "post": ["norm 1 input", "mlp input", "norm 2 input"],
            "output": ["attention output norm input", "mlp input", "mlp output norm input"],
            "sandwich": [
                "attention input",
                "attention output norm input",
                "norm 2 input",
                "mlp input",
                "mlp output norm input",
            ],
        }[model.norm_placement]
    for name in names:
        yield _full_width(name, model, piece, SELECTIVE)


def _projections(model: Transformer, piece: Piece) -> Iterator[KeptTensor]:
    """Queries, keys and values as the attention core reads them; rotary embedding needs no copy of its input."""
    attention = model.attention
    kv_width = attention.kv_heads * attention.head_dim
    for name in ("query", "key", "value"):
        yield _heads(name, attention, kv_width, piece)
    if attention.qk_norm != "none":
        yield _heads("query norm input", attention, kv_width, piece)
        yield _heads("key norm input", attention, kv_width, piece)


def _heads(name: str, attention: Attention, kv_width: int, piece: Piece) -> KeptTensor:
    """A tensor of all query heads, cut by tp, or of all key-value heads, cut at most kv_heads ways."""
    unit_B = piece.tokens * piece.element_B
    if name.startswith("query"):
        return KeptTensor(name, unit_B * attention.query_width / piece.tp, "tp", SELECTIVE)
    ways = np.minimum(piece.tp, attention.kv_heads)
    return KeptTensor(name, unit_B * kv_width / ways, "kv", SELECTIVE)


def _latent(model: Transformer, piece: Piece) -> Iterator[KeptTensor]:
    """Latent attention: both bottlenecks before and after their norm, split like the stream; then heads, cut by tp."""
    attention, latent = model.attention, model.attention.latent
    if latent is None:
        return
    token_B = piece.tokens * piece.element_B
    if latent.q_rank is not None:
        for name in ("query latent", "query latent normed"):
            yield KeptTensor(name, token_B * latent.q_rank / piece.split, "sequence", SELECTIVE)
    joint = latent.kv_rank + latent.rope_dim
    yield KeptTensor("key-value latent", token_B * joint / piece.split, "sequence", SELECTIVE)
    yield KeptTensor("key-value latent normed", token_B * latent.kv_rank / piece.split, "sequence", SELECTIVE)
    widths = {"query": attention.query_width, "key": attention.query_width, "value": attention.out_width}
    for name, width in widths.items():
        yield KeptTensor(name, token_B * width / piece.tp, "tp", SELECTIVE)


def _core(model: Transformer, piece: Piece) -> Iterator[KeptTensor]:
    """Scores, or the log-sum-exp of fused attention, which selective recomputation drops; the output stays."""
    attention = model.attention
    output_B = piece.tokens * attention.out_width * piece.element_B / piece.tp
    yield KeptTensor("attention output", output_B, "tp", SELECTIVE)
    if piece.flash_attention:
        size_B = piece.tokens * attention.heads * FP32_B / piece.tp
        yield KeptTensor("attention log-sum-exp", size_B, "tp", NONE)
        return
    scores = piece.tokens * piece.seq * attention.heads / piece.tp
    yield KeptTensor("attention probabilities", scores * piece.element_B, "tp", NONE)
    if piece.dropout:
        yield KeptTensor("attention dropout mask", scores * MASK_B, "tp", NONE)
        yield KeptTensor("attention probabilities after dropout", scores * piece.element_B, "tp", NONE)


def _inner_widths(gated: bool, activation: str, fused: bool) -> tuple[str, ...]:
    """Names of the inner tensors of a feed-forward block; ReLU is undone from its output, which down reads."""
    if gated:
        return ("gate", "up", "down input") if fused else ("gate", "up", "activated gate", "down input")
    return ("down input",) if activation == "relu" else ("activation input", "down input")


def _mlp(mlp: Mlp, piece: Piece, prefix: str = "mlp") -> Iterator[KeptTensor]:
    """Inner tensors of the dense block or of shared experts, cut by tp."""
    size_B = piece.tokens * mlp.ffn * piece.element_B / piece.tp
    for name in _inner_widths(mlp.gated, mlp.activation, piece.fused_elementwise):
        yield KeptTensor(f"{prefix} {name}", size_B, "tp", SELECTIVE)


def _experts(model: Transformer, experts: Experts, piece: Piece) -> Iterator[KeptTensor]:
    """Router probabilities (fp32), the rows sent to experts, their inner tensors, and shared experts.

    Rows on one rank: top_k * capacity_factor * tokens, times expert_tp / tp where sequence parallelism has split the
    tokens, since an expert cut expert_tp ways gathers them again.
    """
    rows = experts.top_k * piece.capacity_factor * piece.tokens * piece.rows_per_token
    probabilities_B = piece.tokens * experts.experts * FP32_B / piece.split
    yield KeptTensor("router probabilities", probabilities_B, "sequence", SELECTIVE)
    row_B = rows * model.hidden * piece.element_B
    yield KeptTensor("expert input", row_B, "sequence", SELECTIVE)
    inner_B = rows * experts.ffn * piece.element_B / piece.expert_ways
    for name in _inner_widths(experts.gated, experts.activation, piece.fused_elementwise):
        yield KeptTensor(f"expert {name}", inner_B, "tp", SELECTIVE)
    if not piece.fused_elementwise:
        yield KeptTensor("expert output", row_B, "sequence", SELECTIVE)
    if experts.shared_ffn:
        shared = Mlp(ffn=experts.shared_ffn, gated=experts.gated, activation=experts.activation)
        yield from _mlp(shared, piece, "shared expert")
    if experts.shared_gate:
        yield _full_width("shared expert output", model, piece, SELECTIVE)


def _full_width(name: str, model: Transformer, piece: Piece, kept_up_to: int) -> KeptTensor:
    """A tensor of hidden width between the parallel blocks."""
    return KeptTensor(name, piece.tokens * model.hidden * piece.element_B / piece.split, "sequence", kept_up_to)


def _mask(name: str, model: Transformer, piece: Piece, kept_up_to: int) -> KeptTensor:
    """A dropout mask of hidden width, one byte per element."""
    return KeptTensor(name, piece.tokens * model.hidden * MASK_B / piece.split, "sequence", kept_up_to)
