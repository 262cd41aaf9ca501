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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.adapters import ROWS, Adapters
from lockstep.describe.workload.architecture import Experts, Transformer
from lockstep.describe.workload.graph import layer_operations
from lockstep.describe.workload.kind import DENSE, LayerKind
from lockstep.describe.workload.logits import KeptTensor, logits
from lockstep.describe.workload.method_rows import method_rows
from lockstep.describe.workload.modules import modules_of
from lockstep.describe.workload.operation import Operation, Spread, Tensor
from lockstep.describe.workload.passing import total_B, wider_expert_B
from lockstep.describe.workload.piece import FP32_B, FULL, NONE, SELECTIVE, Piece, Recompute, Row, recompute_code
from lockstep.describe.workload.weights import layer_weights

MASK_B = 1.0
JOINT = ("query", "key", "value")
"""What one product may make; its adapters then have one dropout."""


def kept_tensors(
    model: Transformer, piece: Piece, kind: LayerKind = DENSE, recompute: Recompute = "none"
) -> tuple[KeptTensor, ...]:
    """Every tensor that one layer keeps on one rank, with its bytes; `recompute` is a word or a code."""
    code, rows = recompute_code(recompute), layer_rows(model, piece, kind)
    return _cut((row for row in rows if row.kept_from <= code <= row.kept_up_to), model, piece)


def embedding_kept_tensors(model: Transformer, piece: Piece) -> tuple[KeptTensor, ...]:
    """What the embedding keeps beside the first layer's input, which that layer counts."""
    return _cut(_embedding(model, piece), model, piece)


def head_kept_tensors(
    model: Transformer, piece: Piece, logit_B: Number = FP32_B, loss: str = "whole"
) -> tuple[KeptTensor, ...]:
    """What follows the last layer: final norm, head input, and logits of `logit_B` bytes (fp32: section 4.3).

    A `chunked` loss has logits of a share hidden / vocab of the tokens at a time, and keeps their gradients instead:
    that of its input and, where the head is trained, that of its weights (Liger kernel, arXiv 2410.10989, section 3.2).
    A `tiled` one has logits of TILE tokens and columns at a time, and sums these gradients in fp32 (TRL 1.16.0,
    trl/kernels/chunked_logprob.py).
    """
    return (*_cut(_head(model, piece), model, piece), *logits(model, piece, logit_B, loss))


def layer_activation_B(
    model: Transformer, piece: Piece, kind: LayerKind = DENSE, recompute: Recompute = "none"
) -> Number:
    """Bytes that one layer keeps on one rank; `recompute` is a word, a code or an array of codes."""
    return total_B(layer_rows(model, piece, kind), model, piece, recompute_code(recompute))


def layer_modes_B(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> tuple[Number, Number, Number]:
    """The same without recomputation, with selective and with full recomputation."""
    rows = [*layer_rows(model, piece, kind)]
    none, selective, full = (total_B(rows, model, piece, code) for code in (NONE, SELECTIVE, FULL))
    return none, selective, full


def embedding_activation_B(model: Transformer, piece: Piece) -> Number:
    """Bytes that the embedding keeps on one rank of the first stage."""
    return total_B(_embedding(model, piece), model, piece, NONE)


def head_activation_B(model: Transformer, piece: Piece, logit_B: Number = FP32_B, loss: str = "whole") -> Number:
    """Bytes that the head keeps on one rank of the last stage, logits included."""
    logits_B = sum(tensor.size_B for tensor in logits(model, piece, logit_B, loss))
    return total_B(_head(model, piece), model, piece, NONE) + logits_B


def spread_activation_B(model: Transformer, piece: Piece, stages: Number, logit_B: Number = FP32_B) -> Number:
    """Bytes that one rank keeps of a micro-batch whose head is spread over `stages`: its logits, and the last layer's
    output and its gradient.
    """
    wide = replace(piece, tp=piece.tp * stages)
    logits_B = sum(tensor.size_B for tensor in logits(model, wide, logit_B))
    output_B = piece.tokens * model.hidden * piece.element_B
    return logits_B + 2.0 * output_B * piece.share("sequence", 1)


def _cut(rows: Iterable[Row], model: Transformer, piece: Piece) -> tuple[KeptTensor, ...]:
    """`rows` with their bytes on one rank."""
    kv_heads = model.attention.kv_heads
    return tuple(
        KeptTensor(row.name, piece.tokens * row.token_B * piece.share(row.spread, most), row.spread, row.kept_up_to)
        for row in rows
        for most in [row.most or kv_heads]
    )


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
    if model.final_norm:
        yield from _of_final_norm(model, piece)


def _of_final_norm(model: Transformer, piece: Piece) -> Iterator[Row]:
    """What the last norm keeps beyond its input in half precision; of an fp32 stream the input is its own copy."""
    yield from _wider("final norm input in fp32", model, piece, FULL)
    for slot, wide in (("norm", False), ("norm_weight", True)):
        for one in piece.saves.get(slot, ()):
            each_B = np.where(piece.wide_stream, FP32_B if wide else 0.0, one.size_B(piece.element_B))
            yield Row(f"final norm: {one.what}", model.hidden * each_B, "sequence", FULL)


# --- one layer -----------------------------------------------------------------------------------------------


def layer_rows(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """What each operation reads and keeps, and what software keeps beside it, by name: equal names are one tensor.

    The layer's input is all that full recomputation keeps. Without a norm in front it is the attention input too.
    """
    yield from _input(model, piece)
    yield from rows_of(model, piece, kind, layer_operations(model, kind))
    yield from _beside(model, piece, kind)


def _input(model: Transformer, piece: Piece) -> Iterator[Row]:
    """The layer's input, which recomputation always keeps. Nothing else reads it where LayerNorm is written out, nor of
    an fp32 stream where norms follow the blocks, as products read casts.
    """
    rows = [_hidden("layer input", model, piece, FULL), *_wider("layer input in fp32", model, piece, FULL)]
    centred = piece.written and modules_of(model.model_type).centred_norms
    unread = np.logical_or(centred, np.logical_and(piece.wide_stream, model.norm_placement == "output"))
    if not np.any(unread):
        yield from rows
        return
    for row in rows:
        yield replace(row, token_B=np.where(unread, 0.0, row.token_B))
        yield replace(
            row, name=f"{row.name}, recomputed from", token_B=np.where(unread, row.token_B, 0.0), kept_from=FULL
        )


def rows_of(model: Transformer, piece: Piece, kind: LayerKind, operations: Sequence[Operation]) -> Iterator[Row]:
    """What some operations of a layer read and keep; equal names are one tensor."""
    made = {one.name: one.modules for one in operations}
    found: dict[str, Row] = {}
    for one in operations:
        for row in _of_operation(model, piece, kind, one, made):
            found.setdefault(row.name, row)
    yield from found.values()


def _of_operation(
    model: Transformer, piece: Piece, kind: LayerKind, one: Operation, made: Mapping[str, tuple[str, ...]]
) -> Iterator[Row]:
    """What one operation reads and keeps; `made` are the modules that run what each operation makes again."""
    weight = one.weight
    if one.does == "exchanged rows":
        weight = next(found for found in layer_weights(model, kind.stored) if found.name == "expert up")
    reads = [read for read in one.reads if not read.for_weights or piece.needs_input_of(weight)]
    if one.name == "attention" and model.attention.latent is None:
        reads = [*_heads(model, piece, kind, reads)]
    for read in reads:
        each_B: Number = {"input": piece.input_B, "inner": piece.inner_B}.get(read.held, piece.element_B)
        each_B = each_B + wider_expert_B(model, piece) * (one.part == "experts")
        modules = [module for module in made.get(read.made, ()) if module not in read.stays]
        yield Row(read.name, read.numbers * each_B, read.spread, piece.kept_up_to(*modules))
    if one.does in ("core", "crossing core"):
        yield from _core(model, piece, one.name)
    elif one.does == "scan" and model.recurrent:
        yield from model.recurrent.rows(piece)
    elif one.does == "norm":
        yield from _of_norms(model, piece, kind, one)
    elif one.does == "exchanged rows" and model.experts:
        yield from _of_experts(model, model.experts, piece, one)
    elif one.does == "head norms":
        wide_B = (FP32_B - piece.element_B) * modules_of(model.model_type).wide_norms
        yield from _of_slot(model, piece, "norm", one)
        yield from _of_slot(model, piece, "norm_weight", one, wide_B)
    elif one.does in ("gate", "activation", "rotary", "residual"):
        yield from _of_slot(model, piece, one.does, one)
    elif one.does == "clamped" and model.experts and piece.saves.get("gate"):
        # Clamped gate, its product with the sigmoid, and up plus one (transformers 5.24, modeling_gpt_oss.py).
        numbers = 3 * model.experts.top_k * model.experts.ffn
        size_B = piece.element_B + wider_expert_B(model, piece)
        yield Row("expert clamped gate and up", numbers * size_B, "inner", piece.kept_up_to("moe", "moe_act"))


def _saved(
    piece: Piece, slot: str, where: str, numbers: Number, spread: Spread, modules: Iterable[str], wider_B: Number = 0.0
) -> Iterator[Row]:
    """What software keeps besides at a slot, unless some `modules` make it again."""
    for one in piece.saves.get(slot, ()):
        size_B = one.size_B(piece.element_B) + wider_B * one.in_half
        yield Row(f"{where}: {one.what}", numbers * size_B, spread, piece.kept_up_to(*modules))


def _of_slot(model: Transformer, piece: Piece, slot: str, one: Operation, more_B: Number = 0.0) -> Iterator[Row]:
    """What software keeps besides of an operation, in rows that are cut alike; `more_B` of what is half precision."""
    times = model.experts.top_k if one.rows == "experts" and model.experts else 1
    widths: dict[Spread, float] = {}
    for width in one.widths:
        spread = one.spread(width)
        widths[spread] = widths.get(spread, 0.0) + times * width.numbers
    for spread, numbers in widths.items():
        where = one.name if len(widths) == 1 else f"{one.name}, {spread}"
        wider_B = wider_expert_B(model, piece) * (one.part == "experts")
        yield from _saved(piece, slot, where, numbers, spread, one.modules, wider_B + more_B)


def _of_norms(model: Transformer, piece: Piece, kind: LayerKind, one: Operation) -> Iterator[Row]:
    """What norms keep beyond their input; of an fp32 stream the first one keeps the layer's input itself."""
    norms, known = model.norms_of(kind), modules_of(model.model_type)
    if piece.written and known.centred_norms:
        yield Row("norms: centred twice, and scaled, in fp32", 3.0 * norms * model.hidden * FP32_B, "sequence")
        return
    if piece.written and known.copied_norms:
        copied_B = (FP32_B - piece.element_B) * np.logical_not(piece.wide_stream)
        yield Row("norms: their input in fp32", norms * model.hidden * copied_B, "sequence")
    first = model.norm_placement != "output"
    copies = norms - np.where(np.logical_or(piece.wide_base, piece.wide_stream), 1 * first, 0)
    # Norms behind blocks read what products give, which is half precision in an fp32 stream too.
    behind = {"output": norms, "sandwich": norms // 2}.get(model.norm_placement, 0)
    halves = np.where(piece.wide_stream, behind / norms, 1.0) * (known.wide_norms and piece.element_B < FP32_B)
    for slot, count in (("norm", copies), ("norm_weight", norms)):
        wider_B = (FP32_B - piece.element_B) * halves * (slot == "norm_weight")
        yield from _saved(piece, slot, "norms", count * model.hidden, "sequence", one.modules, wider_B)
    # Besides the layer's input, what other norms read and, for gradients of their weights, what they give.
    others = 0 if model.parallel_block else max(norms - behind - 1, 0)
    again = (norms - behind) * bool(piece.saves.get("norm_weight")) + others * (not piece.saves.get("norm"))
    yield from _wider("norms of the fp32 stream", model, piece, times=again)


def _of_experts(model: Transformer, experts: Experts, piece: Piece, one: Operation) -> Iterator[Row]:
    """Router probabilities in fp32, and what experts give or, where weights multiply it within, their function."""
    yield Row("router probabilities", experts.experts * FP32_B, "sequence", piece.kept_up_to("moe"))
    if modules_of(model.model_type).wide_router and piece.saves.get("permutation") and piece.adapters is None:
        copied_B = FP32_B * (piece.element_B < FP32_B) * np.logical_not(piece.wide_stream)
        yield Row("router input in fp32", model.hidden * copied_B, "sequence", piece.kept_up_to("moe"))
    if piece.saves.get("permutation"):
        yield from _of_slot(model, piece, "permutation", one)
    elif not experts.gated and experts.activation != "relu2":
        # Routing weights multiply it, in one kernel with gated SiLU or squared ReLU alone (Megatron Core 0.14, mlp.py).
        activated_B = experts.top_k * experts.ffn * piece.element_B
        yield Row("expert activated", activated_B, "inner", piece.kept_up_to("moe", "moe_act"))


def _heads(model: Transformer, piece: Piece, kind: LayerKind, reads: Sequence[Tensor]) -> Iterator[Tensor]:
    """What attention reads where software repeats keys and values for every query, whose norms read them before, or
    has values as views of one product; rotary embedding needs no copy of its input.
    """
    (query, key, value), attention = reads, model.attention
    turned = model.positions == "rotary" and kind.mixer != "nope"
    # Attention that is written out reads copies by head, and what it gives is copied as it is.
    views = piece.joint_qkv and piece.flash_attention and not modules_of(model.model_type).copied_heads
    if views and turned and not (piece.repeated_heads and attention.kv_heads < attention.heads):
        yield Tensor("queries before rotary embedding", query.numbers, "tp")
        yield Tensor("keys before rotary embedding", key.numbers, "kv")
    parted = model.rotary is not None and (model.rotary.share_frac < 1.0 or model.model_type == "phi3")
    if turned and parted and piece.flash_attention and (piece.written or piece.joint_qkv) and piece.adapters is None:
        # Heads that are joined lie head by head, and so does what comes out: the product reads a copy.
        yield Tensor("attention output by token", attention.out_width, "tp")
    if not piece.repeated_heads or attention.kv_heads >= attention.heads:
        yield from reads
        return
    yield query
    yield replace(key, numbers=query.numbers, spread="tp")
    yield replace(value, numbers=query.numbers, spread="tp", made="repeated keys and values")


def _core(model: Transformer, piece: Piece, name: str) -> Iterator[Row]:
    """Scores, or the log-sum-exp of fused attention, which selective recomputation drops; the output stays."""
    attention = model.attention
    output_B = piece.element_B if piece.cached_attention_B is None else piece.cached_attention_B
    yield Row(f"{name} output", attention.out_width * output_B, "tp", piece.kept_up_to("context"))
    core, scores_B = piece.kept_up_to("core_attn"), attention.heads * piece.element_B
    if piece.flash_attention:
        yield Row(f"{name} log-sum-exp", attention.heads * FP32_B, "tp", core)
        return
    yield Row(f"{name} probabilities", scores_B, "scores", core)
    # With a sink joined to the scores, softmax runs in their format (modeling_gpt_oss.py), as in some classes always.
    own = attention.sinks or modules_of(model.model_type).own_scores
    if piece.element_B < FP32_B and (not own or np.any(piece.wide_stream)):
        yield from _saved(piece, "scores", name, attention.heads, "scores", ("core_attn",))
    if piece.dropout:
        yield Row(f"{name} dropout mask", attention.heads * MASK_B, "scores", core)
        yield Row(f"{name} probabilities after dropout", scores_B, "scores", core)


def _beside(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """What waits beside what operations read: casts, masks, adapters, and what recomputation per operation keeps."""
    if np.any(piece.own_casts) and piece.adapters is None:
        gated = kind.block == "dense" and model.mlp is not None and model.mlp.gated
        gated = gated and "gate_up" not in modules_of(model.model_type).joint
        # One of them is the output of a norm, where one comes before.
        both = model.norm_placement == "output" or (model.parallel_block and model.parallel_norms == 1)
        more = 2 * (kind.attends and not piece.joint_qkv) + gated + both
        yield Row("casts of products", model.hidden * piece.element_B * more * piece.own_casts, "sequence")
    if "op" in piece.recompute_modules:
        yield from _by_operation(model, piece, kind)
    if model.modulation is not None:
        yield from model.modulation.rows(model.hidden, piece)
    if piece.adapters is not None:
        yield from _adapter_inputs(model, piece.adapters, piece, kind)
        yield from method_rows(model, piece, kind)
        yield from _wide(model, piece)
    blocks = {"attention": kind.mixer != "none", "cross attention": kind.crosses, "mlp": kind.block != "none"}
    for block in [name for name, there in blocks.items() if there and piece.dropout]:
        yield _mask(f"{block} residual dropout mask", model, SELECTIVE)


def _by_operation(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """What recomputation per operation keeps, and nothing else reads."""
    made = {one.name: one.modules for one in layer_operations(model, kind)}
    attention = model.attention
    if kind.attends and piece.repeated_heads and attention.kv_heads < attention.heads and "op" not in made["value"]:
        kv_B = attention.kv_heads * attention.head_dim * piece.element_B
        yield Row("value before it is repeated", kv_B, "kv", kept_from=SELECTIVE)
    if model.norm_placement == "pre" and kind.whole:
        if "op" not in made.get("down", ("op",)):
            yield Row("block output", model.hidden * piece.element_B, "gathered", kept_from=SELECTIVE)
        added_B = 2.0 * model.hidden * piece.element_B * (piece.tp > 1)
        yield Row("reduced outputs", added_B, "sequence", kept_from=SELECTIVE)


def _adapter_inputs(model: Transformer, adapters: Adapters, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Inputs of adapters, each cast for itself, to fp32 (PEFT) and under autocast back, and what comes out of A. Of
    what is fp32 there is no cast.
    """
    half, lora = piece.half_adapters or piece.element_B >= FP32_B, adapters.method.name == "lora"
    weights = layer_weights(model, kind.stored) if lora else ()
    cast_B = piece.element_B if np.any(piece.own_casts) else FP32_B
    first = next((one.name for one in weights if adapters.adapts(one) and one.name in JOINT), "")
    for weight in weights:
        if adapters.sums(weight):
            each_B = piece.element_B + wider_expert_B(model, piece)
            yield Row(f"{weight.name} with its adapter", weight.elems * each_B, "experts")
        elif adapters.adapts(weight):
            times = model.experts.top_k if weight.category == "routed_experts" and model.experts else 1
            spread: Spread = "inner" if times > 1 else "tp" if weight.name in ROWS else "sequence"
            kept_B = adapters.rank * piece.element_B if half else (weight.shape[0] + adapters.rank) * cast_B
            kept_B, once = kept_B * (not adapters.joins(weight)), piece.joint_qkv and weight.name in JOINT
            if adapters.dropout_frac and not (adapters.joins(weight) or (once and weight.name != first)):
                # Of the input in half precision a copy besides; the one in fp32 is there anyway.
                kept_B += weight.shape[0] * (MASK_B + piece.element_B * half)
            yield Row(f"{weight.name} adapter input", times * kept_B, spread)


def _wide(model: Transformer, piece: Piece) -> Iterator[Row]:
    """Beyond half precision, what a quantised base reads and gives in fp32 around the activation."""
    if not np.any(piece.wide_base):
        return
    wider_B = (FP32_B - piece.element_B) * piece.wide_base
    if model.mlp is not None:
        columns = (3 if model.mlp.gated else 1) * model.mlp.ffn
        yield Row("mlp in fp32", columns * wider_B, "tp", piece.kept_up_to("mlp"))


def _hidden(name: str, model: Transformer, piece: Piece, kept_up_to: int = SELECTIVE) -> Row:
    """A tensor of hidden width between the parallel blocks."""
    return Row(name, model.hidden * piece.element_B, "sequence", kept_up_to)


def _wider(
    name: str, model: Transformer, piece: Piece, kept_up_to: int = SELECTIVE, times: float = 1.0
) -> Iterator[Row]:
    """What tensors of an fp32 stream take beyond half precision, so many `times`."""
    wide = np.logical_or(piece.wide_stream, piece.wide_base) if kept_up_to == FULL else piece.wide_stream
    if np.any(wide):
        yield Row(name, model.hidden * times * (FP32_B - piece.element_B) * wide, "sequence", kept_up_to)


def _mask(name: str, model: Transformer, kept_up_to: int) -> Row:
    """A dropout mask of hidden width, one byte per element."""
    return Row(name, model.hidden * MASK_B, "sequence", kept_up_to)
