"""`Shape`: the sizes of one transformer layer and its micro-batch, and the layer and weights they give.

    weights            4 h^2 + 2 h f       queries, keys, values and output of attention; feed-forward in and out
    products           2 T (4 h^2 + 2 h f) FLOPs forward, twice that backward
    attention's core   4 T s h             FLOPs forward, twice that backward; causal scores counted in full

T = b s tokens, b sequences, s tokens each, h hidden, f feed-forward width.
Source: D. Narayanan et al., SC 2021, appendix (FLOPs).
"""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.simulate.parallel.tensor.block import block
from lockstep.simulate.parallel.tensor.layer import Layer, Local, Part, check_divides


@dataclass(frozen=True, slots=True)
class Shape:
    """`batch` sequences of `seq` tokens through a layer of width `hidden`; the feed-forward block is not gated."""

    batch: int
    seq: int
    hidden: int
    heads: int
    ffn: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise BadInput(f"must be at least 1, got {getattr(self, name)}", name)
        if self.hidden % self.heads:
            raise BadInput(f"{self.heads} heads do not divide a width of {self.hidden}", "heads")

    @property
    def tokens(self) -> int:
        """T: tokens of the micro-batch."""
        return self.batch * self.seq

    @property
    def weights(self) -> dict[str, tuple[int, int]]:
        """Name and shape of every weight."""
        h, f = self.hidden, self.ffn
        return {"qkv": (h, 3 * h), "attention_out": (h, h), "mlp_in": (h, f), "mlp_out": (f, h)}

    @property
    def weight_elems(self) -> int:
        """Elements of all weights."""
        return sum(inputs * outputs for inputs, outputs in self.weights.values())

    def layer(self, ranks: int, sequence_parallel: bool = False) -> Layer:
        """The layer on `ranks` ranks. Raises BadInput where they do not divide it."""
        check_divides(ranks, **self._cut(sequence_parallel))
        return block(**self.to_dict(), ranks=ranks, sequence_parallel=sequence_parallel)

    def splits_over(self, ranks: int, sequence_parallel: bool = False) -> bool:
        """Whether `ranks` ranks divide what they cut."""
        return not any(size % ranks for size in self._cut(sequence_parallel).values())

    def _cut(self, sequence_parallel: bool) -> dict[str, int]:
        """What the ranks divide among them."""
        return {"heads": self.heads, "ffn": self.ffn, **({"tokens": self.tokens} if sequence_parallel else {})}

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def flops(parts: tuple[Part, ...], *, core: bool | None = None) -> float:
    """FLOPs of one rank in `parts`; of attention's core alone, or of the products alone, where `core` says so."""
    computing = (part for part in parts if isinstance(part, Local))
    return sum(part.flops for part in computing if core is None or part.core is core)
