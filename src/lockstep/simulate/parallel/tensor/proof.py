"""`prove(...)`: the layer is run on numpy, on all ranks in process and on one rank, and the two are compared.

Every array of both runs is compared: the output, the gradient of the input and those of all weights. The error is the
largest difference over the largest entry of the same array. Messages are counted as they are sent and held against the
bytes that are priced.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked
from lockstep.simulate.parallel.tensor import traffic
from lockstep.simulate.parallel.tensor.layer import Layer, State
from lockstep.simulate.parallel.tensor.run import run_counted
from lockstep.simulate.parallel.tensor.shape import Shape, flops

TOLERANCE = 1e-9
"""Largest error that rounding explains: numbers have 64 bits."""
MOST_RANKS = 64
MOST_FLOPS, MOST_ELEMS = 2e9, 2_000_000
"""A layer of more FLOPs, or with more elements of weights and activations, is scaled down before it is run."""
HEAD, SEQ, BATCH = 4, 8, 2
ELEMENT_B = 8.0
UNPRICED = ((2, 0.0, 1.0, 0.0),)
"""A group of some link: bytes do not depend on it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A layer that was run whole and cut, and how far the two are apart."""

    shape: Shape
    scaled_down: bool
    """Whether the layer that was run is smaller than the one that was asked about."""
    ranks: int
    error_frac: float
    tolerance_frac: float
    sent_B: float
    """Bytes that the rank which sent most sent in messages, as counted."""
    priced_B: float

    @property
    def equal(self) -> bool:
        """Whether cut and whole layer agree within rounding, and bytes counted with bytes priced."""
        return self.error_frac <= self.tolerance_frac and abs(self.sent_B - self.priced_B) <= 1e-9 * self.priced_B

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {**self.shape.to_dict(), **picked(self, without="shape"), "equal": self.equal}


def prove(shape: Shape, ranks: int, sequence_parallel: bool = False, seed: int = 0) -> Proof:
    """Runs the layer, or a smaller one cut in the same way, on `ranks` ranks and on one. Raises BadInput."""
    if ranks > MOST_RANKS:
        raise BadInput(f"at most {MOST_RANKS} ranks are run in process, got {ranks}", "ranks")
    tried = shape if _small(shape, ranks) else scaled(shape, ranks)
    whole, _ = _run(tried, tried.layer(1), seed)
    cut, sent = _run(tried, tried.layer(ranks, sequence_parallel), seed)
    moved = traffic.flows(UNPRICED, tried.tokens * tried.hidden * ELEMENT_B, sequence_parallel)
    return Proof(
        tried,
        tried != shape,
        ranks,
        error_frac=max(_error(cut[name], whole[name]) for name in whole),
        tolerance_frac=TOLERANCE,
        sent_B=float(sent.max()) * ELEMENT_B,
        priced_B=2.0 * float(traffic.sent_B(moved, ranks)),
    )


def scaled(shape: Shape, ranks: int) -> Shape:
    """A layer of the same kind that runs at once: narrow heads, two to a rank if there are as many, few tokens."""
    heads = ranks * min(2, max(1, shape.heads // ranks))
    hidden = heads * HEAD
    wide = max(1, round(shape.ffn / shape.hidden)) * hidden
    return Shape(min(shape.batch, BATCH), ranks * ceil(SEQ / ranks), hidden, heads, wide)


def _small(shape: Shape, ranks: int) -> bool:
    """Whether the layer itself runs at once."""
    elems = shape.tokens * (shape.hidden + shape.ffn) * ranks + shape.tokens * shape.seq * shape.heads
    elems += shape.weight_elems
    return flops(shape.layer(1).parts) <= MOST_FLOPS and elems <= MOST_ELEMS


def _run(shape: Shape, layer: Layer, seed: int) -> tuple[State, Array]:
    """The same random weights, input and gradient of the output for every cut."""
    generator = np.random.default_rng(seed)
    weights = {name: generator.normal(0.0, size[0] ** -0.5, size) for name, size in shape.weights.items()}
    value, gradient = generator.normal(size=(2, shape.tokens, shape.hidden))
    return run_counted(layer, weights, value, gradient)


def _error(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())
