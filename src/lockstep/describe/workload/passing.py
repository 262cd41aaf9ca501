"""What passes while a layer runs backward, or again, beyond what it keeps: gradients, sums of adapters, casts.

    passing_gradient_B(model, piece, kind)      inside a layer of a kind
    last_norm_gradient_B(model, piece)          in the norm behind the last layer

Sources: PyTorch, tools/autograd/derivatives.yaml; huggingface/peft 0.21.2, peft/tuners/lora/layer.py; huggingface/
transformers 5.24, integrations/moe.py and models/gpt_oss/modeling_gpt_oss.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lockstep.base.types.arrays import Number, Whole
from lockstep.describe.workload.architecture import Experts, Transformer
from lockstep.describe.workload.kind import DENSE, LayerKind
from lockstep.describe.workload.method_rows import passing_B, widest_gradient
from lockstep.describe.workload.modules import modules_of
from lockstep.describe.workload.operation import Spread
from lockstep.describe.workload.piece import FP32_B, NONE, Piece, Row
from lockstep.describe.workload.weights import layer_weights

MASK_B = 1.0


def total_B(rows: Iterable[Row], model: Transformer, piece: Piece, code: Whole) -> Number:
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


def wider_expert_B(model: Transformer, piece: Piece) -> Number:
    """Bytes by which numbers inside experts outgrow half precision: products of experts that are one parameter are
    not cast by torch.autocast, and run in its format (transformers 5.24, integrations/moe.py, _grouped_mm).
    """
    apart = modules_of(model.model_type).experts == "apart"
    return 0.0 if apart else (FP32_B - piece.element_B) * piece.wide_stream


def passing_gradient_B(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> Number:
    """Most bytes by which gradients inside one layer's backward pass outgrow the kept tensors that it has freed.

    That is behind the down product, whose input is freed: gradients of that input and of what made it (two tensors with
    a gate) are there at once, and the one of the residual stream waits.
    """
    rows = (*_gradients(model, piece, kind), *widest_gradient(model, piece, kind))
    found_B = np.maximum(total_B(rows, model, piece, NONE), passing_B(model, piece, kind))
    if model.norm_placement != "pre" and kind.whole:
        found_B = np.maximum(found_B, last_norm_gradient_B(model, piece))
    return np.maximum(found_B, total_B(_adapting(model, piece, kind), model, piece, NONE))


def last_norm_gradient_B(model: Transformer, piece: Piece) -> Number:
    """Most bytes that pass in the backward pass of a norm behind the last product, when all that is kept is there."""
    return total_B(_norming(model, piece), model, piece, NONE)


def _gradients(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Gradients at the fullest moment of a layer's backward pass, less the input of the down product."""
    yield Row("stream gradient", model.hidden * piece.element_B, "gathered")
    if piece.adapters is not None and piece.adapters.method.name not in ("ia3", "prompt"):
        size_B = piece.element_B if piece.half_adapters else FP32_B
        yield Row("adapter input gradient", model.hidden * size_B, "sequence")
        sums = [one.elems for one in layer_weights(model, kind.stored) if piece.adapters.sums(one)]
        if sums:
            # With that of gate and up, the sum of down and its gradient are gone.
            each_B = piece.element_B + wider_expert_B(model, piece)
            yield Row("gradient of a sum with an adapter", min(sums) * each_B, "experts")
    inner = {"experts": model.experts, "dense": model.mlp}.get(kind.block)
    if inner is None:
        return
    inner_B = piece.element_B + wider_expert_B(model, piece) * isinstance(inner, Experts)
    inside_B = (2 if inner.gated else 1) * inner.ffn * inner_B
    if not isinstance(inner, Experts):
        yield Row("mlp gradients", inside_B, "tp")
        yield from _of_frozen_down(model, piece, kind)
        return
    outputs = model.hidden * piece.weighed_B > inside_B
    yield Row("expert output gradients", inner.top_k * model.hidden * piece.weighed_B * outputs, "rows")
    yield Row("expert gradients", inner.top_k * inside_B * np.logical_not(outputs), "inner")


def _of_frozen_down(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Where a down product does not keep its input, that input's gradient is no tensor in its place; of an adapter
    beside it, what that keeps is freed.
    """
    down = next(one for one in layer_weights(model, kind.stored) if one.name == "down")
    if piece.adapters is None or not piece.gradients_apart or piece.needs_input_of(down):
        return
    freed_B = 0.0
    if piece.adapters.adapts(down):
        freed_B = (piece.element_B if np.any(piece.own_casts) else FP32_B) + MASK_B * bool(piece.adapters.dropout_frac)
    yield Row("gradient of the down input", (piece.element_B - freed_B) * down.shape[0], "tp")


def _norming(model: Transformer, piece: Piece) -> Iterator[Row]:
    """What passes where a norm that is written out runs backward: the gradients of its scale and of its square, each
    in fp32, and of what it gives (PyTorch, tools/autograd/derivatives.yaml: pow, mul, mean).
    """
    if piece.saves.get("norm"):
        yield Row("gradients in a norm", model.hidden * (5 * FP32_B + piece.element_B), "sequence")


def _adapting(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Where a layer runs again, what passes beside its first products when a frozen matrix in half precision has an
    adapter in fp32, less what is not there yet: what B gives, that scaled, and both summed (PEFT, lora/layer.py).
    """
    adapters, mlp, moe = piece.adapters, model.mlp, model.experts
    if kind.block == "experts" and moe is not None and moe.out_bias and piece.saves.get("gate"):
        # Biases of gate and up gathered for every row, up clamped, and what down reads (modeling_gpt_oss.py).
        down = next(one for one in layer_weights(model, kind.stored) if one.name == "expert down")
        numbers = (4 - piece.needs_input_of(down)) * moe.top_k * moe.ffn
        yield Row("rows of biases and clamped up", numbers * (piece.element_B + wider_expert_B(model, piece)), "inner")
        yield Row("stream gradient", model.hidden * piece.element_B, "gathered")
    wide = piece.half_adapters or piece.element_B >= FP32_B or piece.saves.get("gate") == ()
    if adapters is None or mlp is None or wide or kind.block != "dense":
        return
    found = {one.name: one for one in layer_weights(model, kind.stored)}
    if np.any(piece.own_casts):
        if adapters.adapts(found["down"]):
            # What the matrix reads, that in fp32 before autocast brings it back for A, and what the matrix gives; the
            # block's own input is held by the layer that calls it.
            yield Row("down input, and in fp32", mlp.ffn * (piece.element_B + FP32_B), "tp")
            yield Row("down output, stream gradient, block input", 3 * model.hidden * piece.element_B, "gathered")
        return
    if not adapters.adapts(found["up"]):
        return
    joint = 1 + adapters.joins(found["up"])
    yield Row("adapter output", 3 * joint * mlp.ffn * FP32_B, "tp")
    later_B = sum(one.size_B(piece.element_B) for one in piece.saves.get("gate", ())) * (joint > 1)
    if adapters.adapts(found["down"]):
        later_B += FP32_B + (MASK_B if adapters.dropout_frac else 0)
    yield Row("not there yet", -later_B * mlp.ffn, "tp")
    yield Row("stream gradient", model.hidden * piece.element_B, "gathered")
