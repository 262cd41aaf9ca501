"""Random-k: k entries drawn without replacement; unbiased when scaled by d / k.

    C(x)_i = (d / k) x_i for i drawn, else 0                 omega = d / k - 1, for every x with equality
    C(x)_i = x_i                      (unscaled)             q = k / d, in expectation
    payload = k values, and k indices unless the ranks share the draw
k = keep_frac d, rounded. With a shared draw (equal generators on all ranks) no index travels and payloads add, but the
errors of the ranks add too: the mean of n has omega, where independent draws have omega / n on equal vectors.

Source: Wangni et al., "Gradient sparsification for communication-efficient distributed optimization", NeurIPS 2018;
Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018, definition 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.base.settings import setting
from lockstep.learn.methods.arrays import Array, cast, flat, ieee, namespace, place
from lockstep.learn.methods.compression.compressor import Payload, State, kept_elems
from lockstep.learn.methods.compression.top_k import Sparsifier, scattered


@dataclass(frozen=True, slots=True)
class RandomK(Sparsifier):
    """Keeps a share of the entries, drawn anew each time; each rank draws its own."""

    name: ClassVar[str] = "random-k"
    summary: ClassVar[str] = "entries drawn by each worker"
    with_feedback: ClassVar[Mapping[str, Any] | None] = {"scaled": False}
    source: ClassVar[str] = "Wangni et al. 2018; Stich et al. 2018"
    scaled: bool = setting(True, "Whether what travels makes up for what does not.")
    """Whether to multiply by d / k, which makes it unbiased."""

    @property
    def unbiased(self) -> bool:
        """When scaled."""
        return self.scaled

    def variance_factor(self, num_elems: int) -> float | None:
        """d / k - 1."""
        return num_elems / kept_elems(self.keep_frac, num_elems) - 1 if self.scaled else None

    def contraction_frac(self, num_elems: int) -> float | None:
        """k / d unscaled; 2 - d / k scaled, where that is positive."""
        kept = kept_elems(self.keep_frac, num_elems)
        if not self.scaled:
            return kept / num_elems
        return 2 - num_elems / kept if 2 * kept > num_elems else None

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Scaled values and their indices."""
        entries = flat(vector)
        indices = self.drawn(entries, generator)
        values = self.factor(len(entries)) * entries[indices]
        return Payload((values, cast(indices, f"int{self.index_bits}")), len(entries)), state

    def drawn(self, entries: Array, generator: Generator) -> Array:
        """Ascending indices [kept] of the entries [elems] that are sent."""
        count = kept_elems(self.keep_frac, len(entries))
        chosen = generator.choice(len(entries), count, replace=False)
        chosen.sort()
        return namespace(entries).asarray(chosen, **place(entries))

    def factor(self, num_elems: int) -> float:
        """What the values are multiplied by."""
        return num_elems / kept_elems(self.keep_frac, num_elems) if self.scaled else 1.0


@dataclass(frozen=True, slots=True)
class SharedRandomK(RandomK):
    """Random-k with one draw for all ranks, whose generators must be equal."""

    name: ClassVar[str] = "shared-random-k"
    summary: ClassVar[str] = "the same random entries on all workers, no indices"
    summable: ClassVar[bool] = True

    def size_B(self, num_elems: int, value_B: int = 4) -> float:
        """k values."""
        return kept_elems(self.keep_frac, num_elems) * value_B

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """Scaled values; the indices are known."""
        entries = flat(vector)
        indices = self.drawn(entries, generator)
        return Payload((self.factor(len(entries)) * entries[indices],), len(entries), shared=indices), state

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """Zeros where nothing was drawn."""
        return scattered(payload.arrays[0], payload.shared, payload.num_elems)
