"""Kernel work of one transformer layer on one rank, forward and backward, for one micro-batch.

Symbols: b sequences per micro-batch, s tokens per sequence, T = b*s/cp tokens on the rank, h hidden, a heads, g key
and value heads, d head size, f feed-forward size, t tensor-parallel degree, w bytes per element. A product is written
(m, n, k) for m x k by k x n. Everything broadcasts over the layout grid.

Sources: Megatron-LM (arXiv 1909.08053, 2104.04473) for how products are split; Korthikanti et al. (arXiv 2205.05198)
for sequence parallelism and selective recomputation; FlashAttention-2 (arXiv 2307.08691) section 3 for the FLOPs of a
fused kernel: forward 2 products over the scores, backward 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lockstep.kernels.adapters import adapter_work, restored_work
from lockstep.kernels.autocast import autocast_work
from lockstep.kernels.clock import Work
from lockstep.kernels.copies import copied_heads, copied_sums, joined_sequences
from lockstep.kernels.experts import dispatched, router, shared_experts
from lockstep.kernels.feed_forward import feed_forward
from lockstep.kernels.image import image_head_work, modulation_work, patch_work
from lockstep.kernels.loss import loss_work
from lockstep.kernels.norms import final_norm_work, norms, query_key_norms, rotary_work
from lockstep.kernels.recurrent import first_width, recurrent_core, recurrent_projections
from lockstep.kernels.scores import score_work
from lockstep.kernels.shard import Passes, Shard
from lockstep.kernels.states import table_work
from lockstep.kernels.sums import bias_sums, input_sums, residual_sums
from lockstep.kernels.wide import wide_work
from lockstep.layout.sharing import repeats_heads
from lockstep.parallel.context import partials
from lockstep.parallel.tensor.traffic import INPUTS_FRAC
from lockstep.types.arrays import Number
from lockstep.workload import DENSE, Classifier, LatentAttention, LayerKind, Transformer, keys_per_query

ADDED_POSITIONS = {"alibi": (2.0, 0.0), "relative": (2.0, 1.0)}
"""Passes over scores that add positions to them, forward and backward, where attention is not fused."""

MERGING = {True: (9.0, 18.0), False: (23.0, 30.0)}
"""Passes over queries with which torch's context parallelism adds a part of attention to the others, compiled or an
operation after another: a part in fp32 (3), its difference from the sum (6), weighted (4), subtracted (6), and keys and
values joined for the next exchange (4); backward these (4), the gradient of queries added in fp32 (5), of half of keys
and values each added and joined (13), joined for sending (8). PyTorch 2.6, torch/distributed/tensor/experimental/
_attention.py: _SDPAMerger, _templated_ring_attention and _templated_ring_attention_backward."""

PIECES = 0.07
"""Of its time, what a product in four pieces on two streams takes longer: 0.06 in the median of ten shapes, 0.07 of all
their seconds, one after another 0.06 and 0.10 (one H100 SXM, PyTorch 2.11.0, 27 November 2026; product_pieces.csv)."""
RING = (((1.0, 3.0), (2.0, 0.0), 3), ((-1.0, 3.0), (0.0, 5.0), 4))
"""Passes over queries and over keys and values, forward and backward, once and for each step of a ring, and kernels of
a step. Forward the output is filled with zeros (1), that of every step is weighted and added (3), keys and values are
joined for sending (2). Backward the first gradient of queries is copied (2), the others added (3), those of keys and
values are joined (2) and added (3). NVIDIA/TransformerEngine 1.13, pytorch/attention.py, AttnFuncWithCPAndKVP2P."""


def projections(shard: Shard, rotary: bool = True) -> Passes:
    """The products around the attention core, and rotary embedding; gradients of q, k and v are copied together."""
    attention, tokens, h = shard.model.attention, shard.tokens, shard.model.hidden
    heads = attention.heads / shard.grid.tp
    if attention.latent is not None:
        return _latent_projections(shard, attention.latent, heads)
    width = heads * attention.head_dim
    kv_width = shard.kv_heads * attention.head_dim
    gate = width if attention.gated else 0
    parts = shard.product(tokens, width + gate + 2 * kv_width, h) + shard.product(tokens, h, width)
    if attention.gated:
        parts += shard.elementwise(tokens * gate, 3.0, 5.0)
    parts += Passes(Work(), shard.clock.stream(2.0 * tokens * (width + 2 * kv_width) * shard.clock.element_B))
    if attention.qk_norm != "none":
        parts += query_key_norms(shard, tokens * (width + kv_width))
    return parts + turned_heads(shard, tokens * width, tokens * kv_width, rotary) + copied_heads(shard, width, kv_width)


def turned_heads(shard: Shard, queries: Number, keys: Number, rotary: bool = True) -> Passes:
    """Rotary embedding of so many elements of queries and keys, and keys and values repeated where software does so."""
    attention, parts = shard.model.attention, Passes(Work(), Work())
    if repeats_heads(shard.recipe) and attention.kv_heads < attention.heads:
        parts += shard.elementwise(2 * (queries + keys), 1.0, 1.0, kernels=2)
    if rotary and shard.model.positions == "rotary":
        parts += rotary_work(shard, queries + keys)
    return parts


def _latent_projections(shard: Shard, latent: LatentAttention, heads: Number) -> Passes:
    """Multi-head latent attention: low-rank down-projections on every rank, up-projections split by heads."""
    tokens, h = shard.tokens, shard.model.hidden
    query = heads * (latent.nope_dim + latent.rope_dim)
    parts = shard.product(tokens, latent.q_rank or query, h)
    parts += shard.product(tokens, latent.kv_rank + latent.rope_dim, h)
    parts += shard.product(tokens, h, heads * latent.value_dim)
    return parts + up_projections(shard, latent, heads)


def up_projections(shard: Shard, latent: LatentAttention, heads: Number) -> Passes:
    """Queries, keys and values of the heads from the latents, and rotary embedding."""
    tokens = shard.tokens
    parts = shard.product(tokens, heads * (latent.nope_dim + latent.value_dim), latent.kv_rank)
    if latent.q_rank:
        parts += shard.product(tokens, heads * (latent.nope_dim + latent.rope_dim), latent.q_rank)
    return parts + shard.elementwise(tokens * heads * latent.rope_dim, 4.0, 4.0, kernels=4)


def attention_core(shard: Shard, window: int, causal: bool | None = None, bias: bool = True) -> Passes:
    """Scores, softmax and the weighted sum of values.

    A fused kernel executes 2 products forward and 5 backward over the scores that a causal mask leaves (half of
    them); the unfused one computes all scores and moves them through memory for scaling, softmax and dropout. ALiBi's
    bias is then written where the scores go and read by their product, which adds to it (`baddbmm`). Relative positions
    are added to the scores in place, and their gradient is a sum over sequences. The output is copied from heads to
    tokens. Packed samples do not attend to one another in fused kernels. A kernel with a window runs as fast as one
    over the sequences in whose triangle a query meets as many keys: the tiles on the diagonal are as many. In a ring
    one step has a rank's own tokens under the mask, the others all queries and half of the keys, or the reverse.
    """
    attention, recipe, grid = shard.model.attention, shard.recipe, shard.grid
    heads, per_head = attention.heads / grid.tp, grid.micro_batch * recipe.seq / grid.cp
    query_dim, value_dim = attention.head_dim, attention.value_dim
    causal = attention.causal if causal is None else causal
    if recipe.flash_attention:
        length = recipe.attended_tokens
        keys = keys_per_query(length, window or None, causal, "causal", attention.chunked)
        scores = per_head * keys * heads
        flops = 2.0 * scores * (query_dim + value_dim)
        executed_backward = 2.0 * scores * (3 * query_dim + 2 * value_dim)
        fused, size = shard.clock.fused_attention, (2.0 * keys if causal else keys, query_dim, causal)
        own: Number = 1.0
        both = Passes(Work(), Work())
        if causal and not window and recipe.cp_kind == "ring" and recipe.sample_tokens is None:
            own, size = 1.0 / grid.cp, (length / grid.cp, query_dim, True)
            apart, half = 1.0 - own, (length / grid.cp / 2, query_dim, False)
            steps = fused(apart * flops, *half), fused(apart * executed_backward, *half, backward=True)
            both = Passes(*(replace(work, kernels=grid.cp - 1) for work in steps))
        both += Passes(fused(own * flops, *size), fused(own * executed_backward, *size, backward=True))
        return both + _merging(shard, heads * value_dim)
    count, rows = grid.micro_batch * heads, recipe.seq / grid.cp
    products = shard.product(rows, recipe.seq, query_dim, count) + shard.product(rows, value_dim, recipe.seq, count)
    if bias and shard.model.positions in ADDED_POSITIONS:
        products += shard.elementwise(count * rows * recipe.seq, *ADDED_POSITIONS[shard.model.positions])
    products += shard.elementwise(count * rows * value_dim, 2.0, 2.0)
    return products + score_work(shard, count, count * rows * recipe.seq, causal)


def cross_projections(shard: Shard) -> Passes:
    """Queries from the decoder, keys and values from the encoder's output, whose gradients of all layers add up."""
    attention, tokens, h = shard.model.attention, shard.tokens, shard.model.hidden
    width, kv_width = attention.heads / shard.grid.tp * attention.head_dim, shard.kv_heads * attention.head_dim
    parts = shard.product(tokens, width, h) + shard.product(tokens, 2 * kv_width, h) + shard.product(tokens, h, width)
    parts += Passes(Work(), shard.clock.stream(2.0 * tokens * 2 * kv_width * shard.clock.element_B))
    return parts + shard.elementwise(shard.loose_tokens * h, 0.0, 3.0)


def _merging(shard: Shard, width: Number) -> Passes:
    """What surrounds the steps of a ring (RING); torch's context parallelism, which is what FSDP2 comes with, adds the
    outputs of every rank whose keys it gathers.
    """
    recipe, ranks = shard.recipe, shard.grid.cp
    if recipe.sharding == "fsdp2" and recipe.cp_kind == "gather":
        forward, backward = MERGING[recipe.fused_elementwise]
        size_B = shard.tokens * width * shard.clock.element_B
        stream = shard.clock.stream
        several = np.where(ranks > 1, ranks, 0)
        later = np.maximum(0, ranks - 1)
        return Passes(stream(forward * later * size_B, 5 * later), stream(backward * several * size_B, 8 * several))
    parts = partials(recipe.cp_kind, ranks, shard.kv_heads)
    keys = 2.0 * shard.kv_heads * shard.model.attention.head_dim
    found = []
    for (once, each), (keys_once, keys_each), kernels in RING:
        passes = width * (once + each * parts) + keys * (keys_once + keys_each * parts)
        size_B = np.where(parts > 1, passes, 0.0) * shard.tokens * shard.clock.element_B
        found.append(shard.clock.stream(size_B, np.where(parts > 1, kernels * parts, 0)))
    return Passes(*found)


def _for_blocks(parts: Passes, kind: LayerKind) -> Passes:
    """`parts`, which are those of two blocks, for as many as the layer has."""
    share = kind.residual_blocks / 2
    return parts if share == 1 else Passes(parts.forward * share, parts.backward * share)


def residual_and_norms(shard: Shard, kind: LayerKind = DENSE) -> Passes:
    """A norm and a residual addition for each block, with dropout where there is such, and the biases' gradients."""
    recipe, elements = shard.recipe, shard.loose_tokens * shard.model.hidden
    parts = norms(shard) + residual_sums(shard) + copied_sums(shard)
    if recipe.dropout:
        parts += shard.elementwise(elements, 1.0, 4.0, kernels=0 if recipe.fused_elementwise else 2)
        if recipe.fused_elementwise:
            parts += Passes(Work(), Work(kernels=2))
    return _for_blocks(parts + autocast_work(shard), kind) + bias_sums(shard, kind) + input_sums(shard, kind)


def product_pairs(shard: Shard, kind: LayerKind) -> tuple[tuple[Number, Number], ...]:
    """Seconds of the products that begin and end attention and feed-forward, which tensor parallelism splits.

    Latent attention begins with its up-projections. Shared experts have no such pair, and count nothing.
    """
    model, tokens, h, tp = shard.model, shard.tokens, shard.model.hidden, shard.grid.tp
    attention, mixer = model.attention, model.recurrent
    heads, ending = attention.heads / tp, attention.heads / tp * attention.value_dim
    if kind.mixer == "recurrent" and mixer:
        begin_s, ending = shard.clock.matmul(tokens, first_width(shard, mixer), h).matmul_s, mixer.inner / tp
    elif attention.latent is not None:
        begin_s = up_projections(shard, attention.latent, heads).forward.matmul_s
    else:
        begin_s = shard.clock.matmul(tokens, (heads + 2 * shard.kv_heads) * attention.head_dim, h).matmul_s
    first = begin_s, shard.clock.matmul(tokens, h, ending).matmul_s
    if kind.block != "dense" or not model.mlp:
        second: tuple[Number, Number] = (0.0, 0.0)
    else:
        width = model.mlp.ffn / tp
        second = tuple(  # type: ignore[assignment]
            shard.clock.matmul(tokens, *sides).matmul_s
            for sides in ((width * (2 if model.mlp.gated else 1), h), (h, width))
        )
    if model.parallel_block:
        return ((first[0] + second[0], first[1] + second[1]),)
    if kind.mixer == "none":
        return (second,)[: int(tensor_rounds(model, kind))]
    return (first, second)[: int(tensor_rounds(model, kind))]


CROSSING_ROUNDS = 1.5


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
    tp_overlap_configs/userbuffers.py; PyTorch's as in `parallel/tensor/asynchronous.py`).
    """
    longer = np.where(shard.grid.tp > 1, PIECES, 0.0)
    forward_s, backward_s = products.forward.matmul_s, INPUTS_FRAC * products.backward.matmul_s
    return Passes(Work(matmul_s=longer * forward_s), Work(matmul_s=longer * backward_s))


def _collectives(shard: Shard, kind: LayerKind) -> Passes:
    """Launches of tensor-parallel collectives, two for each that sequence parallelism takes apart."""
    grid = shard.grid
    count = tensor_rounds(shard.model, kind) * np.where(grid.tp > 1, 1.0 + (grid.sequence_parallel > 0), 0.0)
    return Passes(Work(kernels=count), Work(kernels=count))


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
    """Of a forward pass, what the host launches once it knows how many tokens each expert gets; None: no experts."""

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


def mixer_work(shard: Shard, kind: LayerKind) -> tuple[Passes, Passes]:
    """(projections, core) of attention, of a recurrent mixer, or of neither."""
    if kind.attends:
        causal = shard.model.masks(kind)
        own = projections(shard, kind.mixer != "nope"), attention_core(shard, kind.window, causal)
        if not kind.crosses:
            return own
        return own[0] + cross_projections(shard), own[1] + attention_core(shard, 0, causal=False, bias=False)
    mixer = shard.model.recurrent if kind.mixer == "recurrent" else None
    if mixer is None:
        return Passes(Work(), Work()), Passes(Work(), Work())
    return recurrent_projections(shard, mixer), recurrent_core(shard, mixer)


def layer_work(shard: Shard, kind: LayerKind) -> LayerWork:
    """Work of one layer of the given kind."""
    mixed, core = mixer_work(shard, kind)
    around, bare = mixed + residual_and_norms(shard, kind) + _collectives(shard, kind), None
    around += joined_sequences(shard, tensor_rounds(shard.model, kind))
    if shard.recipe.overlap_tp == "async":
        around += _added_pieces(shard, kind)
    if shard.model.modulation is not None:
        around += modulation_work(shard, shard.model.modulation)
    shared, counted = Passes(Work(), Work()), None
    if shard.recipe.cuda_graphs == "attention":
        around, core = around.replayed, core.replayed
    if kind.experts and shard.model.experts:
        shared = shared_experts(shard, shard.model.experts)
        routed = dispatched(shard, shard.model.experts)
        around, counted = around + router(shard, shard.model.experts) + routed, routed.forward
    elif kind.block == "dense" and shard.model.mlp:
        dense = feed_forward(shard, shard.model.mlp.ffn / shard.grid.tp, shard.tokens, 1, shard.model.mlp.gated)
        around, mixed = around + dense, mixed + dense
    if shard.recipe.overlap_tp in ("all", "async"):
        around += _in_pieces(shard, mixed)
    if shard.recipe.adapters is not None:
        around += restored_work(shard, kind) + wide_work(shard, kind)
        bare, around = around, around + adapter_work(shard, shard.recipe.adapters, kind)
    frozen = None if bare is None else bare.forward + core.forward
    return LayerWork(around, core, shared, frozen, counted)


def embedding_work(shard: Shard) -> Passes:
    """Token lookup: one write forward, one scattered read-modify-write backward; of images, their projection."""
    if shard.model.patches is not None:
        return patch_work(shard, shard.model.patches)
    found = shard.elementwise(shard.loose_tokens * shard.model.hidden, 2.0, 4.0, kernels=2)
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
    parts = replace(shard, clock=shard.clock.wide).product(tokens, vocabulary, shard.model.hidden)
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
