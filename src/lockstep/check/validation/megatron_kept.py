"""What Megatron-LM and Transformer Engine leave allocated between steps besides states: bytes on a rank, by cause.

    inputs       every chunk of layers but the model's first keeps what it was last sent, and the gradient of that: the
                 transformer block holds the tensor (core/transformer/transformer_block.py, set_input_tensor), its
                 gradient is retained (core/pipeline_parallel/schedules.py, backward_step). 2 · tokens · h · 2 bytes
    dummies      where products accumulate weight gradients themselves, autograd is handed one empty half-precision
                 tensor per shape of weight, kept for good (pytorch/module/base.py, get_dummy_wgrad, since release 2.3)
    rotary       latent attention has a rotary embedding per layer, each with cosines, sines and angles of all positions
                 in fp32 (core/models/common/embeddings/yarn_rotary_pos_embedding.py)
    mask         unfused attention caches its causal mask, a byte per score (pytorch/softmax.py, _default_causal_mask)
    routing      the dispatcher of a layer with experts keeps the last micro-batch's probabilities (4 bytes per token
                 and expert), map (1) and rows (4 (2E + 1) per token) (core/transformer/moe/token_dispatcher.py;
                 pytorch/triton/permutation.py)

All but the inputs are there when memory is fullest, too: the inputs of a step's passes are among the activations. Then
come two micro-batches as the data loader makes them, the one in work and the one before it: tokens, labels and
positions of 8 bytes, a weight of 4, and unless told otherwise a mask, a byte per score, which no kernel that knows
causal attention reads (pretrain_gpt.py; training/utils.py, get_batch_on_this_tp_rank). That two are there and not one
was read off the values: byte for byte the second is what some runs leave allocated after a step. And FlashAttention,
which computes batch by batch, keeps its output beside the copy in Megatron's order, sequence first, that the projection
after it keeps (pytorch/attention/dot_product_attention/backends.py): byte for byte what A100 and GB200 hold more than
H100, where cuDNN's kernel writes in any order.

`SMALL_B` is a margin for small tensors that nobody lists, among them losses, statistics of norms, states of random
numbers and what a resumed checkpoint leaves: it was chosen after the errors had been seen, so that they are on the safe
side in the mean.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.describe.workload import LayerKind, Transformer
from lockstep.price.layout import Job, Layout
from lockstep.price.layout.kept import live_B

HALF_B, FULL_B = 2.0, 4.0
BATCH_B = 3 * 8.0 + 4.0
"""Bytes per token of a micro-batch: tokens, labels, positions and the weight in the loss."""
SMALL_B = 16.0 * 2**20


def inputs_B(job: Job, layout: Layout) -> float:
    """Inputs of the chunks of the last stage, and their gradients."""
    chunks = layout.vpp if layout.pp > 1 else 0
    return chunks * 2.0 * HALF_B * _tokens(job, layout) * _model(job).hidden


def copies_B(job: Job, layout: Layout) -> float:
    """FlashAttention's outputs on the last stage, beside the copies in Megatron's order that the projections keep."""
    attention, grid = _model(job).attention, layout.grid()
    tokens = layout.micro_batch * job.recipe.seq / layout.cp
    each_B = HALF_B * tokens * attention.heads / layout.tp * attention.value_dim
    layers = job.device_layers(layout.pp, layout.placement, layout.stages)[layout.pp - 1].total()
    return float(live_B(job, grid, layout.pp - 1, (layers * each_B,)))


def batch_B(job: Job, layout: Layout) -> float:
    """Two micro-batches with their masks, and what is on its way between stages: the gradient that the step before
    sent, and with several chunks the input of the next pass, received ahead.
    """
    messages = (1 + (layout.vpp > 1)) * (layout.pp > 1)
    passing_B = messages * HALF_B * _tokens(job, layout) * _model(job).hidden
    seq = float(job.recipe.seq)
    return 2.0 * layout.micro_batch * (seq + BATCH_B) * seq / layout.cp + passing_B


def always_B(job: Job, layout: Layout, accumulates: bool) -> float:
    """What a rank of the last stage holds at every moment, where products accumulate gradients or do not."""
    model = _model(job)
    held = job.device_layers(layout.pp, layout.placement, layout.stages)[layout.pp - 1]
    kinds = dict(held)
    if model.mtp_layers:
        last = model.kinds[-1]
        kinds[last] = kinds.get(last, 0) + model.mtp_layers
    dummies = set(_shapes(model, layout, kinds)) if accumulates else set()
    return (
        SMALL_B
        + HALF_B * sum(rows * columns for rows, columns in dummies)
        + sum(kinds.values()) * _rotary_B(model)
        + (0.0 if job.recipe.flash_attention else float(job.recipe.seq) ** 2)
        + sum(count for kind, count in kinds.items() if kind.experts) * _routing_B(job, layout)
    )


def _model(job: Job) -> Transformer:
    model = job.transformer
    if model is None:
        raise TypeError("only transformers are asked")
    return model


def _tokens(job: Job, layout: Layout) -> float:
    """Tokens of a micro-batch on a rank between layers."""
    return layout.micro_batch * job.recipe.seq / layout.cp / (layout.tp if layout.sequence_parallel else 1)


def _rotary_B(model: Transformer) -> float:
    """Cosines, sines and angles of one layer with latent attention."""
    latent = model.attention.latent
    return 0.0 if latent is None else 3.0 * FULL_B * model.max_positions * latent.rope_dim


def _routing_B(job: Job, layout: Layout) -> float:
    """What the dispatcher of one layer keeps of its last micro-batch."""
    experts = _model(job).experts
    count = experts.experts if experts else 0
    return _tokens(job, layout) * (FULL_B * count + count + FULL_B * (2 * count + 1))


def _shapes(model: Transformer, layout: Layout, kinds: dict[LayerKind, int]) -> Iterator[tuple[int, int]]:
    """Shapes of the weights of Transformer Engine's linear layers on a rank."""
    attention, h, tp = model.attention, model.hidden, layout.tp
    heads, latent = attention.heads // tp, attention.latent
    if latent is None:
        kv_heads = max(1, attention.kv_heads // tp)
        yield (heads + 2 * kv_heads) * attention.head_dim, h
        yield h, heads * attention.head_dim
    else:
        query = heads * (latent.nope_dim + latent.rope_dim)
        if latent.q_rank:
            yield latent.q_rank, h
        yield query, latent.q_rank or h
        yield latent.kv_rank + latent.rope_dim, h
        yield heads * (latent.nope_dim + latent.value_dim), latent.kv_rank
        yield h, heads * latent.value_dim
    experts, etp = model.experts, layout.etp or tp
    widths = []
    if experts and any(kind.experts for kind in kinds):
        widths += [(experts.ffn // etp, experts.gated), (experts.shared_ffn // tp, experts.gated)]
    if model.mlp and any(kind.block == "dense" for kind in kinds):
        widths.append((model.mlp.ffn // tp, model.mlp.gated))
    for width, gated in widths:
        yield width * (2 if gated else 1), h
        yield h, width
    if model.mtp_layers:
        yield h // tp, 2 * h
