"""`Layers`: the backward pass as overlap sees it: seconds and gradient bytes per layer, and the buckets they fall into.

Layers are listed in the order of the forward pass; gradients become ready in the reverse order. PyTorch's rule for
buckets of `bucket_B`: gradients join in the order in which they become ready, and a bucket closes as soon as it holds
at least bucket_B; a layer is never cut.

Source: S. Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 13(12), 2020,
section 3.2.3; compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Layers:
    """Per layer, forward order: seconds of the backward pass, bytes of gradients; and seconds before it starts."""

    backward_s: tuple[float, ...]
    gradient_B: tuple[float, ...]
    forward_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.backward_s or len(self.backward_s) != len(self.gradient_B):
            raise BadInput(
                f"{len(self.backward_s)} backward times for {len(self.gradient_B)} gradients: one of each per layer",
                "layers",
            )
        for name, values in (("backward_s", self.backward_s), ("gradient_B", self.gradient_B)):
            if not (np.isfinite(values).all() and np.min(values) >= 0):
                raise BadInput(f"{name} must be finite and not negative, got {min(values)}", "layers")
        if not 0 <= self.forward_s < np.inf:
            raise BadInput(f"forward_s must be finite and not negative, got {self.forward_s}", "layers")

    @staticmethod
    def equal(number: int, backward_s: float, gradient_B: float, forward_s: float = 0.0) -> Layers:
        """`number` equal layers that together take backward_s and hold gradient_B."""
        if number < 1:
            raise BadInput(f"the number of layers must be at least 1, got {number}", "layers")
        return Layers((backward_s / number,) * number, (gradient_B / number,) * number, forward_s)

    def buckets(self, bucket_B: float) -> tuple[int, ...]:
        """Layers per bucket in the order in which buckets become ready; the first one holds the last layers."""
        if not bucket_B > 0:
            raise BadInput(f"bucket_B must be above 0, got {bucket_B}", "bucket_B")
        counts, held, count = [], 0.0, 0
        for gradient_B in reversed(self.gradient_B):
            held, count = held + gradient_B, count + 1
            # A hair below, so that ten tenths of a megabyte are a megabyte.
            if held >= bucket_B * (1 - 1e-12):
                counts.append(count)
                held, count = 0.0, 0
        return tuple(counts + ([count] if count else []))

    def in_buckets(self, counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(seconds of backward work [buckets], bytes [buckets]) of buckets of `counts` layers."""
        if sum(counts) != len(self.backward_s) or min(counts, default=0) < 1:
            raise BadInput(f"buckets of {tuple(counts)} layers do not make {len(self.backward_s)} layers", "buckets")
        edges = np.concatenate(([0], np.cumsum(counts)))[:-1]
        work_s, size_B = np.array(self.backward_s[::-1]), np.array(self.gradient_B[::-1])
        return np.add.reduceat(work_s, edges), np.add.reduceat(size_B, edges)
