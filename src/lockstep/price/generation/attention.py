"""Attention of one pass on one rank: a decoded token reads all keys and values before it, a prompt attends to itself.

    decode, seconds per token of context      max(c / (B s), 2 a (q + v) / (P e))
    decode, seconds of any number             START_S: tables of pages, parts of the context apart, and their sum
    prefill of P tokens after C               2 a (q + v) (P C + P^2 / 2) FLOPs, at the rate of the device's kernel

Symbols: c bytes per token of context that a rank holds (`cache.py`), B memory bandwidth and s the share that streams
reach, a heads of a rank, q and v widths that scores and values have (of latent attention, decoding works on the latent:
q = r + p, v = r), P peak and e the share of it that the forward kernel reaches. Where layers have a window w, a token
reads min(context, w).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.kind import LayerKind
from lockstep.price.generation.cache import layer_sequence_B, layer_token_B
from lockstep.price.generation.engine import Engine
from lockstep.price.generation.products import clock_of

START_S = 11e-6
"""9 to 12 us in engines on H100, B200, B300 and GB300, where reading then goes at 0.82 to 0.91 of the bandwidth, as
streams do (fitted to attention alone, ai-dynamo/aiconfigurator@095f58a). Chosen after the tables of tokens were asked
first, and from kernels alone."""


def decode_s_per_token(engine: Engine, kind: LayerKind) -> float:
    """Seconds of one layer per token of context that sequences in flight read."""
    if not kind.attends:
        return 0.0
    device, attention = engine.cluster.device, engine.model.attention
    latent, heads = attention.latent, attention.heads / engine.tp
    widths = 2 * latent.kv_rank + latent.rope_dim if latent else attention.head_dim + attention.value_dim
    peak = device.peak(engine.wide) * float(clock_of(engine, engine.wide).attention[1].forward_frac)
    read_s = layer_token_B(engine, kind) / (device.memory_bandwidth_Bps * device.efficiency.stream_frac)
    return float(max(read_s, 2.0 * heads * widths / peak))


def decode_start_s(engine: Engine, kind: LayerKind, sequences: Number) -> Number:
    """Seconds of one layer whatever the context: launches, and states of recurrent layers, read and written."""
    device = engine.cluster.device
    if kind.attends:
        return START_S
    rate_Bps = device.memory_bandwidth_Bps * device.efficiency.stream_frac
    states_s = 2.0 * layer_sequence_B(engine, kind) * sequences / rate_Bps
    return np.maximum(states_s, device.efficiency.launch_s) if kind.mixer == "recurrent" else 0.0


def prefill_s(engine: Engine, kind: LayerKind, tokens: Number, past: Number = 0.0) -> Number:
    """Seconds of one layer's attention, or of its scan, for a prompt of so many tokens after `past` ones."""
    model = engine.model
    if kind.mixer == "recurrent" and model.recurrent is not None:
        flops = tokens * model.recurrent.core_flops(np.maximum(tokens, 1.0), "causal") / engine.tp
        scan_s: Number = clock_of(engine, engine.wide).arithmetic(flops).matmul_s
        return scan_s
    if not kind.attends:
        return 0.0
    attention = model.attention
    reach = float(kind.window) if kind.window else np.inf
    keys = _keys(tokens, past, reach)
    flops = 2.0 * attention.heads / engine.tp * (attention.head_dim + attention.value_dim) * keys
    length = np.maximum(np.minimum(tokens + past, reach), 1.0)
    work = clock_of(engine, engine.wide).fused_attention(flops, length, attention.head_dim, True)
    return np.where(np.asarray(tokens) > 0, work.attention_s, 0.0)


def _keys(tokens: Number, past: Number, reach: float) -> Number:
    """Keys that all queries of the prompt meet together: each those before it, at most `reach`."""
    whole = tokens * past + tokens * tokens / 2.0
    beyond = np.maximum(tokens + past - reach, 0.0)
    inside = np.maximum(past - reach, 0.0)
    found: Number = whole - (beyond**2 - inside**2) / 2.0
    return found
