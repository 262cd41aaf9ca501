"""Every weight tensor of a model, listed once: name, shape, copies, and how tensor and expert parallelism cut it.

Parameter counts (`parameters.py`) and matmul FLOPs (`flops.py`) are sums over these lists, so a number can always be
traced to the tensors behind it. Shapes are (inputs, outputs) for matrices. A fused projection (qkv, gate and up) is
listed as its parts.

Sources: Megatron-LM (Shoeybi et al. 2019, section 3) for what is cut: attention by heads, the feed-forward block by
its inner width, embedding and head by vocabulary. Norms, the router, biases of row-parallel layers and the low-rank
projections of latent attention are replicated over tp. Keys and values are cut at most kv_heads ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from lockstep.describe.workload.architecture import Attention, Experts, Mlp, Transformer
from lockstep.describe.workload.kind import DENSE, LayerKind
from lockstep.describe.workload.weight import Cut, Weight


@lru_cache(maxsize=256)
def layer_weights(model: Transformer, kind: LayerKind = DENSE) -> tuple[Weight, ...]:
    """The weights of one layer of a kind."""
    names = [f"norm {number + 1}" for number in range(model.norms_of(kind))]
    norms = (weight for name in names for weight in _norm(model, name))
    modulated = model.modulation.layer_weights(model.hidden) if model.modulation else ()
    return (*_mixer(model, kind), *_block(model, kind), *norms, *modulated)


def _mixer(model: Transformer, kind: LayerKind) -> Iterator[Weight]:
    """The weights of attention or of a recurrent mixer."""
    if kind.attends:
        yield from _latent(model) if model.attention.latent else _attention(model)
        if kind.crosses:
            yield from (replace(one, name=f"cross {one.name}") for one in _attention(model))
    elif kind.mixer == "recurrent":
        if model.recurrent is None:
            raise ValueError(f"{model.name} has no recurrent layers")
        yield from model.recurrent.weights(model.hidden)


def _block(model: Transformer, kind: LayerKind) -> Iterator[Weight]:
    """The weights of the feed-forward block."""
    if kind.experts:
        if model.experts is None:
            raise ValueError(f"{model.name} has no experts")
        yield from _experts(model.hidden, model.experts)
    elif kind.block == "dense":
        if model.mlp is None:
            raise ValueError(f"{model.name} has no dense feed-forward block")
        yield from _mlp(model.hidden, model.mlp)


@lru_cache(maxsize=256)
def embedding_weights(model: Transformer) -> tuple[Weight, ...]:
    """Token, position and segment tables, or the projection of patches; and the norm on them."""
    if model.patches is not None:
        found = [*model.patches.weights(model.hidden)]
        if model.modulation is not None and not model.modulation.own:
            found.extend(model.modulation.embedders(model.hidden))
    else:
        found = [Weight("token embedding", "embedding", (model.vocab, model.hidden), "vocab")]
    if model.positions == "learned":
        rows = model.max_positions + model.extra_positions
        found.append(Weight("position embedding", "positions", (rows, model.hidden)))
    if model.positions == "relative":
        table = Weight("position scores", "positions", (model.attention.heads, model.buckets), "tensor")
        found.extend([table] * (2 if model.encoder_layers else 1))
    if model.token_types:
        found.append(Weight("segment embedding", "embedding", (model.token_types, model.hidden)))
    if model.embedding_norm:
        found.extend(_norm(model, "embedding norm"))
    return tuple(found)


@lru_cache(maxsize=256)
def head_weights(model: Transformer) -> tuple[Weight, ...]:
    """What follows the last layer: final norm, projection onto the vocabulary unless tied, pooler, MLM head,
    classifier; an image's classifier or pixels.
    """
    hidden = model.hidden
    found = list(_norm(model, "final norm")) if model.final_norm else []
    if model.final_norm and model.encoder_layers:
        found.extend(_norm(model, "encoder final norm"))
    if model.mlm_head:
        found.append(Weight("mlm dense", "head", (hidden, hidden)))
        found.append(Weight("mlm dense bias", "head", (hidden,)))
        found.extend(_norm(model, "mlm norm"))
    if model.has_head and not model.tied_embeddings:
        found.append(Weight("head", "head", (model.vocab, hidden), "vocab"))
    if model.head_bias:
        found.append(Weight("head bias", "head", (model.vocab,), "vocab"))
    if model.mlm_head and model.head_bias and not model.tied_embeddings:
        # The class of a projection of its own keeps the bias of the tied one too (modeling_bert.py, 5.24).
        found.append(Weight("mlm head bias", "head", (model.vocab,), "vocab"))
    if model.pooler:
        found.append(Weight("pooler", "head", (hidden, hidden), per_sequence=True))
        found.append(Weight("pooler bias", "head", (hidden,)))
    if model.classifier is not None:
        found.extend(model.classifier.weights(hidden))
    if model.patches is not None:
        found.extend(model.patches.head_weights(hidden))
    if model.modulation is not None:
        found.extend(model.modulation.head_weights(hidden))
    return tuple(found)


@lru_cache(maxsize=256)
def mtp_weights(model: Transformer) -> tuple[Weight, ...]:
    """One multi-token-prediction module; embedding and head are those of the main model (DeepSeek-V3, 2.2)."""
    names = ("mtp embedding norm", "mtp hidden norm", "mtp final norm")
    norms = (weight for name in names for weight in _norm(model, name))
    joint = Weight("mtp projection", "mlp", (2 * model.hidden, model.hidden))
    return (joint, *norms, *layer_weights(model, model.kinds[-1].stored))


def _norm(model: Transformer, name: str, width: int | None = None, cut: Cut = "none") -> Iterator[Weight]:
    """Scale, and bias for a plain LayerNorm; nothing when nonparametric."""
    shape = (width or model.hidden,)
    if model.norm != "nonparametric":
        yield Weight(name, "norms", shape, cut)
    if model.norm == "layernorm":
        yield Weight(f"{name} bias", "norms", shape, cut)


def _attention(model: Transformer) -> Iterator[Weight]:
    """Query, key, value and output projections of ordinary attention."""
    attention, hidden = model.attention, model.hidden
    kv_width = attention.kv_heads * attention.head_dim
    kv, query_width = attention.kv_heads, attention.query_width + attention.gated * attention.out_width
    yield Weight("query", "attention", (hidden, query_width), "tensor")
    yield Weight("key", "attention", (hidden, kv_width), "kv", kv_heads=kv)
    yield Weight("value", "attention", (hidden, kv_width), "kv", kv_heads=kv)
    yield Weight("attention out", "attention", (attention.out_width, hidden), "tensor")
    if attention.sinks:
        yield Weight("attention sinks", "attention", (attention.heads,), "tensor")
    if attention.qkv_bias:
        yield Weight("query bias", "attention", (query_width,), "tensor")
        yield Weight("key bias", "attention", (kv_width,), "kv", kv_heads=kv)
        yield Weight("value bias", "attention", (kv_width,), "kv", kv_heads=kv)
    if attention.out_bias:
        yield Weight("attention out bias", "attention", (hidden,))
    yield from _qk_norms(attention, kv_width)


def _qk_norms(attention: Attention, kv_width: int) -> Iterator[Weight]:
    """Scales of the norms on queries and keys; these have no bias in any supported architecture."""
    if attention.qk_norm == "head":
        yield Weight("query norm", "norms", (attention.head_dim,))
        yield Weight("key norm", "norms", (attention.head_dim,))
    elif attention.qk_norm in ("per-head", "full"):
        yield Weight("query norm", "norms", (attention.query_width,), "tensor")
        yield Weight("key norm", "norms", (kv_width,), "kv", kv_heads=attention.kv_heads)


def _latent(model: Transformer) -> Iterator[Weight]:
    """Low-rank projections of latent attention (DeepSeek-V2 eq. 9 to 19); `down` parts are replicated over tp."""
    attention, hidden, latent = model.attention, model.hidden, model.attention.latent
    if latent is None:
        return
    if latent.q_rank is None:
        yield Weight("query", "attention", (hidden, attention.query_width), "tensor")
    else:
        yield Weight("query down", "attention", (hidden, latent.q_rank))
        yield from _norm(model, "query latent norm", latent.q_rank)
        yield Weight("query up", "attention", (latent.q_rank, attention.query_width), "tensor")
    yield Weight("key-value down", "attention", (hidden, latent.kv_rank + latent.rope_dim))
    yield from _norm(model, "key-value latent norm", latent.kv_rank)
    up = attention.heads * (latent.nope_dim + latent.value_dim)
    yield Weight("key-value up", "attention", (latent.kv_rank, up), "tensor")
    yield Weight("attention out", "attention", (attention.out_width, hidden), "tensor")
    if attention.qkv_bias and latent.q_rank is not None:
        yield Weight("query down bias", "attention", (latent.q_rank,))
    if attention.qkv_bias:
        yield Weight("key-value down bias", "attention", (latent.kv_rank + latent.rope_dim,))
    if attention.out_bias:
        yield Weight("attention out bias", "attention", (hidden,))


def _mlp(hidden: int, mlp: Mlp) -> Iterator[Weight]:
    """Up (and gate) and down projections of the dense block."""
    ffn = mlp.ffn
    for name in ("gate", "up") if mlp.gated else ("up",):
        yield Weight(name, "mlp", (hidden, ffn), "tensor")
        if mlp.in_bias:
            yield Weight(f"{name} bias", "mlp", (ffn,), "tensor")
    yield Weight("down", "mlp", (ffn, hidden), "tensor")
    if mlp.out_bias:
        yield Weight("down bias", "mlp", (hidden,))


def _experts(hidden: int, experts: Experts) -> Iterator[Weight]:
    """Router, routed experts (cut by ep, then inside by expert tp) and shared experts (cut by tp)."""
    count = experts.experts
    yield Weight("router", "router", (hidden, count))
    if experts.router_bias:
        yield Weight("router bias", "router", (count,))
    if experts.correction_bias:
        yield Weight("router correction bias", "router", (count,), trained=False)
    inward = ("gate", "up") if experts.gated else ("up",)
    for name in inward:
        yield Weight(f"expert {name}", "routed_experts", (hidden, experts.ffn), "expert", count, experts.top_k)
        if experts.in_bias:
            yield Weight(f"expert {name} bias", "routed_experts", (experts.ffn,), "expert", count, experts.top_k)
    yield Weight("expert down", "routed_experts", (experts.ffn, hidden), "expert", count, experts.top_k)
    if experts.out_bias:
        yield Weight("expert down bias", "routed_experts", (hidden,), "expert", count, experts.top_k)
    if experts.shared_ffn:
        for name in inward:
            yield Weight(f"shared {name}", "shared_experts", (hidden, experts.shared_ffn), "tensor")
            if experts.shared_bias:
                yield Weight(f"shared {name} bias", "shared_experts", (experts.shared_ffn,), "tensor")
        yield Weight("shared down", "shared_experts", (experts.shared_ffn, hidden), "tensor")
        if experts.shared_bias:
            yield Weight("shared down bias", "shared_experts", (hidden,))
    if experts.shared_gate:
        yield Weight("shared gate", "router", (hidden, 1))
