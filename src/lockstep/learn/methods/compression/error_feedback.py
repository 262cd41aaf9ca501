"""Error feedback: what a compressor drops is added to the next vector, so that nothing is lost, only late.

    p = g + e;   c = C(p);   e <- p - c                      sum of c = sum of g - e, exactly in real numbers
It makes the accumulated update right; a single payload stays biased. The residual of a q-contractive C stays bounded
by |e|^2 <= (4 (1 - q) / q^2) max |g|^2, and a step size multiplies what is late: change it slowly. The variant e = g
- C(g), g' = g + e forgets the older residuals: an entry that is never the largest is never sent.

An unbiased compressor with omega >= 1 is no contraction and must be divided by 1 + omega first (`scaled_down`).

Sources: Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; Karimireddy, Rebjock, Stich, Jaggi,
"Error feedback fixes SignSGD", ICML 2019, algorithm 2 and lemma 3 (bound).
"""

from __future__ import annotations

from typing import Any

from numpy.random import Generator

from lockstep.base.records import dataclass
from lockstep.learn.methods.arrays import Array, ieee, namespace
from lockstep.learn.methods.compression.compressor import Compressor, Payload, State


@dataclass(frozen=True, slots=True)
class ErrorFeedback(Compressor):
    """A compressor with memory. State: (residual, state of the inner compressor)."""

    inner: Compressor
    scaled_down: bool = False
    """Whether to divide by 1 + omega what the inner compressor makes."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """The inner one's, with a mark."""
        return f"{self.inner.name}+ef"

    @property
    def source(self) -> str:  # type: ignore[override]
        """Both."""
        return f"{self.inner.source}; Karimireddy et al. 2019"

    @property
    def summable(self) -> bool:  # type: ignore[override]
        """As the inner one."""
        return self.inner.summable

    def contraction_frac(self, num_elems: int) -> float | None:
        """q of one payload: the inner one's, or 1 / (1 + omega) when scaled down."""
        omega = self.inner.variance_factor(num_elems)
        return 1 / (1 + omega) if self.scaled_down and omega is not None else self.inner.contraction_frac(num_elems)

    def size_B(self, num_elems: int, value_B: int = 4) -> float | None:
        """As the inner one: the residual stays at home."""
        return self.inner.size_B(num_elems, value_B)

    def start(self, vector: Array) -> State:
        """Nothing is late yet."""
        return namespace(vector).zeros_like(vector), self.inner.start(vector)

    @ieee
    def agree(self, vector: Array, state: State) -> Array | None:
        """What the inner compressor wants agreed, for the corrected vector."""
        residual, inner = state
        return self.inner.agree(vector + residual, inner)

    @ieee
    def compress(
        self, vector: Array, state: State, generator: Generator, agreed: Array | None = None
    ) -> tuple[Payload, State]:
        """The payload of the corrected vector, and what it misses."""
        residual, inner = state
        corrected = vector + residual
        payload, inner = self.inner.compress(corrected, inner, generator, agreed)
        return payload, (corrected - self.decompress(payload).reshape(corrected.shape), inner)

    @ieee
    def decompress(self, payload: Payload) -> Array:
        """As the inner one, divided by 1 + omega when scaled down."""
        vector = self.inner.decompress(payload)
        omega = self.inner.variance_factor(payload.num_elems) if self.scaled_down else None
        return vector if omega is None else vector / (1 + omega)

    def settle(self, state: State, mean: Payload) -> State:
        """The residual stays; the inner state settles."""
        residual, inner = state
        return residual, self.inner.settle(inner, mean)


def residual_bound(contraction_frac: float, largest_norm: Any) -> Any:
    """|e|^2 at most, for gradients no longer than `largest_norm`: 4 (1 - q) / q^2 times its square."""
    return 4 * (1 - contraction_frac) / contraction_frac**2 * largest_norm**2
