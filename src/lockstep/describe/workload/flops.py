"""Forward, backward and recomputed FLOPs per token, by component: two per multiply-accumulate of every product.

    forward_flops(model, seq)                      a token's share of one forward pass
    training_flops(model, seq, recompute="full")   forward, backward = 2 x forward, recomputed

Projections: 2 x the elements of every matrix that the token uses (`weights.py`). Attention core: 2 keys (d_qk + d_v)
per head, where keys is the mean number of keys per query:

    counting "full":    min(s, w)            every query against every key, as most published tables count
    counting "causal":  w - w^2 / (2s)       with w = min(window, s); s/2 without a window
                        w / 2                where windows are chunks that begin together

Symbols: s tokens per sequence, w attention window. Norms, softmax, rotary embedding and activation functions are not
counted, by the convention of the field. Attention in both directions, or over an encoder's output, is never halved.
Products made once per sequence or image (`Weight.per_sequence`) count for each of its tokens by a share 1/s.
Source: Narayanan et al. 2021 (arXiv 2104.04473), appendix; Korthikanti et al. 2022 (arXiv 2205.05198), appendix A.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from lockstep.base.records import dataclass, fields
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked
from lockstep.describe.workload.adapters import Adapters
from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.checks import one_of
from lockstep.describe.workload.graph import layer_operations, run_again
from lockstep.describe.workload.kind import DENSE, LayerKind
from lockstep.describe.workload.objective import FULL_TRAINING, PLAIN, Objective, Training
from lockstep.describe.workload.piece import FULL, SELECTIVE, Recompute, recompute_code
from lockstep.describe.workload.weight import Category, Weight
from lockstep.describe.workload.weights import embedding_weights, head_weights, layer_weights

COUNTINGS = ("full", "causal")


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOPs of one token by component. Adds up; scales by a count."""

    embedding: Number = 0
    """Projection of the patches of an image; of text nothing, as tables are looked up."""
    attention_projections: Number = 0
    attention_core: Number = 0
    recurrent_projections: Number = 0
    recurrent_core: Number = 0
    """Short convolution and scan, in chunks (`recurrent/`)."""
    mlp: Number = 0
    modulation: Number = 0
    """Shift, scale and gate of every block, from a conditioning vector."""
    router: Number = 0
    routed_experts: Number = 0
    shared_experts: Number = 0
    head: Number = 0
    mtp: Number = 0
    """Multi-token-prediction modules, their heads included."""

    def __add__(self, other: Flops) -> Flops:
        return Flops(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __mul__(self, times: Number) -> Flops:
        return Flops(*(getattr(self, each.name) * times for each in fields(self)))

    __rmul__ = __mul__

    @property
    def total(self) -> Number:
        """All components."""
        total: Number = sum(getattr(self, each.name) for each in fields(self))
        return total

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self) | {"total": self.total}


@dataclass(frozen=True, slots=True)
class TrainingFlops:
    """FLOPs per token of one training step."""

    forward: Flops
    recomputed: Flops
    """Parts of the forward pass that run again during the backward pass."""
    adapters: Number | None = None
    """Forward FLOPs of adapters beside frozen weights; None where all weights are trained."""
    adapter_gradients: int = 2
    """Products of their backward pass for each of the forward pass."""
    objective: Objective = PLAIN
    """Passes of a token through models of this shape."""
    summed: bool = False
    """Adapters are added to the matrices of experts, whose gradients are computed then, though they are frozen."""

    @property
    def backward(self) -> Flops:
        """Gradients of inputs and of weights: twice the forward pass. Where weights are frozen, of inputs alone, which
        doubles the attention core all the same.
        """
        if self.adapters is None:
            return self.forward * 2
        experts = self.forward.routed_experts * self.summed
        cores = Flops(attention_core=self.forward.attention_core, recurrent_core=self.forward.recurrent_core)
        return self.forward + cores + Flops(routed_experts=experts)

    @property
    def model(self) -> Number:
        """What the model needs, whatever the implementation: the numerator of MFU."""
        forwards, backwards = self.objective.forwards, self.objective.models
        adapted = (forwards - self.objective.bare + self.adapter_gradients * backwards) * (self.adapters or 0)
        return forwards * self.forward.total + backwards * self.backward.total + adapted

    @property
    def hardware(self) -> Number:
        """What is executed, recomputation included: the numerator of HFU."""
        return self.model + self.objective.models * self.recomputed.total


def keys_per_query(
    seq: Number, window: int | None, causal: bool, counting: str = "full", chunked: bool = False
) -> Number:
    """Mean number of keys that a query meets, by the `counting` of the module's head."""
    one_of("flops", "counting", counting, COUNTINGS)
    reach = seq if window is None else np.minimum(window, seq)
    if counting == "full" or not causal:
        return reach
    if chunked and window is not None:
        return reach / 2
    return reach - reach * reach / (2 * seq)


def layer_forward_flops(model: Transformer, seq: Number, kind: LayerKind = DENSE, counting: str = "full") -> Flops:
    """FLOPs per token of one layer of a kind, forward."""
    weights = layer_weights(model, kind.stored)
    recurrent = model.recurrent if kind.mixer == "recurrent" else None
    return Flops(
        attention_projections=_matmul(weights, "attention"),
        attention_core=_core(model, seq, kind, counting) if kind.attends else 0,
        recurrent_projections=_matmul(weights, "recurrent"),
        recurrent_core=recurrent.core_flops(seq, counting) if recurrent else 0,
        mlp=_matmul(weights, "mlp"),
        modulation=_once(weights, seq),
        router=_matmul(weights, "router"),
        routed_experts=_matmul(weights, "routed_experts"),
        shared_experts=_matmul(weights, "shared_experts"),
    )


def head_forward_flops(model: Transformer, seq: Number) -> Flops:
    """FLOPs per token of the projection onto the vocabulary (also when tied), MLM head, pooler; of an image's head."""
    flops: Number = 2 * model.hidden * model.vocab if model.has_head else 0
    for weight in head_weights(model):
        if weight.is_matrix and weight.name != "head":
            flops = flops + 2 * weight.elems / (seq if weight.per_sequence else 1)
    return Flops(head=flops)


def embedding_forward_flops(model: Transformer, seq: Number) -> Flops:
    """FLOPs per token of what makes tokens out of an image, and a vector of what conditions it."""
    if model.patches is None:
        return Flops()
    projected = 2 * model.hidden * model.patches.values * model.patches.share
    return Flops(embedding=projected + _once(embedding_weights(model), seq))


def forward_flops(model: Transformer, seq: Number, counting: str = "full") -> Flops:
    """FLOPs per token of one forward pass; `seq` may be an array."""
    ends = embedding_forward_flops(model, seq) + head_forward_flops(model, seq)
    return _layers(model, seq, counting) + ends + _mtp(model, seq, counting)


def training_flops(
    model: Transformer,
    seq: Number,
    counting: str = "full",
    recompute: Recompute = "none",
    modules: Sequence[str] = ("core_attn",),
    training: Training = FULL_TRAINING,
) -> TrainingFlops:
    """FLOPs per token of forward, backward and recomputation; `seq` and `recompute` may be arrays.

    Beside adapters, which `training` may name, all other weights are frozen.

    Selective recomputation runs the products of `modules` again, full recomputation every layer but not the head.
    """
    code, layers, some = recompute_code(recompute), Flops(), Flops()
    kinds = Counter([*model.kinds, *model.kinds[-1:] * model.mtp_layers])
    for kind, times in kinds.items():
        layers = layers + layer_forward_flops(model, seq, kind, counting) * times
        some = some + _again(model, seq, kind, counting, modules) * times
    again = some * (code == SELECTIVE) + layers * (code == FULL)
    adapters = training.adapters
    beside = None if adapters is None else _adapter_flops(model, adapters)
    again = again + Flops(mlp=(beside or 0) * (code == FULL))
    summed = adapters is not None and bool(_fold_flops(model, adapters))
    gradients = 2 if adapters is None else adapters.method.gradients
    return TrainingFlops(forward_flops(model, seq, counting), again, beside, gradients, training.objective, summed)


def fold_flops(model: Transformer, training: Training) -> Number:
    """FLOPs of adding adapters to the matrices of all experts once, whatever the tokens."""
    return 0 if training.adapters is None else _fold_flops(model, training.adapters)


def _fold_flops(model: Transformer, adapters: Adapters) -> int:
    stored = Counter(kind.stored for kind in model.kinds)
    return sum(
        2 * one.elems * adapters.rank_of(one) * times
        for kind, times in stored.items()
        for one in layer_weights(model, kind)
        if adapters.sums(one)
    )


def _adapter_flops(model: Transformer, adapters: Adapters) -> int:
    """Forward FLOPs per token of the adapters of all layers."""
    stored = Counter(kind.stored for kind in model.kinds)
    return sum(2 * adapters.products(layer_weights(model, kind)) * times for kind, times in stored.items())


def _matmul(weights: Iterable[Weight], category: Category) -> int:
    """2 per element of every matrix of `category` that a token uses."""
    return sum(2 * weight.active_elems for weight in weights if weight.category == category and weight.is_matrix)


def _once(weights: Iterable[Weight], seq: Number) -> Number:
    """2 per element of every matrix whose product is made once per sequence, shared by its tokens."""
    elems = sum(weight.elems for weight in weights if weight.per_sequence)
    return 2 * elems / seq if elems else 0


def _again(model: Transformer, seq: Number, kind: LayerKind, counting: str, modules: Sequence[str]) -> Flops:
    """Of a layer, what selective recomputation of `modules` runs again."""
    again = run_again(layer_operations(model, kind), modules)
    products: Counter[str] = Counter()
    for one in again:
        if one.weight is not None:
            products[one.weight.category] += 2 * one.weight.active_elems
    core = any(one.does == "core" for one in again)
    return Flops(
        attention_projections=products["attention"],
        attention_core=_core(model, seq, kind, counting) if core else 0,
        mlp=products["mlp"],
        router=products["router"],
        routed_experts=products["routed_experts"],
        shared_experts=products["shared_experts"],
    )


def _core(model: Transformer, seq: Number, kind: LayerKind, counting: str) -> Number:
    """Scores and weighted values: 2 keys (d_qk + d_v) per head; over an encoder's output, all of its tokens."""
    attention, causal = model.attention, model.masks(kind)
    keys = keys_per_query(seq, kind.window or None, causal, counting, attention.chunked)
    if kind.crosses:
        keys = keys + seq
    return 2 * keys * (attention.query_width + attention.out_width)


def _layers(model: Transformer, seq: Number, counting: str) -> Flops:
    """All layers of the main model; layers of one kind are counted once and multiplied."""
    total = Flops()
    for kind, times in Counter(model.kinds).items():
        total = total + layer_forward_flops(model, seq, kind, counting) * times
    return total


def _mtp_layers(model: Transformer, seq: Number, counting: str) -> Flops:
    """The transformer layers of the multi-token-prediction modules."""
    return layer_forward_flops(model, seq, model.kinds[-1], counting) * model.mtp_layers


def _mtp(model: Transformer, seq: Number, counting: str) -> Flops:
    """Multi-token-prediction modules whole: joint projection (2h x h), layer, head."""
    if not model.mtp_layers:
        return Flops()
    joint = 2 * 2 * model.hidden**2 * model.mtp_layers
    heads = head_forward_flops(model, seq).total * model.mtp_layers
    return Flops(mtp=joint + heads + _mtp_layers(model, seq, counting).total)
