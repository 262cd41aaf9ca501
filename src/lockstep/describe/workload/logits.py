"""What the loss keeps of the head: logits, whole or in pieces, and the gradients that some losses make themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.operation import Spread
from lockstep.describe.workload.piece import FP32_B, FULL, Piece

TILE = 4096, 32768
"""Tokens and columns of logits that a tiled loss has at a time."""
GRADIENT_B = {"chunked": 0.0, "tiled": FP32_B}
"""Losses that make the head's gradients themselves, and bytes of each of their numbers; 0 for those of activations."""


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """One tensor that waits for the backward pass."""

    name: str
    size_B: Number
    """Bytes on one rank."""
    spread: Spread
    """How the layout cuts it (`piece.py`)."""
    kept_up_to: int
    """The strongest recompute mode (a code of recompute.py) that still keeps it."""


def logits(model: Transformer, piece: Piece, logit_B: Number, loss: str = "whole") -> Iterator[KeptTensor]:
    """Logits, cut by vocabulary, the last rank's share rounded up; whole for images and classifiers."""
    if model.patches is not None:
        yield KeptTensor("logits", piece.tokens * model.patches.logits() * logit_B, "sequence", FULL)
    if model.classifier is not None:
        labels = model.classifier.logits(piece.seq)
        yield KeptTensor("label logits", piece.tokens * labels * logit_B, "sequence", FULL)
    if not model.has_head:
        return
    columns = -(-model.vocab // piece.tp)
    if loss not in GRADIENT_B:
        yield KeptTensor("logits", piece.tokens * columns * logit_B, "tp", FULL)
        return
    if loss == "tiled":
        yield from _tile(model, piece, columns)
    else:
        at_once = piece.tokens * columns * logit_B * min(1.0, model.hidden / model.vocab)
        yield KeptTensor("logits", at_once, "tp", FULL)
    gradient_B: Number = GRADIENT_B[loss] or piece.element_B
    # Sums in fp32 are then copied to the format of what they are gradients of.
    copied = np.logical_not(piece.wide_stream) * (loss == "tiled" and piece.element_B < FP32_B)
    gradient_B = gradient_B + piece.element_B * copied
    yield KeptTensor("head input gradient", piece.tokens * model.hidden * gradient_B, "sequence", FULL)
    if piece.adapters is None or "lm_head" in piece.adapters.saved:
        yield KeptTensor("head weight gradient", columns * model.hidden * gradient_B, "tp", FULL)


def _tile(model: Transformer, piece: Piece, columns: Number) -> Iterator[KeptTensor]:
    """A tile of logits, as wide for a smaller vocabulary, and casts of what an fp32 stream and head give to it."""
    rows = np.minimum(piece.tokens, TILE[0])
    yield KeptTensor("logits", rows * TILE[1] * piece.element_B, "tp", FULL)
    if np.any(piece.wide_stream):
        row_B = model.hidden * piece.element_B * piece.wide_stream
        yield KeptTensor("casts for a tile", (rows + np.minimum(columns, TILE[1])) * row_B, "tp", FULL)
        # Backward the one before waits while the next is made.
        next_B = np.minimum(np.maximum(columns - TILE[1], 0), TILE[1]) * row_B
        yield KeptTensor("next cast for a gradient", next_B, "tp", FULL)
        wider_B = piece.tokens * model.hidden * (FP32_B - piece.element_B)
        yield KeptTensor("head input in fp32", wider_B * piece.wide_stream, "tp", FULL)
