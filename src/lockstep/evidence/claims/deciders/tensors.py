"""Bytes and FLOPs of tensor-parallel layers, activations and parameters."""

from __future__ import annotations

from lockstep.collectives import PlainLink
from lockstep.evidence.claims.deciders import decides
from lockstep.parallel.group import on_link
from lockstep.parallel.tensor import Shape, TensorLayer, prove, tensor_layer

GPT3_WIDTH, GPT3_LAYERS = 12_288, 96
HEAD = 128


def _layer(width: int, ranks: int, batch: int, seq: int, rate_flops: float = 1.0, link_Bps: float = 1.0) -> TensorLayer:
    """A layer of that width, heads of 128 and a feed-forward block four times as wide, in 16 bits."""
    shape = Shape(batch, seq, width, width // HEAD, 4 * width)
    return tensor_layer(shape, ranks, {ranks: on_link(ranks, PlainLink(0.0, link_Bps))}, rate_flops, overlap="none")


@decides("priced")
def layer_sent_B(width: int, ranks: int, batch: int = 1, seq: int = 2048) -> float:
    """Bytes that a rank sends for a layer, forward and backward."""
    return _layer(width, ranks, batch, seq).sent_B


@decides("counted")
def run_sent_over_priced(width: int, ranks: int) -> float:
    """Bytes that the rank which sends most sent when a small layer was run on numpy, over the bytes priced."""
    found = prove(Shape(1, 8, width, width // 8, 4 * width), ranks)
    return found.sent_B / found.priced_B


@decides("priced")
def step_sent_B(width: int, ranks: int, seq: int = 2048, same_parameters_as: int = GPT3_WIDTH) -> float:
    """Bytes that a rank sends in a step of a model with as many parameters as 96 layers of the width given last.

    Parameters are in proportion to layers x width^2.
    """
    layers = GPT3_LAYERS * (same_parameters_as / width) ** 2
    return layers * layer_sent_B(width, ranks, 1, seq)


@decides("priced")
def traffic_frac(width: int, ranks: int, rate_flops: float, link_Bps: float, batch: int = 1, seq: int = 2048) -> float:
    """Time of a layer's traffic over that of its computing."""
    row = _layer(width, ranks, batch, seq, rate_flops, link_Bps).row
    return row.traffic_s / row.compute_s


@decides("counted")
def elems_per_flop(width: int, ranks: int, batch: int = 1, seq: int = 2048) -> float:
    """Elements that a rank sends for each FLOP of its products, the core of attention left out."""
    found = _layer(width, ranks, batch, seq)
    core = 3 * 4.0 * found.shape.tokens * seq * width / ranks
    return found.sent_B / found.element_B / (found.forward_flops + found.backward_flops - core)


@decides("priced")
def boundary_B(width: int, batch: int, seq: int, element_B: float = 2.0) -> float:
    """Bytes that one pipeline stage hands to the next for a micro-batch: its activations."""
    return float(Shape(batch, seq, width, 1, width).tokens * width * element_B)


@decides("priced")
def held_B(width: int, heads: int, batch: int = 1, seq: int = 2048) -> float:
    """Bytes that a layer keeps for the backward pass with attention scores stored: s b h (34 + 5 heads s / h)."""
    from lockstep.workload import Attention, Mlp, Piece, Transformer, layer_activation_B

    model = Transformer(
        name="layer", layers=1, hidden=width, vocab=1, max_positions=seq,
        attention=Attention(heads=heads, kv_heads=heads, head_dim=width // heads),
        mlp=Mlp(ffn=4 * width, gated=False, activation="gelu"),
    )  # fmt: skip
    piece = Piece(
        micro_batch=batch, seq=seq, tp=1, element_B=2.0, flash_attention=False, dropout=True, recompute_modules=()
    )
    return float(layer_activation_B(model, piece))


@decides("priced")
def ratio_to_half(width: int, ranks: int) -> float:
    """Bytes of a layer over those of a layer half as wide."""
    return layer_sent_B(width, ranks) / layer_sent_B(width // 2, ranks)


@decides("priced")
def step_ratio_to_half(width: int, ranks: int) -> float:
    """Bytes of a step over those of a model half as wide with as many parameters."""
    return step_sent_B(width, ranks) / step_sent_B(width // 2, ranks)


@decides("priced")
def share_ratio(width: int, ranks: int, batch: int) -> float:
    """Traffic over computing of a batch, over that of one sequence."""
    one, many = (traffic_frac(width, ranks, 1e14, 1e11, number) for number in (1, batch))
    return many / one


@decides("counted")
def per_flop_units(width: int, ranks: int) -> float:
    """Elements sent per FLOP of products, in units of (k - 1) / (9 h)."""
    return elems_per_flop(width, ranks) / ((ranks - 1) / (9 * width))


@decides("priced")
def product_traffic_frac(width: int, ranks: int, rate_flops: float, link_Bps: float) -> float:
    """Time of a layer's traffic over that of its products, attention's core left out."""
    return elems_per_flop(width, ranks) * 2.0 * rate_flops / link_Bps


@decides("priced")
def batch_ratio(width: int, ranks: int, batch: int) -> float:
    """Bytes of a layer for a batch over those for one sequence."""
    return layer_sent_B(width, ranks, batch) / layer_sent_B(width, ranks)
