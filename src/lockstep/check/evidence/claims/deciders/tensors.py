"""Bytes and FLOPs of tensor-parallel layers, activations and parameters."""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.check.evidence.claims.deciders import decides
from lockstep.price.tensor_layer import TensorLayer, tensor_layer
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.parallel.group import on_link
from lockstep.simulate.parallel.tensor import Shape, prove

HEAD = 128


def _layer(width: int, ranks: int, batch: int, seq: int, rate_flops: float, link_Bps: float) -> TensorLayer:
    """A layer of that width, heads of 128 and a feed-forward block four times as wide, in 16 bits."""
    shape = Shape(batch, seq, width, width // HEAD, 4 * width)
    return tensor_layer(shape, ranks, {ranks: on_link(ranks, PlainLink(0.0, link_Bps))}, rate_flops, overlap="none")


def _moved(width: int, ranks: int, batch: int, seq: int) -> TensorLayer:
    """The same where only bytes and FLOPs are asked for, which depend on no rate."""
    return _layer(width, ranks, batch, seq, rate_flops=width, link_Bps=width)


@decides("priced")
def layer_sent_B(width: int, ranks: int, batch: int, seq: int) -> float:
    """Bytes that a rank sends for a layer, forward and backward."""
    return _moved(width, ranks, batch, seq).sent_B


@decides("counted")
def run_sent_B(batch: int, seq: int, width: int, heads: int, ffn: int, ranks: int) -> float:
    """Bytes that the rank which sends most sent when a small layer was run on numpy."""
    return prove(Shape(batch, seq, width, heads, ffn), ranks).sent_B


@decides("priced")
def traffic_frac(width: int, ranks: int, batch: int, seq: int, rate_flops: float, link_Bps: float) -> float:
    """Time of a layer's traffic over that of its computing."""
    row = _layer(width, ranks, batch, seq, rate_flops, link_Bps).row
    return row.traffic_s / row.compute_s


@decides("counted")
def elems_per_flop(width: int, ranks: int, batch: int, seq: int) -> float:
    """Elements that a rank sends for each FLOP of its products, the core of attention left out."""
    found = _moved(width, ranks, batch, seq)
    core = 3 * 4.0 * found.shape.tokens * seq * width / ranks
    return found.sent_B / found.element_B / (found.forward_flops + found.backward_flops - core)


@decides("priced")
def boundary_B(width: int, batch: int, seq: int, element_B: float) -> float:
    """Bytes that one pipeline stage hands to the next for a micro-batch: its activations."""
    return batch * seq * width * element_B


@decides("priced")
def held_B(model: str, batch: int, seq: int) -> float:
    """Bytes that a layer keeps for the backward pass with attention scores stored: s b h (34 + 5 heads s / h)."""
    from lockstep.describe.workload import Piece, Transformer, layer_activation_B
    from lockstep.describe.workload import model as find

    found = find(model)
    if not isinstance(found, Transformer):
        raise BadInput(f"{model} has no layer with scores", "model")
    piece = Piece(
        micro_batch=batch, seq=seq, tp=1, element_B=2.0, flash_attention=False, dropout=True, recompute_modules=()
    )
    return float(layer_activation_B(found, piece))


@decides("counted")
def parameters_of(model: str) -> float:
    """Parameters of a model of the catalog."""
    from lockstep.describe.workload import model as find
    from lockstep.describe.workload import parameters

    return float(parameters(find(model)).total)


@decides("counted")
def gradient_B(model: str, element_B: float) -> float:
    """Bytes of the gradients of a model of the catalog."""
    return parameters_of(model) * element_B


@decides("priced")
def ratio_to_half(width: int, ranks: int, batch: int, seq: int) -> float:
    """Bytes of a layer over those of a layer half as wide."""
    return layer_sent_B(width, ranks, batch, seq) / layer_sent_B(width // 2, ranks, batch, seq)


@decides("priced")
def step_ratio_to_half(width: int, ranks: int, batch: int, seq: int) -> float:
    """Bytes of a step over those of a model half as wide with as many parameters: a fourth of the layers."""
    layers_ratio = (width // 2 / width) ** 2
    return layers_ratio * ratio_to_half(width, ranks, batch, seq)


@decides("priced")
def share_ratio(width: int, ranks: int, batch: int, other: int, seq: int, rate_flops: float, link_Bps: float) -> float:
    """Traffic over computing of a batch, over that of another batch."""
    many, few = (traffic_frac(width, ranks, size, seq, rate_flops, link_Bps) for size in (batch, other))
    return many / few


@decides("counted")
def per_flop_units(width: int, ranks: int, batch: int, seq: int) -> float:
    """Elements sent per FLOP of products, in units of (k - 1) / (9 h)."""
    return elems_per_flop(width, ranks, batch, seq) / ((ranks - 1) / (9 * width))


@decides("priced")
def product_traffic_frac(width: int, ranks: int, batch: int, seq: int, rate_flops: float, link_Bps: float) -> float:
    """Time of a layer's traffic in 16 bits over that of its products, attention's core left out."""
    return elems_per_flop(width, ranks, batch, seq) * 2.0 * rate_flops / link_Bps


@decides("priced")
def batch_ratio(width: int, ranks: int, batch: int, seq: int) -> float:
    """Bytes of a layer for a batch over those for one sequence."""
    return layer_sent_B(width, ranks, batch, seq) / layer_sent_B(width, ranks, 1, seq)
