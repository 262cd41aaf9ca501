"""Megatron-LM flags of a model's shape, and the reasons why a model has none.

Names as in megatron/training/arguments.py (see `megatron.py`). The vocabulary is given before Megatron pads it to a
multiple of --make-vocab-size-divisible-by times tp: the largest that adds no row, where there is one.
"""

from __future__ import annotations

from lockstep.decide.planner.export.megatron_positions import position_flags, refuse_positions
from lockstep.decide.planner.export.refusals import Refusals
from lockstep.describe.workload import Attention, Experts, Mlp, Transformer
from lockstep.price.layout import Recipe

POSITIONS = {"rotary": "rope", "learned": "learned_absolute", "none": "none"}
VOCAB_MULTIPLES = (128, 64, 32, 16, 8)
"""Smaller ones make slow products; then Megatron's own padding, to 128 tp, is left to it."""
NORMS = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}

Flags = dict[str, object]
"""Flag (without dashes) to its value; True for a flag without one."""


def shape_flags(model: Transformer, seq: int, tp: int = 1) -> Flags:
    """Flags of the model's shape."""
    experts = model.experts
    ffn = model.mlp.ffn if model.mlp else experts.ffn if experts else 0
    flags: Flags = {
        "num-layers": model.layers,
        "hidden-size": model.hidden,
        "ffn-hidden-size": ffn,
        **_attention(model.attention, model.hidden),
        "seq-length": seq,
        "max-position-embeddings": max(seq, model.max_positions),
        "position-embedding-type": POSITIONS[model.positions],
        "normalization": NORMS[model.norm],
        "vocab-size": model.vocab,
        **position_flags(model),
    }
    whole = next((number for number in VOCAB_MULTIPLES if model.vocab % (number * tp) == 0), None)
    if whole is not None:
        flags["make-vocab-size-divisible-by"] = whole
    activation = _feed_forward(model)
    if activation.gated:
        flags["swiglu"] = True
    elif activation.activation == "relu2":
        # Fusion with a bias is the default, and knows no squared ReLU.
        flags |= {"squared-relu": True, "no-bias-gelu-fusion": True}
    if not model.tied_embeddings:
        flags["untie-embeddings-and-output-weights"] = True
    if _biases(model) != {True}:
        flags["disable-bias-linear"] = True
        if model.attention.qkv_bias:
            flags["add-qkv-bias"] = True
    if experts:
        flags |= _experts(model, experts)
    if model.mtp_layers:
        flags["mtp-num-layers"] = model.mtp_layers
    return flags


def _attention(attention: Attention, hidden: int) -> Flags:
    """Flags of heads, grouped queries, latent attention and windows."""
    flags: Flags = {"num-attention-heads": attention.heads}
    latent = attention.latent
    if latent:
        flags |= {"multi-latent-attention": True, "kv-lora-rank": latent.kv_rank, "qk-head-dim": latent.nope_dim}
        flags |= {"qk-pos-emb-head-dim": latent.rope_dim, "v-head-dim": latent.value_dim}
        if latent.q_rank:
            flags["q-lora-rank"] = latent.q_rank
    if not latent or hidden % attention.heads:
        # Latent attention does not use it, but without it heads must divide the hidden size.
        flags["kv-channels"] = attention.head_dim
    if attention.kv_heads != attention.heads:
        flags |= {"group-query-attention": True, "num-query-groups": attention.kv_heads}
    # Latent attention norms its bottlenecks under the same flag.
    if attention.qk_norm == "head" or latent:
        flags["qk-layernorm"] = True
    if attention.window:
        flags["window-size"] = f"{attention.window - 1},0"
        if attention.global_every:
            flags["window-attn-skip-freq"] = attention.global_every
    return flags


def _experts(model: Transformer, experts: Experts) -> Flags:
    """Flags of a mixture of experts."""
    pattern = ",".join("1" if has else "0" for has in model.expert_layers)
    flags: Flags = {
        "num-experts": experts.experts,
        "moe-router-topk": experts.top_k,
        "moe-ffn-hidden-size": experts.ffn,
        "moe-layer-freq": f"([{pattern}])",
        "moe-token-dispatcher-type": "alltoall",
        "moe-grouped-gemm": True,
    }
    if not experts.router_normalized:
        flags["moe-router-pre-softmax"] = True
    if experts.router_scale != 1:
        flags["moe-router-topk-scaling-factor"] = experts.router_scale
    if experts.shared_ffn:
        flags["moe-shared-expert-intermediate-size"] = experts.shared_ffn
    if experts.top_groups < experts.groups:
        flags |= {"moe-router-num-groups": experts.groups, "moe-router-group-topk": experts.top_groups}
    if experts.correction_bias:
        flags |= {"moe-router-score-function": "sigmoid", "moe-router-enable-expert-bias": True}
    return flags


def _feed_forward(model: Transformer) -> Mlp | Experts:
    """What tells the activation: Megatron has one for the dense block and the experts."""
    found = model.mlp or model.experts
    if found is None:
        raise TypeError("a transformer has a feed-forward block or experts")
    return found


def _biases(model: Transformer) -> set[bool]:
    """Whether the linear layers have biases: one value when they agree."""
    attention, mlp = model.attention, model.mlp
    found = {attention.qkv_bias, attention.out_bias}
    return found | ({mlp.in_bias, mlp.out_bias} if mlp else {False})


def recomputed_modules(recipe: Recipe, model: Transformer) -> tuple[str, ...]:
    """The modules of selective recomputation that the model has; Megatron rejects the others."""
    lacking = {
        "mla_up_proj": model.attention.latent is None,
        "mlp": not model.num_dense_layers,
        "moe": model.experts is None,
        "shared_experts": model.experts is None or not model.experts.shared_ffn,
        "moe_act": model.experts is None,
    }
    return tuple(module for module in recipe.recompute_modules if not lacking.get(module, False))


def refuse_shape(model: Transformer, no: Refusals) -> None:
    """Notes everything about the model that has no flag."""
    attention, mlp = model.attention, model.mlp
    no.when(not attention.causal and model.patches is None, "an encoder is trained by another script with other flags")
    no.when(model.positions not in POSITIONS, f"positions {model.positions}")
    no.when(model.norm not in NORMS, f"norm {model.norm}")
    no.when(model.norm_placement != "pre", f"norms placed {model.norm_placement}")
    no.when(not model.final_norm, "a model without a final norm")
    no.when(model.parallel_block, "attention and feed-forward in parallel")
    no.when(model.embedding_norm, "a norm on embeddings")
    no.when(model.head_bias, "a bias in the output layer")
    no.when(bool(model.extra_positions), "extra rows of learned positions")
    no.when(attention.qk_norm not in ("none", "head"), f"query and key norms of kind {attention.qk_norm}")
    no.when(bool(attention.first_local), "windows that begin after the first layers")
    found = _feed_forward(model)
    known = found.activation == "silu" if found.gated else found.activation in ("gelu", "gelu_new", "relu2")
    gated = "gated " if found.gated else ""
    no.when(not known, f"activation {gated}{found.activation}")
    only_qkv = attention.qkv_bias and not (attention.out_bias or (mlp and (mlp.in_bias or mlp.out_bias)))
    no.when(len(_biases(model)) > 1 and not only_qkv, "biases in some linear layers only")
    no.when(model.scaled_stream, "multipliers on embeddings, residuals, scores or logits")
    _refuse_layers(model, no)
    refuse_positions(model, no)
    if model.experts:
        _refuse_experts(model, model.experts, no)


def _refuse_layers(model: Transformer, no: Refusals) -> None:
    """Notes kinds of layers and of attention that have no flag here."""
    attention = model.attention
    no.when(model.recurrent is not None, "recurrent layers: its hybrid models are trained by another script")
    no.when(bool(model.pattern) and model.recurrent is None, "layers of several kinds in a pattern")
    no.when(attention.sinks, "attention sinks")
    no.when(attention.gated, "a gate on the output of attention")
    no.when(attention.chunked, "attention in chunks")


def _refuse_experts(model: Transformer, experts: Experts, no: Refusals) -> None:
    """Notes everything about the experts that has no flag."""
    mlp = model.mlp
    no.when(bool(mlp and mlp.gated != experts.gated), "experts with another activation than the dense layers")
    no.when(experts.shared_gate, "a gate on the shared expert")
    no.when(experts.router_bias, "a bias in the router")
    no.when(experts.in_bias or experts.out_bias or experts.shared_bias, "biases in experts")
    no.when(_biases(model) == {True}, "biases in every linear layer except the experts'")
    alone = experts.top_k == 1 and experts.router_normalized
    no.when(alone, "top-1 routing with normalized weights: it uses the router's own weight")
    scaled = experts.router_scale != 1 and experts.router_normalized and not experts.correction_bias
    no.when(scaled, "expert weights scaled after they are normalized")
    no.when(experts.correction_bias and not experts.router_normalized, "sigmoid routing without normalized weights")
