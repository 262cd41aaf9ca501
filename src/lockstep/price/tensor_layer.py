"""`tensor_layer(...)`: one transformer layer on k ranks: seconds of computing and of traffic, and what hides of it.

    compute    FLOPs of a rank (`block`) / rate
    traffic    two rounds of a gather and a reduction in each pass (`traffic.flows`)
    pass       compute + exposed traffic, by overlap policy (`traffic.pieces`, the same that price a training step)
    speed-up   time of the layer on one rank / time on k

Twice as many ranks halve the computing and leave the traffic as it is, up to (k - 1)/k and latencies: so the share of
traffic grows until more ranks gain nothing.

Sources: M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3; D. Narayanan et al., SC 2021, section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.describe.workload import Attention, Mlp, Piece, Transformer, layer_activation_B
from lockstep.simulate.parallel.group import Levels
from lockstep.simulate.parallel.piece import Flow, total_s
from lockstep.simulate.parallel.piece import Piece as Traffic
from lockstep.simulate.parallel.tensor import traffic
from lockstep.simulate.parallel.tensor.layer import Layer
from lockstep.simulate.parallel.tensor.proof import Proof
from lockstep.simulate.parallel.tensor.shape import Shape, flops

ALONE = ((1, 0.0, 1.0, 0.0),)
"""One rank, which sends nothing over any link."""


@dataclass(frozen=True, slots=True)
class LayerPass:
    """The forward or the backward pass of the layer on one rank, under one overlap policy."""

    compute_s: float
    traffic_s: float
    """All traffic, hidden or not."""
    exposed_s: float
    """Traffic that lengthens the pass."""
    hidden_s: float
    """Traffic that runs beside products."""
    slack_s: float
    """Further traffic that the same products would hide."""

    @property
    def time_s(self) -> float:
        """The whole pass."""
        return self.compute_s + self.exposed_s

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self) | {"time_s": self.time_s}


@dataclass(frozen=True, slots=True)
class Policy:
    """Both passes where traffic overlaps with products as `overlap` says: none, gradients or all."""

    overlap: str
    forward: LayerPass
    backward: LayerPass

    @property
    def time_s(self) -> float:
        """The layer, forward and backward."""
        return self.forward.time_s + self.backward.time_s

    def both_s(self, name: str) -> float:
        """The quantity of that name, of both passes together."""
        return float(getattr(self.forward, name) + getattr(self.backward, name))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "overlap time_s forward backward")


@dataclass(frozen=True, slots=True)
class Row:
    """The layer on one number of ranks, both passes together."""

    ranks: int
    compute_s: float
    traffic_s: float
    exposed_s: float
    time_s: float
    speedup: float
    """Over one rank."""
    sent_B: float
    """Bytes that one rank sends."""
    kept_B: float
    """Bytes that one rank keeps for the backward pass."""

    @property
    def efficiency_frac(self) -> float:
        """Speed-up over the number of ranks."""
        return self.speedup / self.ranks

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self) | {"efficiency_frac": self.efficiency_frac}


@dataclass(frozen=True, slots=True, repr=False)
class TensorLayer(Shown):
    """A layer on `ranks` ranks under every overlap policy, and on other numbers of ranks under the one asked for."""

    shape: Shape
    ranks: int
    sequence_parallel: bool
    overlap: str
    flops_per_s: float
    element_B: float
    forward_flops: float
    """FLOPs of one rank."""
    backward_flops: float
    sent_B: float
    """Bytes that one rank sends, in both passes together."""
    weights_B: float
    """Bytes of the weights that one rank holds."""
    kept_B: float
    kept_frac: float
    """Bytes that a rank keeps for the backward pass, over those of one rank alone."""
    policies: tuple[Policy, ...]
    rows: tuple[Row, ...]
    proof: Proof | None = None
    assumptions: tuple[str, ...] = ()
    params: float | None = None
    """Parameters of the model that consists of such layers, if asked."""

    @property
    def boundary_B(self) -> float:
        """Bytes that a rank hands to the next pipeline stage for a micro-batch, and gets back: its activations."""
        whole_B = self.shape.tokens * self.shape.hidden * self.element_B
        return whole_B / self.ranks if self.sequence_parallel else whole_B

    @property
    def layers(self) -> float | None:
        """Such layers that make up that model, not rounded."""
        return None if self.params is None else self.params / self.shape.weight_elems

    @property
    def model_sent_B(self) -> float | None:
        """Bytes that a rank sends for all of them, in both passes of a micro-batch."""
        return None if self.layers is None else self.layers * self.sent_B

    @property
    def chosen(self) -> Policy:
        """The policy asked for."""
        return next(one for one in self.policies if one.overlap == self.overlap)

    @property
    def row(self) -> Row:
        """The number of ranks asked for."""
        return next(one for one in self.rows if one.ranks == self.ranks)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **self.shape.to_dict(),
            **picked(self, without="shape proof assumptions"),
            **picked(self.row, "time_s speedup"),
            **picked(self, "boundary_B layers model_sent_B"),
            "run": plain(self.proof),
            "assumptions": plain(self.assumptions),
        }


def tensor_layer(
    shape: Shape, ranks: int, groups: Mapping[int, Levels], flops_per_s: float, *, overlap: str = "gradients",
    sequence_parallel: bool = False, element_B: float = 2.0, proof: Proof | None = None,
    assumptions: tuple[str, ...] = (), params: float | None = None,
) -> TensorLayer:  # fmt: skip
    """The layer on `ranks` ranks; `groups`: the levels of every number of ranks in the sweep, `ranks` among them.

    `flops_per_s` is what a rank's kernels achieve. Raises BadInput where the ranks do not divide the layer.
    """
    levels = {1: ALONE, **groups}
    cuts = {k: _cut(shape, k, levels[k], flops_per_s, sequence_parallel, element_B) for k in levels}
    here, alone = cuts[ranks], cuts[1]
    return TensorLayer(
        shape, ranks, sequence_parallel, overlap, flops_per_s, element_B,
        forward_flops=flops(here.layer.forward),
        backward_flops=flops(here.layer.backward),
        sent_B=here.sent_B,
        weights_B=shape.weight_elems * element_B / ranks,
        kept_B=here.kept_B,
        kept_frac=here.kept_B / alone.kept_B,
        policies=here.policies,
        rows=tuple(_row(cuts[k], overlap, alone) for k in sorted(groups)),
        proof=proof,
        assumptions=assumptions,
        params=params,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Cut:
    """The layer on one number of ranks under every policy; what a rank sends in both passes, and keeps."""

    layer: Layer
    policies: tuple[Policy, ...]
    sent_B: float
    kept_B: float

    def policy(self, overlap: str) -> Policy:
        """That of the name."""
        return next(one for one in self.policies if one.overlap == overlap)


def _cut(
    shape: Shape, ranks: int, levels: Levels, flops_per_s: float, sequence_parallel: bool, element_B: float
) -> _Cut:
    layer = shape.layer(ranks, sequence_parallel)
    moved = traffic.flows(levels, shape.tokens * shape.hidden * element_B, sequence_parallel)
    sent_B = 2.0 * float(traffic.sent_B(moved, ranks))
    return _Cut(layer, policies(layer, moved, flops_per_s), sent_B, kept_B(shape, ranks, sequence_parallel, element_B))


def kept_B(shape: Shape, ranks: int, sequence_parallel: bool, element_B: float) -> float:
    """Bytes that a rank keeps for the backward pass, with fused attention (`describe/workload/activations.py`)."""
    attention = Attention(heads=shape.heads, kv_heads=shape.heads, head_dim=shape.hidden // shape.heads)
    model = Transformer(
        name="layer", layers=1, hidden=shape.hidden, vocab=1, attention=attention, max_positions=shape.seq,
        mlp=Mlp(ffn=shape.ffn, gated=False, activation="gelu"),
    )  # fmt: skip
    piece = Piece(
        micro_batch=shape.batch, seq=shape.seq, tp=ranks, sequence_parallel=sequence_parallel, element_B=element_B
    )
    return float(layer_activation_B(model, piece))


def policies(layer: Layer, moved: tuple[Flow, Flow], flops_per_s: float) -> tuple[Policy, ...]:
    """The layer with the traffic `moved` in each pass, under every overlap policy."""
    passes = layer.forward, layer.backward
    forward_s, backward_s = (flops(parts, core=False) / flops_per_s for parts in passes)
    compute_s = tuple(flops(parts) / flops_per_s for parts in passes)
    found = []
    for overlap in traffic.OVERLAPS:
        sides = traffic.pieces((moved, moved), overlap, (forward_s, backward_s))
        found.append(Policy(overlap, *(_pass(one, time_s) for one, time_s in zip(sides, compute_s, strict=True))))
    return tuple(found)


def _pass(piece: Traffic, compute_s: float) -> LayerPass:
    times = (total_s(piece.flows), piece.exposed_s, piece.hidden_s, piece.slack_s)
    return LayerPass(compute_s, *(float(time_s) for time_s in times))


def _row(cut: _Cut, overlap: str, alone: _Cut) -> Row:
    policy = cut.policy(overlap)
    compute_s, traffic_s, exposed_s = (policy.both_s(name) for name in ("compute_s", "traffic_s", "exposed_s"))
    speedup = alone.policy(overlap).time_s / policy.time_s
    return Row(cut.layer.ranks, compute_s, traffic_s, exposed_s, policy.time_s, speedup, cut.sent_B, cut.kept_B)
