"""`Modules`: which matrices of a model are linear layers of their own in transformers' classes, as adapters find them.

Source: `modules.toml`, by `model_type`.
"""

from __future__ import annotations

from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json

JOINT = {"qkv": ("query", "key", "value"), "gate_up": ("gate", "up"), "shared_gate_up": ("shared gate", "shared up")}
"""Matrices that may be one linear layer; its adapter has one A."""


@dataclass(frozen=True, slots=True)
class Modules:
    """What adapters find in a class of models."""

    joint: tuple[str, ...] = ()
    """Keys of JOINT."""
    experts: str = "apart"
    """Each expert's matrix is a linear layer (apart), or all experts' are one parameter: adapters are added to it
    (summed), or do not reach it (unreached)."""
    router: bool = False
    """Adapters on all linear layers are on the router too."""
    wide_router: bool = False
    """The router reads an fp32 copy, and weighs what experts give in fp32."""
    wide_norms: bool = False
    """Norms multiply by their weights in fp32."""
    centred_norms: bool = False
    """LayerNorm is written out: what is less its mean twice, and what it is scaled to, wait in fp32."""
    copied_norms: bool = False
    """LayerNorm reads an fp32 copy."""
    own_scores: bool = False
    """Attention that is written out takes the softmax of scores in their format, not in fp32."""
    copied_heads: bool = False
    """What a joint product makes is copied head by head, and nothing keeps the product."""
    flat_experts: bool = False
    """Each matrix of a layer's experts is one of two dimensions, expert after expert."""
    delta: str = ""
    """What a gated delta net reads its input through: two matrices (two), or one for each of what it makes but queries,
    keys and values (four)."""

    @property
    def of_linear_layers(self) -> Modules:
        """The same of adapters that are on linear layers alone, never on parameters of other modules."""
        summed = self.experts == "summed"
        return replace(self, experts="unreached" if summed else self.experts, router=self.router and not summed)


SEPARATE = Modules()
"""Of a class that is not known: a linear layer for every matrix."""


@cache
def modules_of(model_type: str, release: int = 5) -> Modules:
    """What adapters find in models of a type of a release of transformers; a type that is not known has a linear layer
    for every matrix.
    """
    joint, listed = tuple(_table()["joint"].get(model_type, ())), _table()["experts"]
    kinds = [kind for kind in ("summed", "unreached") if model_type in listed[kind]]
    norms = {f"{word}_norms": model_type in types for word, types in _table()["norms"].items()}
    delta = next((word for word, types in _table()["delta"].items() if model_type in types), "")
    if release < 5:
        reached = not kinds or model_type in listed["linear_4"]
        return Modules(joint, "apart" if reached else kinds[0], model_type in listed["routers_4"], delta=delta)
    experts = next(iter(kinds), "apart")
    router = experts == "summed" or model_type in listed["routers"]
    flat, wide = model_type in listed["flat"], model_type in listed["wide"]
    own, copied = model_type in _table()["scores"]["own"], model_type in _table()["heads"]["copied"]
    return Modules(
        joint, experts, router, wide, own_scores=own, copied_heads=copied, flat_experts=flat, delta=delta, **norms
    )


def model_type(name: str) -> str:
    """The `model_type` of a model of the catalog; nothing where it is not known."""
    types = _table()["types"]
    return str(types[max(fitting, key=len)]) if (fitting := [one for one in types if name.startswith(one)]) else ""


def _table() -> Json:
    return shipped_table("lockstep.describe.workload", "modules.toml")


def never_fused(model_type: str, heads: int, kv_heads: int) -> bool:
    """Whether the class in transformers runs no fused kernel of attention, whatever it is told.

    Falcon with one key head hands it to torch's scaled_dot_product_attention without `enable_gqa`, so that no fused
    kernel takes it (transformers 5.24.0, models/falcon/modeling_falcon.py; `findings/`).
    """
    return model_type == "falcon" and heads > kv_heads == 1
