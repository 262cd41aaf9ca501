"""Bytes that one layer keeps for the backward pass of one micro-batch, tensor by tensor.

    kept_tensors(model, piece, kind)         every tensor by name; their sum explains the total
    layer_activation_B(model, piece, kind, recompute)

With b sequences of s tokens, hidden h, a heads, tp = t, half precision, dropout and unfused attention, a GPT layer sums
to the closed forms of Korthikanti et al. 2022 (arXiv 2205.05198), section 4 and 5:

    sbh (34 + 5as/h)               eq. 1: t = 1
    sbh (10 + 24/t + 5as/(ht))     eq. 2: tensor parallel
    sbh (34 + 5as/h) / t           eq. 4: with sequence parallel
    34 sbh / t                     eq. 6: selective recomputation and sequence parallel
    2 sbh, and 2 sbh / t           full recomputation, without and with sequence parallel

The same list, with other widths, holds for grouped queries, gated blocks, latent attention and experts. Fused attention
keeps queries, keys, values, output and one fp32 log-sum-exp per head and token, and nothing that grows with s^2.
Inputs of linear layers may be kept in a narrower format (fp8 in DeepSeek-V3, arXiv 2412.19437, section 3.3.3).
Left out, as in the paper: per-token scalars of the norms and token ids. A rank runs top_k
times its own tokens through experts whatever ep is, times `capacity_factor` if it is the busiest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lockstep.types.arrays import Number, Whole
from lockstep.workload.adapters import ROWS, Adapters
from lockstep.workload.architecture import Attention, LatentAttention, Transformer
from lockstep.workload.block_rows import block_gradients, dense_rows, expert_rows
from lockstep.workload.graph import Modules, modules_of
from lockstep.workload.kind import DENSE, LayerKind
from lockstep.workload.piece import FP32_B, FULL, NONE, SELECTIVE, Piece, Recompute, Row, Spread, recompute_code
from lockstep.workload.stream import INPUT_OF, NORMED, STREAM
from lockstep.workload.weights import layer_weights

MASK_B = 1.0
JOINT = ("query", "key", "value")
"""What one product may make; its adapters then have one dropout."""


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """One tensor that waits for the backward pass."""

    name: str
    size_B: Number
    """Bytes on one rank."""
    spread: Spread
    """How the layout cuts it (`piece.py`)."""
    kept_up_to: int
    """The strongest recompute mode (a code of recompute.py) that still keeps it."""


def kept_tensors(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> tuple[KeptTensor, ...]:
    """Every tensor that one layer keeps on one rank when nothing is recomputed, with its bytes."""
    return _cut((row for row in _layer(model, piece, kind) if row.kept_from == NONE), model, piece)


def embedding_kept_tensors(model: Transformer, piece: Piece) -> tuple[KeptTensor, ...]:
    """What the embedding keeps beside the first layer's input, which that layer counts."""
    return _cut(_embedding(model, piece), model, piece)


def head_kept_tensors(
    model: Transformer, piece: Piece, logit_B: Number = FP32_B, chunked: bool = False
) -> tuple[KeptTensor, ...]:
    """What follows the last layer: final norm, head input, and logits of `logit_B` bytes (fp32: section 4.3).

    A `chunked` loss has logits of a share hidden / vocab of the tokens at a time, and keeps their gradients instead:
    that of its input and that of the head's weights (Liger kernel, arXiv 2410.10989, section 3.2).
    """
    return (*_cut(_head(model, piece), model, piece), *_logits(model, piece, logit_B, chunked))


def layer_activation_B(
    model: Transformer, piece: Piece, kind: LayerKind = DENSE, recompute: Recompute = "none"
) -> Number:
    """Bytes that one layer keeps on one rank; `recompute` is a word, a code or an array of codes."""
    return _total(_layer(model, piece, kind), model, piece, recompute_code(recompute))


def passing_gradient_B(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> Number:
    """Most bytes by which gradients inside one layer's backward pass outgrow the kept tensors that it has freed.

    That is behind the down product, whose input is freed: gradients of that input and of what made it (two tensors with
    a gate) are there at once, and the one of the residual stream waits.
    """
    return _total(_gradients(model, piece, kind), model, piece, NONE)


def embedding_activation_B(model: Transformer, piece: Piece) -> Number:
    """Bytes that the embedding keeps on one rank of the first stage."""
    return _total(_embedding(model, piece), model, piece, NONE)


def head_activation_B(model: Transformer, piece: Piece, logit_B: Number = FP32_B, chunked: bool = False) -> Number:
    """Bytes that the head keeps on one rank of the last stage, logits included."""
    logits = sum(tensor.size_B for tensor in _logits(model, piece, logit_B, chunked))
    return _total(_head(model, piece), model, piece, NONE) + logits


def spread_activation_B(model: Transformer, piece: Piece, stages: Number, logit_B: Number = FP32_B) -> Number:
    """Bytes that one rank keeps of a micro-batch whose head is spread over `stages`: its logits, and the last layer's
    output and its gradient.
    """
    wide = replace(piece, tp=piece.tp * stages)
    logits = sum(tensor.size_B for tensor in _logits(model, wide, logit_B))
    output_B = piece.tokens * model.hidden * piece.element_B
    return logits + 2.0 * output_B * piece.share("sequence", 1)


def _cut(rows: Iterable[Row], model: Transformer, piece: Piece) -> tuple[KeptTensor, ...]:
    """`rows` with their bytes on one rank."""
    kv_heads = model.attention.kv_heads
    return tuple(
        KeptTensor(row.name, piece.tokens * row.token_B * piece.share(row.spread, most), row.spread, row.kept_up_to)
        for row in rows
        for most in [row.most or kv_heads]
    )


def _total(rows: Iterable[Row], model: Transformer, piece: Piece, code: Whole) -> Number:
    """Bytes of the `rows` that recompute mode `code` keeps; rows cut alike are added up before arrays come in."""
    token_B: dict[tuple[Spread, int], dict[tuple[int, int], Number]] = {}
    for row in rows:
        levels = token_B.setdefault((row.spread, row.most or model.attention.kv_heads), {})
        between = row.kept_from, row.kept_up_to
        levels[between] = levels.get(between, 0.0) + row.token_B
    total: Number = 0.0
    for (spread, most), levels in token_B.items():
        kept: Number = 0.0
        for (weakest, strongest), size_B in levels.items():
            kept = kept + size_B * ((weakest <= code) & (code <= strongest))
        total = total + kept * piece.share(spread, most)
    return total * piece.tokens


# --- before the first and after the last layer ---------------------------------------------------------------


def _embedding(model: Transformer, piece: Piece) -> Iterator[Row]:
    """Pixels of patches, input of a norm on the embeddings, and the dropout mask."""
    if model.patches is not None:
        yield from model.patches.rows(piece)
    if model.embedding_norm:
        yield _hidden("embedding norm input", model, piece, FULL)
    for stack in ("", "encoder ") if model.encoder_layers else ("",):
        if piece.dropout:
            yield _mask(f"{stack}embedding dropout mask", model, FULL)


def _head(model: Transformer, piece: Piece) -> Iterator[Row]:
    """Tensors of hidden width after the last layer."""
    names = ["final norm input"] if model.final_norm else []
    if model.encoder_layers:
        # Keys and values of every layer of the decoder read the encoder's output.
        names += [*(f"encoder {name}" for name in names), "encoder output"]
    names += ["final norm output"] if model.modulation and not piece.fused_elementwise and not piece.adapters else []
    names += ["mlm dense input", "mlm activation input", "mlm norm input"] if model.mlm_head else []
    # A classifier reads one token's row of it, which keeps it whole.
    names += ["head input"] if model.has_head or model.patches or model.classifier else []
    for name in names:
        spread: Spread = "gathered" if name == "head input" else "sequence"
        yield Row(name, model.hidden * piece.element_B, spread, FULL)


def _logits(model: Transformer, piece: Piece, logit_B: Number, chunked: bool = False) -> Iterator[KeptTensor]:
    """Logits, cut by vocabulary, the last rank's share rounded up; whole for images and classifiers."""
    if model.patches is not None:
        yield KeptTensor("logits", piece.tokens * model.patches.logits() * logit_B, "sequence", FULL)
    if model.classifier is not None:
        labels = model.classifier.logits(piece.seq)
        yield KeptTensor("label logits", piece.tokens * labels * logit_B, "sequence", FULL)
    if not model.has_head:
        return
    columns = -(-model.vocab // piece.tp)
    share = min(1.0, model.hidden / model.vocab) if chunked else 1.0
    yield KeptTensor("logits", piece.tokens * columns * logit_B * share, "tp", FULL)
    if chunked:
        yield KeptTensor("head input gradient", piece.tokens * model.hidden * piece.element_B, "sequence", FULL)
        yield KeptTensor("head weight gradient", columns * model.hidden * piece.element_B, "tp", FULL)


# --- one layer -----------------------------------------------------------------------------------------------


def _layer(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Residual stream and norms, then attention, then the feed-forward block."""
    yield from _stream(model, piece, kind)
    if kind.attends:
        modules = modules_of(model, kind)
        yield from _attention(model.attention, piece, modules)
        if kind.crosses:
            yield from (replace(row, name=f"cross {row.name}") for row in _attention(model.attention, piece, modules))
    elif kind.mixer == "recurrent" and model.recurrent:
        yield from model.recurrent.rows(piece)
    if piece.adapters is not None:
        yield from _adapter_inputs(model, piece.adapters, piece, kind)
        yield from _wide(model, piece)
    if piece.dropout and kind.mixer != "none":
        yield _mask("attention residual dropout mask", model, SELECTIVE)
    if piece.dropout and kind.crosses:
        yield _mask("cross attention residual dropout mask", model, SELECTIVE)
    if piece.dropout and kind.block != "none":
        yield _mask("mlp residual dropout mask", model, SELECTIVE)
    if kind.experts and model.experts:
        yield from expert_rows(model, model.experts, piece, modules_of(model, kind))
    elif kind.block == "dense" and model.mlp:
        yield from dense_rows(model.mlp, piece, modules_of(model, kind))


def _attention(attention: Attention, piece: Piece, modules: Modules) -> Iterator[Row]:
    """What projections and core of attention keep."""
    latent = attention.latent
    yield from _latent(attention, latent, piece, modules) if latent else _projections(attention, piece, modules)
    yield from _core(attention, piece)
    if attention.gated:
        # Its product with the output is what the output projection reads.
        for name in ("attention gate", "attention out input"):
            yield Row(name, attention.out_width * piece.element_B, "tp")


def _stream(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Tensors of hidden width: the layer's input, inputs of norms, inputs of the two blocks.

    The layer's input is all that full recomputation keeps. Without a norm in front it is the attention input too.
    """
    made = modules_of(model, kind)
    yield _hidden("layer input", model, piece, FULL)
    if model.norm == "rmsnorm" and piece.wide_norms:
        copied_B = FP32_B - piece.element_B + (piece.element_B if piece.adapters is None else 0.0)
        # Of an fp32 stream the first norm keeps the layer's input itself.
        copies = model.norms_of(kind) - np.where(piece.wide_base, 1, 0)
        yield Row("norms' wide copies", copies * model.hidden * copied_B, "sequence", piece.kept_up_to(*made["norm"]))
    if np.any(piece.own_casts) and model.mlp is not None and piece.adapters is None:
        more = (0 if piece.joint_qkv else 2) + model.mlp.gated
        yield Row("casts of products", model.hidden * piece.element_B * more * piece.own_casts, "sequence")
        # The stream is fp32, and so is what a norm keeps of it.
        wider_B = model.norms_of(kind) * (FP32_B - piece.element_B) * piece.own_casts
        yield Row("norms of the fp32 stream", model.hidden * wider_B, "sequence")
    names = STREAM[model.norm_placement]
    if model.parallel_block:
        names = ("attention input", "mlp input")[: model.parallel_norms]
    elif not kind.whole:
        names = ("attention input" if kind.block == "none" else "mlp input",)
    elif kind.crosses:
        names = (*names, "norm 3 input", "cross attention input")
    for name in names:
        if name in INPUT_OF:
            normed = name in NORMED[model.norm_placement]
            modules = made["norm"] if normed else ()
            if normed and not piece.needs_input_of(*INPUT_OF[name]):
                continue
            yield Row(name, model.hidden * piece.input_B, "gathered", piece.kept_up_to(*modules))
        else:
            summed = name == "norm 2 input" and model.norm_placement == "pre"
            again = made.get("attention out", ()) if summed and kind.attends else ()
            yield _hidden(name, model, piece, piece.kept_up_to(*again))
    if "op" in piece.recompute_modules and model.norm_placement == "pre" and kind.whole:
        if "op" not in made.get("down", ("op",)):
            yield Row("block output", model.hidden * piece.element_B, "gathered", kept_from=SELECTIVE)
        added_B = 2.0 * model.hidden * piece.element_B * (piece.tp > 1)
        yield Row("reduced outputs", added_B, "sequence", kept_from=SELECTIVE)
    if model.modulation is not None:
        yield from model.modulation.rows(model.hidden, piece)


def _projections(attention: Attention, piece: Piece, modules: Modules) -> Iterator[Row]:
    """Queries, keys and values as the attention core reads them; rotary embedding needs no copy of its input.

    Keys and values that are repeated for every query are cut as queries are; norms read them before.
    """
    query_B = attention.query_width * piece.element_B
    kv_B = attention.kv_heads * attention.head_dim * piece.element_B
    again = {name: piece.kept_up_to(*modules[name]) for name in JOINT}
    yield Row("query", query_B, "tp", again["query"])
    if piece.repeated_heads and attention.kv_heads < attention.heads:
        if "op" in piece.recompute_modules and "op" not in modules["value"]:
            yield Row("value before it is repeated", kv_B, "kv", kept_from=SELECTIVE)
        yield Row("key", query_B, "tp", again["key"])
        yield Row("value", query_B, "tp", piece.kept_up_to(*modules["repeated keys and values"]))
    else:
        yield Row("key", kv_B, "kv", again["key"])
        yield Row("value", kv_B, "kv", again["value"])
    if piece.joint_qkv and attention.kv_heads == attention.heads:
        yield Row("queries and keys before rotary embedding", 2.0 * query_B, "tp")
    if attention.qk_norm != "none":
        trained_B = piece.element_B if piece.adapters is None else 0.0
        wider = (FP32_B + trained_B) / piece.element_B if piece.wide_norms else 1.0
        yield Row("query norm input", query_B * wider, "tp")
        yield Row("key norm input", kv_B * wider, "kv", again["key"])


def _latent(attention: Attention, latent: LatentAttention, piece: Piece, modules: Modules) -> Iterator[Row]:
    """Latent attention: both bottlenecks before and after their norm, split like the stream; then heads, cut by tp."""
    element_B, normed, made = piece.element_B, piece.kept_up_to("layernorm"), piece.kept_up_to(*modules["key-value up"])
    if latent.q_rank is not None:
        yield Row("query latent", latent.q_rank * element_B, "sequence")
        yield Row("query latent normed", latent.q_rank * piece.input_B, "sequence", normed)
    yield Row("key-value latent", (latent.kv_rank + latent.rope_dim) * element_B, "sequence")
    yield Row("key-value latent normed", latent.kv_rank * piece.input_B, "sequence", normed)
    yield Row("query", attention.query_width * element_B, "tp", made)
    yield Row("key", attention.query_width * element_B, "tp", made)
    yield Row("value", attention.out_width * element_B, "tp", made)


def _core(attention: Attention, piece: Piece) -> Iterator[Row]:
    """Scores, or the log-sum-exp of fused attention, which selective recomputation drops; the output stays."""
    output_B = piece.element_B if piece.cached_attention_B is None else piece.cached_attention_B
    yield Row("attention output", attention.out_width * output_B, "tp", piece.kept_up_to("context"))
    core, scores_B = piece.kept_up_to("core_attn"), attention.heads * piece.element_B
    if piece.flash_attention:
        yield Row("attention log-sum-exp", attention.heads * FP32_B, "tp", core)
        return
    yield Row("attention probabilities", scores_B, "scores", core)
    if piece.written_scores:
        yield Row("attention softmax", attention.heads * FP32_B, "scores", core)
    if piece.dropout:
        yield Row("attention dropout mask", attention.heads * MASK_B, "scores", core)
        yield Row("attention probabilities after dropout", scores_B, "scores", core)


def _gradients(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Gradients at the fullest moment of a layer's backward pass, less the input of the down product."""
    yield Row("stream gradient", model.hidden * piece.element_B, "gathered")
    if piece.adapters is not None:
        size_B = piece.element_B if piece.half_adapters else FP32_B
        yield Row("adapter input gradient", model.hidden * size_B, "sequence")
    yield from block_gradients(model, piece, kind)


def _adapter_inputs(model: Transformer, adapters: Adapters, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Inputs of adapters, each cast for itself, to fp32 (PEFT) and under autocast back, and what comes out of A."""
    if piece.element_B >= FP32_B:
        return
    half, weights = piece.half_adapters, layer_weights(model, kind.stored)
    cast_B = piece.element_B if np.any(piece.own_casts) else FP32_B
    first = next((one.name for one in weights if adapters.adapts(one) and one.name in JOINT), "")
    for weight in weights:
        if adapters.adapts(weight):
            times = model.experts.top_k if weight.category == "routed_experts" and model.experts else 1
            spread: Spread = "inner" if times > 1 else "tp" if weight.name in ROWS else "sequence"
            kept_B = adapters.rank * piece.element_B if half else (weight.shape[0] + adapters.rank) * cast_B
            kept_B, once = kept_B * (not adapters.joins(weight)), piece.joint_qkv and weight.name in JOINT
            if adapters.dropout_frac and not (once and weight.name != first):
                # Of the input in half precision a copy besides; the one in fp32 is there anyway.
                kept_B += weight.shape[0] * (MASK_B + piece.element_B * half)
            yield Row(f"{weight.name} adapter input", times * kept_B, spread)


def _wide(model: Transformer, piece: Piece) -> Iterator[Row]:
    """Beyond half precision, what is fp32 where a quantised base reads it: stream, and all around the activation."""
    if not np.any(piece.wide_base):
        return
    wider_B = (FP32_B - piece.element_B) * piece.wide_base
    yield Row("layer input in fp32", model.hidden * wider_B, "sequence", FULL)
    if model.mlp is not None:
        columns = (3 if model.mlp.gated else 1) * model.mlp.ffn
        yield Row("mlp in fp32", columns * wider_B, "tp", piece.kept_up_to("mlp"))


def _hidden(name: str, model: Transformer, piece: Piece, kept_up_to: int = SELECTIVE) -> Row:
    """A tensor of hidden width between the parallel blocks."""
    return Row(name, model.hidden * piece.element_B, "sequence", kept_up_to)


def _mask(name: str, model: Transformer, kept_up_to: int) -> Row:
    """A dropout mask of hidden width, one byte per element."""
    return Row(name, model.hidden * MASK_B, "sequence", kept_up_to)
