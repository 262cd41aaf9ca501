"""Bytes that sequences in flight hold: keys and values by token, states of recurrent layers by sequence.

Of one layer on one rank, per token of context:

    attention of any kind      2 max(1, kv / t) d b             kv heads are repeated where there are fewer than ranks
    latent attention           (r + p) b                        one latent for all heads, repeated on every rank
    recurrent                  none; a state of fixed size      elements of the state, b = 2, its convolution included

Symbols: t ranks that attention is cut over, kv heads of keys, d elements of a head, r width of the latent, p of its
rotary part, b bytes per element.
Sources: DeepSeek-V2 (arXiv 2405.04434), table 1; Mamba-2 (arXiv 2405.21060), section 6.
"""

from __future__ import annotations

from lockstep.describe.workload import Transformer
from lockstep.describe.workload.kind import LayerKind
from lockstep.describe.workload.recurrent import DeltaNet, Mamba
from lockstep.price.generation.engine import WIDE_B, Engine


def token_elems(model: Transformer, tp: int) -> float:
    """Elements that one token adds to the cache of one attention layer on one of `tp` ranks."""
    attention = model.attention
    if attention.latent:
        return attention.latent.kv_rank + attention.latent.rope_dim
    return 2 * max(1.0, attention.kv_heads / tp) * attention.head_dim


def state_elems(model: Transformer, tp: int) -> float:
    """Elements of one sequence's state in one recurrent layer on one of `tp` ranks."""
    mixer = model.recurrent
    if mixer is None:
        return 0.0
    if isinstance(mixer, Mamba):
        return mixer.inner * (mixer.state + mixer.conv) / tp
    if isinstance(mixer, DeltaNet):
        keys, values = mixer.key_heads * mixer.key_dim, mixer.heads * mixer.value_dim
        return (values * mixer.key_dim + (2 * keys + values) * mixer.conv) / tp
    return (mixer.inner * mixer.state + (mixer.inner + mixer.shared) * mixer.conv) / tp


def layer_token_B(engine: Engine, kind: LayerKind) -> float:
    """Bytes per token of context that a layer of a kind holds on one rank."""
    return token_elems(engine.model, engine.tp) * engine.kv_B if kind.attends else 0.0


def layer_sequence_B(engine: Engine, kind: LayerKind) -> float:
    """Bytes per sequence that a layer of a kind holds on one rank, whatever its length."""
    return state_elems(engine.model, engine.tp) * WIDE_B if kind.mixer == "recurrent" else 0.0
