"""`Modulation`: norms whose scale and shift, and blocks whose weight, follow from a conditioning vector (adaLN-Zero).

    c = embedding of the time step + embedding of the label          one vector per image
    (shift, scale, gate) for attention and for the feed-forward block = W silu(c),  W: h x 6h
    x <- x + gate block(norm(x) (1 + scale) + shift)

The norms have no weights of their own. All products here are made once per image. The gradient of a gate needs what its
block gives, and that of a scale the norm's output, which a fused kernel makes again.

Source: Peebles and Xie 2022 (arXiv 2212.09748), section 3.2; facebookresearch/DiT, models.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.base.records import dataclass
from lockstep.describe.workload.checks import LIMITS, flags, whole
from lockstep.describe.workload.piece import Piece, Row
from lockstep.describe.workload.weight import Category, Weight

PER_LAYER = 6
"""Vectors for a layer: shift, scale and gate for each of two blocks."""
AT_THE_END = 2
"""Vectors for the final norm: shift and scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modulation:
    """What every layer takes from a time step and a label."""

    frequencies: int = 256
    """Waves in which a time step is written."""
    labels: int = 0
    """Rows of the table of labels, that of no label included; 0 without labels."""
    own: bool = False
    """Every layer embeds time step and label for itself (diffusers), instead of the model once for all."""

    def __post_init__(self) -> None:
        whole("modulation", "frequencies", self.frequencies, LIMITS["hidden"])
        whole("modulation", "labels", self.labels, LIMITS["vocab"], 0)
        flags("modulation", self, "own")

    def embedders(self, hidden: int) -> Iterator[Weight]:
        """What makes the conditioning vector."""
        yield from _linear("time step in", "norms", self.frequencies, hidden)
        yield from _linear("time step out", "norms", hidden, hidden)
        if self.labels:
            yield Weight("label embedding", "embedding", (self.labels, hidden))

    def layer_weights(self, hidden: int) -> Iterator[Weight]:
        """What makes a layer's vectors of it."""
        if self.own:
            yield from self.embedders(hidden)
        yield from _linear("modulation", "norms", hidden, PER_LAYER * hidden)

    def head_weights(self, hidden: int) -> Iterator[Weight]:
        """The same of the final norm."""
        yield from _linear("final modulation", "head", hidden, AT_THE_END * hidden)

    def rows(self, hidden: int, piece: Piece) -> Iterator[Row]:
        """What a layer keeps more than one without; nothing where the vectors are frozen. Left out: the vectors."""
        if piece.adapters is not None:
            return
        for block in ("attention", "mlp"):
            yield Row(f"gated {block} output", hidden * piece.element_B, "sequence")
            if not piece.fused_elementwise:
                yield Row(f"scaled {block} norm", hidden * piece.element_B, "sequence", piece.kept_up_to("layernorm"))


def _linear(name: str, category: Category, inputs: int, outputs: int) -> Iterator[Weight]:
    yield Weight(name, category, (inputs, outputs), per_sequence=True)
    yield Weight(f"{name} bias", category, (outputs,))
