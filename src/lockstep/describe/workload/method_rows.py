"""What methods other than LoRA keep beside a layer's matrices for the backward pass, and DoRA besides, in bytes.

Bytes for each token that passes a matrix of `in` inputs and `out` outputs; f is 4, or under torch.autocast 2:

    dora     2 out + f out       what W gives, and what A and B give, before both are scaled; with dropout W gives f out
    vera     f r + f out         what A gives, and what B gives; A and B are frozen, so that nothing keeps their inputs
    oft      f in                the input, cast for the rotation
    ia3      2 out, or 4 in      what W gives; of down projections the input in fp32, which autocast leaves

and once for each matrix, however many the tokens:

    dora     with dropout f in out: W once more, which reads what is left of the input and so has a product of its own
    vera     under autocast 2 r (in + out), casts of A and B
    oft      the rotation of blocks of k and the terms of Neumann's series: 16 in k, under autocast 14 in k

DoRA's norm of W + A B is made anew in each forward pass: an identity of in x in passes A and B, and four
matrices like W in fp32 are there at once. They are freed before the next module runs.

Source: peft 0.21.2, peft/tuners/lora/{dora,variants}.py, vera/layer.py, oft/layer.py and ia3/layer.py; bytes counted
on CPU (tests/workload/test_methods.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.adapters import ROWS, Adapters
from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.kind import LayerKind
from lockstep.describe.workload.operation import SPREADS, Spread
from lockstep.describe.workload.piece import FP32_B, Piece, Row
from lockstep.describe.workload.weight import Weight
from lockstep.describe.workload.weights import layer_weights

MASK_B = 1.0
EYE_B, DENSE_B = 4.0, 12.0
"""Bytes per element of the identity matrix that passes A and B, and of three matrices like W that are there with it; in
half precision W is there in fp32 as well."""
CAST_EYE_B = 2.0
"""Of the identity under autocast, its cast, which is all that stays of it."""
ROTATIONS_B, CAST_ROTATIONS_B = 16.0, 14.0
"""Of four matrices of Neumann's series in fp32; under autocast of seven casts."""


def method_rows(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """What the method keeps beside every matrix of a layer that is a target."""
    adapters = piece.adapters
    if adapters is None or adapters.method.plain:
        return
    for weight in layer_weights(model, kind.stored):
        if adapters.adapts(weight) and not adapters.sums(weight):
            times = model.experts.top_k if weight.category == "routed_experts" and model.experts else 1
            for row in _of_weight(weight, adapters, piece, not adapters.joins(weight)):
                yield Row(row.name, row.token_B * (1 if row.spread == "layer" else times), row.spread, most=row.most)


def _of_weight(weight: Weight, adapters: Adapters, piece: Piece, own: bool) -> Iterator[Row]:
    method, name, (inputs, outputs) = adapters.method, weight.name, weight.shape
    cast = bool(np.any(piece.own_casts)) and piece.element_B < FP32_B
    cast_B, rank = piece.element_B if cast else FP32_B, adapters.rank_of(weight)
    rows, routed = name in ROWS, weight.cut == "expert"
    read: Spread = "inner" if routed else "tp" if rows else "sequence"
    given: Spread = "inner" if routed else "sequence" if rows else SPREADS.get(weight.cut, "sequence")
    most = weight.kv_heads if given == "kv" else 0
    if method.dora:
        again = adapters.dropout_frac > 0
        base_B = cast_B if again else piece.element_B
        yield Row(f"{name} outputs before magnitudes", outputs * (base_B + cast_B), given, most=most)
        if again and piece.element_B < FP32_B:
            yield Row(f"{name} in its adapter's format", weight.elems * cast_B, "layer")
    elif method.name == "vera":
        yield Row(f"{name} outputs before b", outputs * cast_B, given, most=most)
        if own:
            dropped_B = inputs * MASK_B * (adapters.dropout_frac > 0)
            yield Row(f"{name} outputs before d", rank * cast_B + dropped_B, read)
        yield Row(f"{name} casts of A and B", rank * (own * inputs + outputs) * piece.element_B * cast, "layer")
    elif method.name == "oft" and own:
        yield Row(f"{name} input before rotation", inputs * cast_B * (piece.element_B < FP32_B), read)
        each_B = CAST_ROTATIONS_B if cast else ROTATIONS_B
        yield Row(f"{name} rotation", inputs * method.block_on(inputs) * each_B * weight.copies, "layer")
    elif method.name == "ia3":
        if not method.scales_input(weight):
            yield Row(f"{name} output before its scale", outputs * piece.element_B, given, most=most)
        elif own:
            yield Row(f"{name} input before its scale", inputs * FP32_B * (piece.element_B < FP32_B), read)


def widest_gradient(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """The gradient in fp32 of the widest tensor of a layer that the method scales or rotates."""
    adapters = piece.adapters
    if adapters is None or adapters.method.plain:
        return
    widest: tuple[float, Spread] = (0.0, "sequence")
    for weight in layer_weights(model, kind.stored):
        if adapters.adapts(weight) and not adapters.sums(weight) and weight.cut != "expert":
            turned, rows = adapters.method.scales_input(weight), weight.name in ROWS
            width = weight.shape[0] if turned else weight.shape[1]
            widest = max(widest, (width, "tp" if turned == rows else "sequence"))
    yield Row("gradient of what is scaled", widest[0] * FP32_B, widest[1])


def passing_B(model: Transformer, piece: Piece, kind: LayerKind) -> Number:
    """Most bytes that DoRA's norms take at once in a layer, of one matrix after the other, and its input cast to fp32,
    which is there meanwhile; 0 for other methods.
    """
    adapters = piece.adapters
    if adapters is None or not adapters.method.dora:
        return 0.0
    cast = bool(np.any(piece.own_casts))
    eye_B = CAST_EYE_B if cast else EYE_B
    dense_B = DENSE_B + FP32_B * (piece.element_B < FP32_B)
    found: Number = 0.0
    joined: list[Weight] = []
    for weight in layer_weights(model, kind.stored):
        if not adapters.adapts(weight):
            continue
        joined = [*(joined if adapters.joins(weight) else ()), weight]
        ways = weight.ways(piece.tp, piece.expert_ways)
        by_rows = weight.name in ROWS
        inputs = weight.shape[0] / ways if by_rows else weight.shape[0]
        outputs = sum(one.shape[1] / (1 if by_rows else ways) for one in joined)
        read_B = FP32_B * piece.tokens * inputs * (piece.element_B < FP32_B)
        found = np.maximum(found, eye_B * inputs**2 + dense_B * inputs * outputs + read_B)
    return found
