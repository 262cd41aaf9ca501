"""`Shard`: what one rank holds of a micro-batch, and the work of products and elementwise kernels over it.

Symbols: b sequences per micro-batch, s tokens per sequence, T = b*s/cp tokens on the rank. A product is written
(m, n, k) for m x k by k x n. Everything broadcasts over the layout grid.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number, Truth
from lockstep.describe.workload import Adapters, Transformer
from lockstep.price.kernels.casts import casts
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.layout import LayoutGrid, Recipe, busiest_rank_frac


@dataclass(frozen=True, slots=True)
class Passes:
    """Forward and backward work of a part of the model; adds up."""

    forward: Work
    backward: Work

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def when(self, mask: Truth) -> Passes:
        """This work where `mask` holds, nothing elsewhere."""
        return Passes(self.forward.when(mask), self.backward.when(mask))

    def inside(self, factors: tuple[Number, Number, Number]) -> Passes:
        """The same inside a step (`Work.inside`)."""
        return Passes(self.forward.inside(factors), self.backward.inside(factors))

    @property
    def replayed(self) -> Passes:
        """The same from a CUDA graph, without launches."""
        return Passes(replace(self.forward, kernels=0.0), replace(self.backward, kernels=0.0))


@dataclass(frozen=True)
class Shard:
    """What one rank holds of a micro-batch."""

    model: Transformer
    grid: LayoutGrid
    recipe: Recipe
    clock: Clock

    @cached_property
    def tokens(self) -> Number:
        """T: tokens of a micro-batch on one rank of the context-parallel group."""
        return self.grid.micro_batch * self.recipe.passed_seq / self.grid.cp

    @cached_property
    def loose_tokens(self) -> Number:
        """Tokens in the parts that tensor parallelism leaves whole, unless sequence parallelism shards them."""
        return self.tokens / np.where(self.grid.sequence_parallel > 0, self.grid.tp, 1)

    @cached_property
    def routed_tokens(self) -> Number:
        """Tokens that the busiest rank's experts see, once per choice: those of all ranks that cut them alike."""
        split = (self.grid.sequence_parallel > 0) | (self.grid.tp == 1)
        busiest = busiest_rank_frac(self.model.experts, self.recipe, self.grid)
        return self.tokens * busiest * np.where(split, self.grid.expert_tp / self.grid.tp, 1.0)

    @cached_property
    def expert_rows(self) -> Number:
        """Rows that the experts of the busiest rank see."""
        return self.routed_tokens * (self.model.experts.top_k if self.model.experts else 1)

    @cached_property
    def adapters(self) -> Adapters | None:
        """The adapters as the software puts them on the model."""
        return self.recipe.adapters_on(self.model)

    @property
    def local_experts(self) -> Number:
        """Experts on a rank."""
        return (self.model.experts.experts if self.model.experts else 1) / self.grid.ep

    @cached_property
    def kv_heads(self) -> Number:
        """Key and value heads on a rank; at least one, replicated when there are fewer than ranks."""
        return np.maximum(self.model.attention.kv_heads / self.grid.tp, 1.0)

    def product(self, m: Number, n: Number, k: Number, count: Number = 1) -> Passes:
        """A matrix product with its two gradient products, or the input's alone where the weights are frozen; in narrow
        formats with the casts of input and gradient.
        """
        if self.recipe.adapters is None:
            return self.trained_product(m, n, k, count)
        return self._cast(m, n, k, count) + Passes(self.clock.matmul(m, n, k, count), self.clock.matmul(m, k, n, count))

    def trained_product(self, m: Number, n: Number, k: Number, count: Number = 1) -> Passes:
        """The same of weights that are trained."""
        forward, backward = self.clock.matmul(m, n, k, count), self.clock.matmul_backward(m, n, k, count)
        return self._cast(m, n, k, count) + Passes(forward, backward)

    def _cast(self, m: Number, n: Number, k: Number, count: Number) -> Passes:
        return Passes(*casts(self.clock, self.recipe.scaling, m * k * count, m * n * count, n * k * count))

    def elementwise(self, elements: Number, forward_passes: float, backward_passes: float, kernels: int = 1) -> Passes:
        """A kernel that reads and writes `elements` so many times in either direction."""
        size_B, software = elements * self.clock.element_B, self.clock.elementwise
        return Passes(software(size_B * forward_passes, kernels), software(size_B * backward_passes, kernels))

    def operations(
        self, elements: Number, forward_passes: Number, backward_passes: Number, there: Number = 1, back: Number = 1
    ) -> Passes:
        """So many operations of PyTorch in either pass that read and write `elements` so many times in all."""
        size_B, apart = elements * self.clock.element_B, self.clock.operations
        return Passes(apart(size_B * forward_passes, there), apart(size_B * backward_passes, back))
