"""Most bytes that gradients inside one layer's backward pass need beyond what the layer has kept.

Gradients are largest behind the down product, or, where attention is not fused, behind its softmax.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.activations import layer_rows, rows_of, total_B
from lockstep.describe.workload.architecture import Experts, Transformer
from lockstep.describe.workload.graph import layer_operations
from lockstep.describe.workload.kind import DENSE, LayerKind
from lockstep.describe.workload.piece import FP32_B, NONE, Piece, Row
from lockstep.describe.workload.weights import layer_weights


def passing_gradient_B(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> Number:
    """Most bytes by which gradients inside one layer's backward pass outgrow the kept tensors that it has freed.

    That is behind the down product, whose input is freed: gradients of that input and of what made it (two tensors with
    a gate) are there at once, and the one of the residual stream waits.
    """
    return total_B(_gradients(model, piece, kind), model, piece, NONE)


def passing_scores_B(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> Number:
    """The same behind the softmax of a layer's last attention that is not fused; what follows it is freed."""
    rows, operations = [*layer_rows(model, piece, kind)], layer_operations(model, kind)
    cores = [at for at, one in enumerate(operations) if one.does in ("core", "crossing core")]
    if not cores:
        return 0.0
    there = {row.name for row in rows_of(model, piece, kind, operations[: cores[-1] + 1])}
    name = operations[cores[-1]].name
    own = [row.name for row in rows if row.spread == "scores" and row.name.startswith(name)]
    freed = [row for row in rows[1:] if row.name not in there or row.name in own]
    held = [
        Row("stream gradient", model.hidden * piece.element_B, "gathered"),
        Row(f"{name} scores", model.attention.heads * piece.scored_B, "scores"),
    ]
    return total_B(held, model, piece, NONE) - total_B(freed, model, piece, NONE)


def _gradients(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Gradients at the fullest moment of a layer's backward pass, less the input of the down product."""
    yield Row("stream gradient", model.hidden * piece.element_B, "gathered")
    if piece.adapters is not None:
        size_B = piece.element_B if piece.half_adapters else FP32_B
        yield Row("adapter input gradient", model.hidden * size_B, "sequence")
        sums = [one.elems for one in layer_weights(model, kind.stored) if piece.adapters.sums(one)]
        if sums:
            # With that of gate and up, the sum of down and its gradient are gone.
            yield Row("gradient of a sum with an adapter", min(sums) * piece.element_B, "experts")
    inner = {"experts": model.experts, "dense": model.mlp}.get(kind.block)
    if inner is None:
        return
    inside_B = (2 if inner.gated else 1) * inner.ffn * piece.element_B
    if not isinstance(inner, Experts):
        yield Row("mlp gradients", inside_B, "tp")
    elif model.hidden * piece.weighed_B > inside_B:
        yield Row("expert output gradients", inner.top_k * model.hidden * piece.weighed_B, "rows")
    else:
        yield Row("expert gradients", inner.top_k * inside_B, "inner")
