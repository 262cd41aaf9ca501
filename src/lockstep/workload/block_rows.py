"""What feed-forward blocks keep for the backward pass, and what gradients inside them hold, as rows (`piece.py`).

Experts in PyTorch's operations keep outputs that one kernel of Transformer Engine does not (`Piece.expert_outputs`):
the routing weights that multiply them want gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.workload.architecture import Experts, Mlp, Transformer
from lockstep.workload.graph import Modules
from lockstep.workload.kind import LayerKind
from lockstep.workload.piece import FP32_B, SELECTIVE, Piece, Row, Spread


def _inner(gated: bool, activation: str, fused: bool) -> tuple[str, ...]:
    """Names of the inner tensors of a feed-forward block; ReLU is undone from its output, which down reads."""
    if gated:
        return ("gate", "up", "down input") if fused else ("gate", "up", "activated gate", "down input")
    return ("down input",) if activation == "relu" else ("activation input", "down input")


def dense_rows(mlp: Mlp, piece: Piece, made: Modules) -> Iterator[Row]:
    """Inner tensors of the dense block, cut by tp; each is kept unless what made it runs again."""
    makers = {"gate": "gate", "up": "up", "activation input": "up"}
    for name in _inner(mlp.gated, mlp.activation, piece.fused_elementwise):
        if name == "down input" and mlp.activation != "relu" and not piece.needs_input_of("down_proj"):
            continue
        token_B = mlp.ffn * (piece.input_B if name == "down input" else piece.element_B)
        modules = made[makers.get(name, "activation")]
        if name == "down input" and not mlp.gated and mlp.activation == "relu":
            # What ReLU made stands for what it read: its function alone runs again of nothing.
            modules = tuple(one for one in modules if one != "mlp_act")
        if name == "activation input" and mlp.activation == "gelu_new" and piece.written_activation:
            # The power's input and what tanh makes, half of the input, and what multiplies it.
            token_B = mlp.ffn * (FP32_B * 3 + piece.element_B if piece.autocast else piece.element_B * 4)
        yield Row(f"mlp {name}", token_B, "tp", piece.kept_up_to(*modules))


def _inside(experts: Experts, piece: Piece, made: Modules, prefix: str, elems: float, spread: Spread) -> Iterator[Row]:
    """Inner tensors of experts: inputs of the activation function, which stay, and what it makes of them."""
    for name in _inner(experts.gated, experts.activation, piece.fused_elementwise):
        activated = name in ("down input", "activated gate") and (experts.gated or experts.activation != "relu")
        kept_up_to = piece.kept_up_to(*made[f"{prefix} activation"]) if activated else SELECTIVE
        size_B = {"down input": piece.input_B, "activated gate": piece.element_B}.get(name, piece.inner_B)
        yield Row(f"{prefix} {name}".replace("shared ", "shared expert "), elems * size_B, spread, kept_up_to)


def expert_rows(model: Transformer, experts: Experts, piece: Piece, made: Modules) -> Iterator[Row]:
    """Router probabilities (fp32), the rows sent to experts, their inner tensors, and shared experts."""
    yield Row("router probabilities", experts.experts * FP32_B, "sequence")
    yield Row("expert input", experts.top_k * model.hidden * piece.input_B, "rows")
    yield from _inside(experts, piece, made, "expert", experts.top_k * experts.ffn, "inner")
    if piece.expert_outputs:
        yield Row("expert output", piece.expert_outputs * experts.top_k * model.hidden * piece.element_B, "rows")
    elif not experts.gated and experts.activation != "relu2":
        # Routing weights multiply it, in one kernel with gated SiLU or squared ReLU alone (Megatron Core 0.14, mlp.py).
        activated_B = experts.top_k * experts.ffn * piece.element_B
        yield Row("expert activated", activated_B, "inner", piece.kept_up_to(*made["expert activation"]))
    if experts.shared_ffn:
        yield from _inside(experts, piece, made, "shared", experts.shared_ffn, "tp")
    if experts.shared_gate:
        yield Row("shared expert output", model.hidden * piece.element_B, "sequence")


def block_gradients(model: Transformer, piece: Piece, kind: LayerKind) -> Iterator[Row]:
    """Gradients inside a block at the fullest moment of its backward pass, less the input of the down product."""
    inner = {"experts": model.experts, "dense": model.mlp}.get(kind.block)
    if inner is None:
        return
    wide = 2 if inner.gated else 1
    if isinstance(inner, Experts):
        inside_B, rows_B = (
            wide * inner.top_k * inner.ffn * piece.element_B,
            inner.top_k * model.hidden * piece.weighed_B,
        )
        if rows_B > inside_B:
            yield Row("expert output gradients", rows_B, "rows")
        else:
            yield Row("expert gradients", inside_B, "inner")
    else:
        yield Row("mlp gradients", wide * inner.ffn * piece.element_B, "tp")
