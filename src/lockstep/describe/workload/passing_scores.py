"""What gradients need behind the softmax of attention that is not fused, beyond what its layer has kept."""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.activations import layer_rows, rows_of
from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.graph import layer_operations
from lockstep.describe.workload.kind import DENSE, LayerKind
from lockstep.describe.workload.passing import total_B
from lockstep.describe.workload.piece import NONE, Piece, Row


def passing_scores_B(model: Transformer, piece: Piece, kind: LayerKind = DENSE) -> Number:
    """Most bytes by which gradients behind the softmax of a layer's last attention outgrow the kept tensors that have
    been freed by then.
    """
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
