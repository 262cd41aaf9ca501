"""Exact parameter counts by category, by layer, in total, active per token, and on one rank of a layout.

Source: sums over `weights.py`. A tied table counts once. "Active" is what one token passes through: top_k routed
experts of each layer, everything else whole. Multi-token-prediction modules are counted beside the main model, as
DeepSeek-V3 does (671B + MTP). A stored value without gradient (a correction bias) is in the published totals, so it
is in ours; `untrained` says how many there are, and `rank_parameters`, which feeds the optimizer, leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.base.types.plain import Json, picked
from lockstep.describe.workload.architecture import ConvNet, Model, Transformer
from lockstep.describe.workload.convnet import convnet_weights
from lockstep.describe.workload.kind import DENSE, EXPERTS, LayerKind
from lockstep.describe.workload.weight import CATEGORIES, Category, Weight
from lockstep.describe.workload.weights import embedding_weights, head_weights, layer_weights, mtp_weights


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of a model."""

    by_category: dict[Category, int]
    per_dense_layer: int
    """Of one layer of attention and the dense block; 0 when there is none."""
    per_expert_layer: int
    """Of one layer of attention and experts; 0 when there is none."""
    per_layer: tuple[int, ...]
    """Of every layer, in order; empty for images."""
    active: int
    """What one token uses, embedding table and head included."""
    mtp: int
    """Multi-token-prediction modules, not in the total."""
    untrained: int
    """Values without gradients (correction biases) among the total."""

    @property
    def total(self) -> int:
        """Parameters of the main model."""
        return sum(self.by_category.values())

    @property
    def non_embedding(self) -> int:
        """Total without token, segment and position tables (Kaplan et al. 2020); a tied table is left out too."""
        return self.total - self.by_category["embedding"] - self.by_category["positions"]

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "total active non_embedding by_category per_dense_layer per_expert_layer mtp untrained")


def count(weights: Iterable[Weight]) -> int:
    """Elements in `weights`."""
    return sum(weight.elems for weight in weights)


def all_weights(model: Model) -> tuple[Weight, ...]:
    """Every weight of the main model, layer by layer."""
    if isinstance(model, ConvNet):
        return convnet_weights(model)
    layers = (weight for kind in model.kinds for weight in layer_weights(model, kind.stored))
    return (*embedding_weights(model), *layers, *head_weights(model))


def parameters(model: Model) -> ParameterCount:
    """Exact counts of the parameters of `model`."""
    weights = all_weights(model)
    by_category = dict.fromkeys(CATEGORIES, 0)
    for weight in weights:
        by_category[weight.category] += weight.elems
    each: dict[LayerKind, int] = {}
    mtp, kinds = 0, model.kinds if isinstance(model, Transformer) else ()
    if isinstance(model, Transformer):
        each = {kind: count(layer_weights(model, kind)) for kind in {kind.stored for kind in kinds}}
        mtp = model.mtp_layers * count(mtp_weights(model)) if model.mtp_layers else 0
    return ParameterCount(
        by_category=by_category,
        per_dense_layer=each.get(DENSE, 0),
        per_expert_layer=each.get(EXPERTS, 0),
        per_layer=tuple(each[kind.stored] for kind in kinds),
        active=sum(weight.active_elems for weight in weights),
        mtp=mtp,
        untrained=sum(weight.elems for weight in weights if not weight.trained),
    )


@dataclass(frozen=True, slots=True)
class RankParameters:
    """Trained parameters on one rank, in the groups that optimizers and data parallelism distinguish."""

    matrix_elems: Number
    """Matrices of the layers outside routed experts."""
    other_elems: Number
    """Tables, head, norms, biases."""
    expert_elems: Number
    """Routed experts; replicated over fewer ranks than the rest."""

    def __add__(self, other: RankParameters) -> RankParameters:
        return RankParameters(
            self.matrix_elems + other.matrix_elems,
            self.other_elems + other.other_elems,
            self.expert_elems + other.expert_elems,
        )

    def __mul__(self, times: Number) -> RankParameters:
        return RankParameters(self.matrix_elems * times, self.other_elems * times, self.expert_elems * times)

    __rmul__ = __mul__

    @property
    def total_elems(self) -> Number:
        """All parameters on the rank."""
        return self.matrix_elems + self.other_elems + self.expert_elems


def rank_parameters(
    weights: Iterable[Weight],
    tp: Number = 1,
    ep: Number = 1,
    expert_tp: Number | None = None,
    each: Callable[[Weight], float] | None = None,
) -> RankParameters:
    """`weights` as one rank holds them, or `each` of their elements times what it counts; the cuts may be arrays."""
    matrix: Number = 0
    other: Number = 0
    expert: Number = 0
    for weight in weights:
        if not weight.trained:
            continue
        elems = weight.per_rank_elems(tp, ep, expert_tp) * (1 if each is None else each(weight))
        if weight.category == "routed_experts":
            expert = expert + elems
        elif weight.is_matrix and weight.category != "head":
            matrix = matrix + elems
        else:
            other = other + elems
    return RankParameters(matrix, other, expert)
