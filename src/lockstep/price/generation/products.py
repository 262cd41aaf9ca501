"""Matrix products of one pass over a layer, on one rank: kernels that read weights for a few rows of activations.

    seconds of a kernel     as `Clock.product`: arithmetic and traffic; never less than bytes / bandwidth, nor a launch
    bytes                   E w + m (i + o) a

Symbols: m rows (tokens of the rank), E elements of the weights of a kernel on the rank, w their bytes per element, i
and o columns that it reads and writes on the rank, a bytes of an activation. Products that read the same input are one
kernel: queries, keys and values; gate and up; both low ranks of latent attention. Decoding multiplies the latent by the
up-projection's parts per head, before and after the scores (DeepSeek-V2, arXiv 2405.04434, section 2.1.2), which reads
the same weights as the product that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.stacks import DEFAULT, stack
from lockstep.describe.workload.kind import LayerKind
from lockstep.describe.workload.weight import Weight
from lockstep.describe.workload.weights import head_weights, layer_weights
from lockstep.price.generation.engine import WIDE_B, Engine
from lockstep.price.kernels import Clock

TOGETHER = {"key": "query", "value": "query", "up": "gate", "expert up": "expert gate", "shared up": "shared gate in"}
TOGETHER |= {"key-value down": "query down", "shared gate": "router", "shared expert gate": "shared gate in"}
"""Products that are part of the kernel of another."""
OUTWARD = ("attention out", "down", "expert down", "shared down", "recurrent out")
"""Products whose inputs are cut over ranks; of others the outputs are."""


@dataclass(frozen=True, slots=True)
class Product:
    """The weights of one kernel on one rank."""

    elems: float
    inputs: float
    """Columns that it reads of a row."""
    outputs: float
    weight_B: float
    """Bytes per element of the weights."""
    dtype: str
    """Format of the product."""

    def seconds(self, engine: Engine, rows: Number) -> Number:
        """Seconds of the kernel for so many rows; broadcasts."""
        size_B = self.elems * self.weight_B + rows * (self.inputs + self.outputs) * WIDE_B
        return kernel_s(engine, self.dtype, 2.0 * rows * self.elems, size_B)


def clock_of(engine: Engine, dtype: str) -> Clock:
    """The clock of kernels whose products run in a format; what software adds on the host is not in it."""
    return Clock(engine.cluster.device, dtype, WIDE_B, stack(DEFAULT))


def kernel_s(engine: Engine, dtype: str, flops: Number, size_B: Number) -> Number:
    """Seconds of one kernel of products that executes so many FLOPs and moves so many bytes."""
    clock = clock_of(engine, dtype)
    return np.maximum(clock.product(flops, size_B).matmul_s, engine.cluster.device.efficiency.launch_s)


def layer_products(engine: Engine, kind: LayerKind) -> tuple[Product, ...]:
    """The products of a layer of a kind but those of routed experts."""
    weights = layer_weights(engine.model, kind.stored)
    return _kernels(engine, (one for one in weights if one.is_matrix and one.category != "routed_experts"))


def head_products(engine: Engine) -> tuple[Product, ...]:
    """The products after the last layer: the projection onto the vocabulary."""
    model = engine.model
    found = [one for one in head_weights(model) if one.is_matrix and not one.per_sequence]
    if model.has_head and model.tied_embeddings:
        found.append(Weight("head", "head", (model.vocab, model.hidden), "vocab"))
    return _kernels(engine, found)


def _kernels(engine: Engine, weights: Iterable[Weight]) -> tuple[Product, ...]:
    """The weights as kernels, those that read the same input together."""
    found: dict[str, Product] = {}
    for weight in weights:
        name = TOGETHER.get(weight.name, weight.name)
        one = _product(engine, weight)
        before = found.get(name)
        found[name] = one if before is None else replace(
            before, elems=before.elems + one.elems, outputs=before.outputs + one.outputs
        )  # fmt: skip
    return tuple(found.values())


def _product(engine: Engine, weight: Weight) -> Product:
    """One matrix as a kernel of its own."""
    elems = float(weight.per_rank_elems(engine.tp))
    share = elems / weight.elems
    inputs, outputs = (float(side) for side in weight.shape)
    if weight.cut == "vocab":
        inputs, outputs = outputs, inputs * share
    elif weight.name in OUTWARD:
        inputs *= share
    else:
        outputs *= share
    weight_B, dtype = engine.format_of(weight.category)
    return Product(elems, inputs, outputs, weight_B, dtype)
