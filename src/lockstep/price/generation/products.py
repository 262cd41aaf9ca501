"""Matrix products of one pass over a layer, on one rank: kernels that read weights for a few rows of activations.

    seconds of a kernel     l + max(bytes / (r s B), 2 m E / (e P g)) + q        bytes = E w + m (i + o) a
    of a cast before it     q = l + m i (a + w) / (s B)

Symbols: m rows (tokens of the rank), E elements of the weights of a kernel on the rank, w their bytes per element, i
and o columns that it reads and writes on the rank, a bytes of an activation; l a launch; B memory bandwidth, s the
share that streams reach, r what products reach of that; P peak and e the share of it that large products reach, g what
those of engines reach of that in a narrow format, whose inputs are cast first. Training's products, which are large,
add what of their traffic does not hide (`Clock.product`); here traffic is most of the time.

Products that read the same input are one kernel: queries, keys and values; gate and up; both low ranks of latent
attention. Decoding multiplies the latent by the up-projection's parts per head, before and after the scores
(DeepSeek-V2, arXiv 2405.04434, section 2.1.2), which reads the same weights as the product that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lockstep.base.records import dataclass, replace
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
READING_FRAC = 0.94
"""Of what streams reach, what products that read weights for few rows reach: 0.94, 0.95, 0.92 and 0.93 on H100, B200,
B300 and GB300, the median of three engines in bf16, with 3.0 to 3.5 us of a start, where a launch is 3 (fitted to
kernels of up to 4,096 rows in ai-dynamo/aiconfigurator@095f58a, which this form meets within 6 to 7 % in the median).
Chosen after the tables of tokens were asked first, and from kernels alone."""
HALF = ("bf16", "fp16")
NARROW_FRAC = {"fp8": 0.82, "fp4": 0.66}
"""Of the share of the peak that training's products reach in a format, what those of engines reach beside their casts:
0.87 and 0.82 on H100 (fp8 by tensor or row, and by block), 0.75 and 0.99 on B200, 0.74 and 0.82 on B300, 0.75 and 1.0
on GB300; in nvfp4 0.68, 0.65 and 0.66. As above."""
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
        found = kernel_s(engine, self.dtype, 2.0 * rows * self.elems, size_B)
        return found if self.dtype in HALF else found + self._cast_s(engine, rows)

    def _cast_s(self, engine: Engine, rows: Number) -> Number:
        """Seconds of the cast of its input."""
        device = engine.cluster.device
        size_B = rows * self.inputs * (WIDE_B + self.weight_B)
        return device.efficiency.launch_s + size_B / (device.memory_bandwidth_Bps * device.efficiency.stream_frac)


def clock_of(engine: Engine, dtype: str) -> Clock:
    """The clock of kernels whose products run in a format; what software adds on the host is not in it."""
    return Clock(engine.cluster.device, dtype, WIDE_B, stack(DEFAULT))


def kernel_s(engine: Engine, dtype: str, flops: Number, size_B: Number) -> Number:
    """Seconds of one kernel of products that executes so many FLOPs and moves so many bytes."""
    return engine.cluster.device.efficiency.launch_s + busy_s(engine, dtype, flops, size_B)


def busy_s(engine: Engine, dtype: str, flops: Number, size_B: Number, slower: float = 1.0) -> Number:
    """The same without the launch; arithmetic takes `slower` times as long as in large products."""
    device = engine.cluster.device
    rate_Bps = device.memory_bandwidth_Bps * device.efficiency.stream_frac * READING_FRAC
    arithmetic_s = clock_of(engine, dtype).arithmetic(flops).matmul_s / NARROW_FRAC.get(dtype, 1.0)
    return np.maximum(size_B / rate_Bps, slower * arithmetic_s)


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
        found[name] = (
            one
            if before is None
            else replace(before, elems=before.elems + one.elems, outputs=before.outputs + one.outputs)
        )
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
