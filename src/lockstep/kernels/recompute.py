"""Kernel work that recomputation runs again before the backward pass of a layer.

    full         the layer's forward pass
    selective    of it, the modules that the recipe names (`workload/piece.py`)

Where nothing reads what comes out of the last product (`Habits.recompute_stops`), it is not run again: of a layer that
ends in a dense feed-forward block, the down product and its casts. XLA leaves out what nothing reads; PyTorch's
checkpointing without re-entry stops at the last tensor that the backward pass needs.

Sources: PyTorch 2.1 and later, torch/utils/checkpoint.py (set_checkpoint_early_stop; pull request 90105); JAX,
jax/_src/ad_checkpoint.py (remat_partial_eval removes dead code from what is run again).
"""

from __future__ import annotations

from lockstep.kernels.clock import Work
from lockstep.kernels.experts import clamped
from lockstep.kernels.feed_forward import activation, feed_forward
from lockstep.kernels.layer import LayerWork, turned_heads, up_projections
from lockstep.kernels.norms import norms
from lockstep.kernels.shard import Passes, Shard
from lockstep.workload import LayerKind, Mlp


def whole_again(shard: Shard, kind: LayerKind, work: LayerWork) -> Work:
    """What full recomputation runs again of a layer with the kernels `work`."""
    return work.forward + _unread(shard, kind) * -1.0


def modules_again(shard: Shard, kind: LayerKind, core: Passes) -> Work:
    """What selective recomputation runs again: forward work of the modules that it throws away."""
    model, modules = shard.model, shard.recipe.recompute_modules
    latent, moe = model.attention.latent if kind.attends else None, model.experts if kind.experts else None
    mlp = model.mlp if kind.block == "dense" else None
    parts = [core.forward] if {"core_attn", "context"} & {*modules} and kind.attends else []
    if "layernorm" in modules:
        parts.append(norms(shard, kind).forward)
    if "out_proj" in modules and kind.attends:
        width = model.attention.out_width / shard.grid.tp
        parts.append(shard.product(shard.tokens, model.hidden, width).forward)
    if "op" in modules:
        parts.append(_every_second(shard, kind, mlp))
    if "mla_up_proj" in modules and latent:
        parts.append(up_projections(shard, latent, model.attention.heads / shard.grid.tp).forward)
    if mlp:
        parts += _of_mlp(shard, kind, mlp)
    if "moe_act" in modules and moe:
        width = moe.ffn / shard.grid.expert_tp
        parts.append(activation(shard, width, shard.routed_tokens * moe.top_k, 1, moe.gated).forward)
        parts.append(clamped(shard, moe).forward)
        parts.append(activation(shard, moe.shared_ffn / shard.grid.tp, shard.tokens, 1, moe.gated).forward)
    return sum(parts, Work())


def _of_mlp(shard: Shard, kind: LayerKind, mlp: Mlp) -> list[Work]:
    """Of a dense block, all of it, or its activation function alone."""
    modules, width = shard.recipe.recompute_modules, mlp.ffn / shard.grid.tp
    if "mlp" in modules:
        return [feed_forward(shard, width, shard.tokens, 1, mlp.gated).forward, _unread(shard, kind) * -1.0]
    return [activation(shard, width, shard.tokens, 1, mlp.gated).forward] if "mlp_act" in modules else []


def stops_early(shard: Shard, kind: LayerKind) -> bool:
    """Whether the down product that ends a layer is not run again, nor added up; a norm or an adapter would read it."""
    model, adapters = shard.model, shard.recipe.adapters
    read = model.norm_placement != "pre" or (adapters is not None and "down_proj" in adapters.targets)
    return shard.recipe.habits.recompute_stops and kind.block == "dense" and model.mlp is not None and not read


def _unread(shard: Shard, kind: LayerKind) -> Work:
    """The product with which a recomputed layer need not end."""
    model = shard.model
    if not stops_early(shard, kind) or model.mlp is None:
        return Work()
    return shard.product(shard.tokens, model.hidden, model.mlp.ffn / shard.grid.tp).forward


def _every_second(shard: Shard, kind: LayerKind, mlp: Mlp | None) -> Work:
    """What recomputation per operation runs again of a layer: key and output projection, up (or, without a gate, down),
    the norms, the activation, and what turns queries and keys over to attention: rotary embedding and repeated heads.
    """
    attention, tokens, h = shard.model.attention, shard.tokens, shard.model.hidden
    parts = norms(shard, kind)
    if attention.latent is None and kind.attends:
        width = attention.heads / shard.grid.tp * attention.head_dim
        each = shard.product(tokens, shard.kv_heads * attention.head_dim, h) + shard.product(tokens, h, width)
        parts += each + each if kind.crosses else each
        parts += turned_heads(shard, tokens * width, tokens * shard.kv_heads * attention.head_dim)
    if mlp:
        width = mlp.ffn / shard.grid.tp
        parts += shard.product(tokens, width, h) if mlp.gated else shard.product(tokens, h, width)
        parts += activation(shard, width, tokens, 1, mlp.gated)
    return parts.forward
