"""`Weight`: one kind of weight tensor of a model, and how a layout cuts it."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number

Category = Literal[
    "embedding",
    "positions",
    "attention",
    "recurrent",
    "mlp",
    "router",
    "routed_experts",
    "shared_experts",
    "norms",
    "head",
]
CATEGORIES: tuple[Category, ...] = (
    "embedding", "positions", "attention", "recurrent", "mlp", "router", "routed_experts", "shared_experts", "norms",
    "head",
)  # fmt: skip
Cut = Literal["tensor", "kv", "vocab", "expert", "none"]


@dataclass(frozen=True, slots=True)
class Weight:
    """One kind of weight tensor. `copies` tensors of `shape`; each token uses `used` of the copies."""

    name: str
    category: Category
    shape: tuple[int, ...]
    cut: Cut = "none"
    copies: int = 1
    used: int = 1
    kv_heads: int = 1
    """For cut "kv": the most ways in which it can be cut."""
    per_sequence: bool = False
    """True for a matrix whose product is made once per sequence or image, not for every token."""
    trained: bool = True
    """False for values that are stored but get no gradient."""

    @property
    def elems(self) -> int:
        """Elements in all copies."""
        return self.copies * math.prod(self.shape)

    @property
    def active_elems(self) -> int:
        """Elements in the copies that one token uses."""
        return self.used * math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether it takes part in a matrix product with every token (embedding tables are looked up instead)."""
        return len(self.shape) == 2 and self.category not in ("embedding", "positions")

    def ways(self, tp: Number = 1, expert_tp: Number | None = None) -> Number:
        """Ways in which a tp layout cuts one copy; `expert_tp` cuts inside an expert, None means like tp."""
        return ways(self.cut, self.kv_heads, tp, expert_tp)

    def per_rank_elems(self, tp: Number = 1, ep: Number = 1, expert_tp: Number | None = None) -> Number:
        """Elements on one rank of a tp x ep layout. `expert_tp` cuts inside an expert; None means like tp."""
        if self.cut == "none":
            return self.elems
        if self.cut == "vocab":
            return -(-self.shape[0] // tp) * (self.elems // self.shape[0])
        return self.elems / (self.ways(tp, expert_tp) * (ep if self.cut == "expert" else 1))


def ways(cut: Cut, kv_heads: int, tp: Number, expert_tp: Number | None = None) -> Number:
    """Ways in which a tp layout cuts a tensor of such a `cut`."""
    if cut == "expert":
        return tp if expert_tp is None else expert_tp
    if cut == "kv":
        return np.minimum(tp, kv_heads)
    return 1 if cut == "none" else tp
