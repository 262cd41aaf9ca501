"""Kernel work of one transformer layer on one rank, forward and backward, for one micro-batch.

Symbols: b sequences per micro-batch, s tokens per sequence, T = b*s/cp tokens on the rank, h hidden, t tensor-parallel
degree. A layer is its operations (`describe/workload/graph.py`) and what software adds around them: sums, copies,
casts, adapters, launches of collectives. Everything broadcasts over the layout grid.

Sources: Megatron-LM (arXiv 1909.08053, 2104.04473) for how products are split; Korthikanti et al. (arXiv 2205.05198)
for sequence parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.base.types.arrays import Number
from lockstep.describe.stacks import find_way
from lockstep.describe.workload import Classifier, LayerKind, Operation, Transformer, layer_operations
from lockstep.describe.workload.operation import Part
from lockstep.price.kernels.adapters import adapter_work, restored_work
from lockstep.price.kernels.attention import attention_core
from lockstep.price.kernels.clock import Work
from lockstep.price.kernels.copies import joined_sequences
from lockstep.price.kernels.formats import input_casts, wide_work
from lockstep.price.kernels.image import image_head_work, modulation_work, patch_work
from lockstep.price.kernels.loss import loss_work
from lockstep.price.kernels.norms import final_norm_work
from lockstep.price.kernels.operations import CORES, NOTHING, priced
from lockstep.price.kernels.recurrent import recurrent_core
from lockstep.price.kernels.shard import Passes, Shard
from lockstep.price.kernels.slots import casts, stream_work
from lockstep.price.kernels.states import table_work
from lockstep.price.kernels.sums import bias_sums, input_sums
from lockstep.simulate.parallel.tensor.traffic import INPUTS_FRAC

PIECES = 0.07
"""Of its time, what a product in four pieces on two streams takes longer: 0.06 in the median of ten shapes, 0.07 of all
their seconds, one after another 0.06 and 0.10 (one H100 SXM, PyTorch 2.11.0, 27 November 2026; product_pieces.csv)."""
CROSSING_ROUNDS = 1.5
FIRST: tuple[Part, ...] = ("stream", "mixer", "crossing")
"""Parts whose kernels graphs of attention replay."""


@dataclass(frozen=True, slots=True)
class LayerWork:
    """Work of one layer: all of it, and parts of it that others ask for."""

    passes: Passes
    core: Passes
    shared: Passes
    """Of `passes`, shared experts, which need no exchange."""
    frozen: Work | None = None
    """A forward pass without adapters; None where there are none."""
    counted: Work | None = None
    """Kernels of a forward pass launched after the tokens per expert are known; None without experts."""

    @property
    def forward(self) -> Work:
        """One forward pass."""
        return self.passes.forward + self.core.forward

    @property
    def backward(self) -> Work:
        """One backward pass without recomputation."""
        return self.passes.backward + self.core.backward

    def inside(self, factors: tuple[Number, Number, Number]) -> LayerWork:
        """The same inside a step (`Work.inside`)."""
        return LayerWork(
            self.passes.inside(factors),
            self.core.inside(factors),
            self.shared.inside(factors),
            None if self.frozen is None else self.frozen.inside(factors),
            None if self.counted is None else self.counted.inside(factors),
        )


def of_parts(shard: Shard, kind: LayerKind, *parts: str) -> Passes:
    """Work of the operations of a layer that stand in some `parts`, but for what mixes rows of a sequence."""
    return priced(shard, _those(shard, kind, *parts))


def _those(shard: Shard, kind: LayerKind, *parts: str) -> list[Operation]:
    return [one for one in layer_operations(shard.model, kind) if one.part in parts and one.does not in CORES]


def expert_work(shard: Shard) -> Passes:
    """Work of a router, of routed experts and shared ones."""
    return of_parts(shard, LayerKind("experts", mixer="none"), "router", "experts", "shared")


def core_work(shard: Shard, kind: LayerKind) -> Passes:
    """Work of what mixes rows of a sequence."""
    return sum(core_works(shard, kind), NOTHING)


def core_works(shard: Shard, kind: LayerKind) -> tuple[Passes, ...]:
    """The same of each such operation: attention, then that over an encoder's output, or a scan."""
    if kind.mixer == "recurrent" and shard.model.recurrent:
        return (recurrent_core(shard, shard.model.recurrent),)
    if not kind.attends:
        return ()
    own = attention_core(shard, kind.window, shard.model.masks(kind))
    return (own, attention_core(shard, 0, causal=False, bias=False)) if kind.crosses else (own,)


def layer_work(shard: Shard, kind: LayerKind) -> LayerWork:
    """Work of one layer of the given kind. `rows.py` tells it operation by operation."""
    recipe, core, counted = shard.recipe, core_work(shard, kind), None
    mixed, dense = of_parts(shard, kind, *FIRST), of_parts(shard, kind, "dense")
    around = mixed
    for _, work in added_first(shard, kind):
        around += work
    if recipe.cuda_graphs == "attention":
        around, core = around.replayed, core.replayed
    shared = of_parts(shard, kind, "shared")
    if kind.experts:
        routed = of_parts(shard, kind, "experts") + shared
        around, counted = around + of_parts(shard, kind, "router") + routed, routed.forward
    around += dense
    for _, work in added_last(shard, kind, mixed + dense):
        around += work
    if shard.adapters is None:
        return LayerWork(around, core, shared, None, counted)
    return LayerWork(
        around + adapter_work(shard, shard.adapters, kind), core, shared, around.forward + core.forward, counted
    )


def added_first(shard: Shard, kind: LayerKind) -> Iterator[tuple[str, Passes]]:
    """What software adds around the operations of the parts `FIRST`, by name; its launches too."""
    recipe, blocks, dropout = shard.recipe, kind.residual_blocks / 2, _dropout(shard)
    yield "casts of autocast", input_casts(shard, kind)
    yield "dropout", Passes(dropout.forward * blocks, dropout.backward * blocks)
    yield "sums of biases' gradients", bias_sums(shard, kind)
    yield "sums of gradients of one input", input_sums(shard, kind)
    yield "launches of collectives", _collectives(shard, kind)
    yield "sequences joined anew", joined_sequences(shard, tensor_rounds(shard.model, kind))
    if recipe.overlap_tp == "async":
        yield "pieces of reductions added", _added_pieces(shard, kind)
    if shard.model.modulation is not None:
        yield "modulation", modulation_work(shard, shard.model.modulation)


def added_last(shard: Shard, kind: LayerKind, products: Passes) -> Iterator[tuple[str, Passes]]:
    """What it adds beside the `products` that tensor parallelism splits, and what frozen matrices cost."""
    if shard.recipe.overlap_tp in ("all", "async"):
        yield "products in pieces", _in_pieces(shard, products)
    if shard.recipe.adapters is not None:
        yield "restored matrices", restored_work(shard, kind)
        yield "casts of a wide base", wide_work(shard, kind)


def _dropout(shard: Shard) -> Passes:
    """After two blocks, in kernels of its own or, but for two backward, in those of others."""
    recipe, elements = shard.recipe, shard.loose_tokens * shard.model.hidden
    if not recipe.dropout:
        return NOTHING
    found = shard.elementwise(elements, 1.0, 4.0, kernels=0 if recipe.fused_elementwise else 2)
    return found + Passes(Work(), Work(kernels=2)) if recipe.fused_elementwise else found


def product_pairs(shard: Shard, kind: LayerKind) -> tuple[tuple[Number, Number], ...]:
    """Seconds of the products that begin and end attention and feed-forward, which tensor parallelism splits.

    Latent attention begins with its up-projections. Experts have no such pair, and count nothing.
    """
    first, second = (_edges_s(shard, _those(shard, kind, part)) for part in ("mixer", "dense"))
    rounds = int(tensor_rounds(shard.model, kind))
    if shard.model.parallel_block:
        return ((first[0] + second[0], first[1] + second[1]),)
    return ((second,) if kind.mixer == "none" else (first, second))[:rounds]


def _edges_s(shard: Shard, operations: Sequence[Operation]) -> tuple[Number, Number]:
    """Seconds of the products of a part of a layer with which it begins, and of those with which it ends."""
    begin, end = ([one for one in operations if one.edge == edge] for edge in ("first", "last"))
    return priced(shard, begin).forward.matmul_s, priced(shard, end).forward.matmul_s


def tensor_rounds(model: Transformer, kind: LayerKind) -> float:
    """Rounds of tensor-parallel traffic in a layer: of attention and of a dense block or shared experts, one where both
    run side by side. Routed experts gather rows of their own. Attention over an encoder's output is a round and a half:
    it reads two streams, and in one of both passes gathers or reduces both of them.
    """
    routed_only = kind.experts and model.experts and not model.experts.shared_ffn
    if model.parallel_block:
        return 1
    return (kind.mixer != "none") + CROSSING_ROUNDS * kind.crosses + (kind.block != "none" and not routed_only)


def _added_pieces(shard: Shard, kind: LayerKind) -> Passes:
    """Asynchronous tensor parallelism adds the pieces of its forward reductions in kernels of its own."""
    rounds, tp = tensor_rounds(shard.model, kind), shard.grid.tp
    split = np.where(tp > 1, 1.0 + 1.0 / tp, 0.0)
    return shard.elementwise(rounds * shard.tokens * shard.model.hidden * split, 1.0, 0.0, kernels=0)


def _in_pieces(shard: Shard, products: Passes) -> Passes:
    """What products that are cut in pieces beside their traffic take longer: all forward, backward those that give
    gradients of what layers split by inputs read, as many as of what layers split by outputs read (NVIDIA/NeMo,
    tp_overlap_configs/userbuffers.py; PyTorch's as in `simulate/parallel/tensor/asynchronous.py`).
    """
    longer = np.where(shard.grid.tp > 1, PIECES, 0.0)
    forward_s, backward_s = products.forward.matmul_s, INPUTS_FRAC * products.backward.matmul_s
    return Passes(Work(matmul_s=longer * forward_s), Work(matmul_s=longer * backward_s))


def _collectives(shard: Shard, kind: LayerKind) -> Passes:
    """Launches of tensor-parallel collectives, two for each that sequence parallelism takes apart."""
    grid = shard.grid
    count = tensor_rounds(shard.model, kind) * np.where(grid.tp > 1, 1.0 + (grid.sequence_parallel > 0), 0.0)
    return Passes(Work(kernels=count), Work(kernels=count))


def embedding_work(shard: Shard) -> Passes:
    """Token lookup: one write forward, one scattered read-modify-write backward, unless the table is frozen; in fp32
    under torch.autocast, which leaves lookups as they are. Of images, their projection.
    """
    if shard.model.patches is not None:
        return patch_work(shard, shard.model.patches)
    numbers = shard.loose_tokens * shard.model.hidden * np.where(casts(shard), 2.0, 1.0)
    found = shard.elementwise(numbers, 2.0, 4.0, kernels=2)
    if shard.adapters is not None and "embed_tokens" not in shard.adapters.saved:
        found = Passes(found.forward, Work())
    return (found + found if shard.model.encoder_layers else found) + table_work(shard, shard.grid.tp, looked_up=True)


def head_work(shard: Shard) -> Passes:
    """Final norm, vocabulary product and cross entropy over the vocabulary shard."""
    return logits_work(shard, shard.grid.tp) + final_norm_work(shard)


def logits_work(shard: Shard, ways: Number) -> Passes:
    """Of it, product and loss, with the vocabulary divided into `ways`; what is read off images and by a classifier,
    whole. Nothing where no head follows the last layer.

    The head stays in half precision where layers run in a narrower format: Megatron Core's is no layer of Transformer
    Engine (models/gpt/gpt_model.py, output_layer), torchtitan's is left out of the conversion (components/float8.py).
    """
    if shard.model.patches is not None:
        return image_head_work(shard, shard.model.patches)
    labels = _label_work(shard, shard.model.classifier)
    if not shard.model.has_head:
        return labels
    tokens, vocabulary = shard.tokens, shard.model.vocab / ways
    wide = replace(shard, clock=shard.clock.wide)
    trained = shard.adapters is not None and "lm_head" in shard.adapters.saved
    parts = (wide.trained_product if trained else wide.product)(tokens, vocabulary, shard.model.hidden)
    parts += stream_work(shard, "input", shard.loose_tokens * shard.model.hidden)
    if again := find_way("loss", shard.recipe.loss_kind).numbers.get("again", 0.0):
        parts += Passes(Work(), wide.clock.matmul(tokens, vocabulary, shard.model.hidden) * again)
    return parts + loss_work(shard, tokens * vocabulary) + table_work(shard, ways, looked_up=False) + labels


def _label_work(shard: Shard, classifier: Classifier | None) -> Passes:
    """Products of a classifier of text and its loss, of every token or once per sequence."""
    if classifier is None:
        return Passes(Work(), Work())
    rows: Number = shard.grid.micro_batch if classifier.per_sequence else shard.tokens
    wide, hidden = replace(shard, clock=shard.clock.wide), shard.model.hidden
    found = wide.product(rows, classifier.labels, hidden)
    if classifier.dense:
        found += wide.product(rows, hidden, hidden)
    return found + loss_work(shard, rows * classifier.labels)


def vocabulary_work(shard: Shard) -> Passes:
    """What every stage does where embedding and head are spread over stages: each writes all embedded tokens."""
    return embedding_work(shard) + logits_work(shard, shard.grid.tp * shard.grid.pp)


def prediction_module_work(shard: Shard) -> Passes:
    """A multi-token-prediction module beside its layer: joint projection of two hidden states, and its own head."""
    return prediction_projection_work(shard) + head_work(shard)


def prediction_projection_work(shard: Shard) -> Passes:
    """Of it, the projection, which stands where its layer does."""
    return shard.product(shard.tokens, shard.model.hidden, 2 * shard.model.hidden)
