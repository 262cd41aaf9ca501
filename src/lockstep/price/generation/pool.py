"""`Pool`: memory of one rank of an engine, and how many tokens of context fit in what weights leave.

    pool = f M - weights - working memory          tokens = pool / bytes per token on the fullest rank

Working memory is what one pass of the most tokens keeps at a time: its widest pair of activations, and the logits of
the sequences in flight in fp32. f share of the memory that the engine may take, M memory of the device.
"""

from __future__ import annotations

import math

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Ints
from lockstep.base.types.plain import Json, picked
from lockstep.describe.workload.weight import Weight
from lockstep.describe.workload.weights import embedding_weights, head_weights, layer_weights
from lockstep.price.generation.cache import layer_sequence_B, layer_token_B
from lockstep.price.generation.engine import WIDE_B, Engine
from lockstep.price.generation.passes import Passes

LOGIT_B = 4.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Bytes of one rank, and what fits."""

    capacity_B: float
    """What the engine may take of the device."""
    weights_B: float
    working_B: float
    pool_B: float
    """Left for keys and values; 0 or less where weights do not fit."""
    token_B: float
    """Bytes that a token of context holds in layers that see all of it."""
    sequence_B: float
    """Bytes that a sequence holds whatever its length: recurrent states."""
    windows_B: tuple[tuple[int, float], ...] = ()
    """Bytes per token of layers that keep at most so many tokens: (window, bytes)."""
    groups: int = 1
    """Groups of sequences that have a pool of their own."""

    def sequence_of(self, context: float) -> float:
        """Bytes that a sequence with a context holds."""
        windows_B = sum(min(context, window) * size_B for window, size_B in self.windows_B)
        return self.sequence_B + context * self.token_B + windows_B

    def bytes_of(self, contexts: Ints) -> Floats:
        """The same of every one of some sequences."""
        found: Floats = np.full(len(contexts), self.sequence_B) + contexts * self.token_B
        for window, size_B in self.windows_B:
            found += np.minimum(contexts, window) * size_B
        return found

    @property
    def growth_B(self) -> float:
        """Bytes that a sequence's next token adds at most."""
        return self.token_B + sum(size_B for _, size_B in self.windows_B)

    def sequences(self, context: float) -> int:
        """Sequences with a context that the pools of all groups hold."""
        held_B = self.sequence_of(context)
        return max(0, math.floor(self.pool_B / held_B)) * self.groups if held_B > 0 else 10**9

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, without="windows_B groups")


def pool_of(engine: Engine) -> Pool:
    """Memory of the fullest rank of an engine."""
    kinds = Passes(engine).kinds
    token_B, sequence_B, windows = 0.0, 0.0, dict[int, float]()
    for kind, times in kinds.items():
        sequence_B += times * layer_sequence_B(engine, kind)
        own_B = times * layer_token_B(engine, kind)
        if kind.window:
            windows[kind.window] = windows.get(kind.window, 0.0) + own_B
        else:
            token_B += own_B
    capacity_B = engine.memory_frac * engine.cluster.device.memory_B
    weights_B, working_B = rank_weights_B(engine), _working_B(engine)
    left_B = capacity_B - weights_B - working_B
    return Pool(
        capacity_B, weights_B, working_B, left_B, token_B, sequence_B, tuple(sorted(windows.items())), engine.dp
    )


def rank_weights_B(engine: Engine) -> float:
    """Bytes of weights on one rank of the fullest stage: the last with the head, or the first, with the table."""
    model = engine.model
    layers_B = sum(
        times * sum(_held_B(engine, one) for one in layer_weights(model, kind.stored))
        for kind, times in Passes(engine).kinds.items()
    )
    table_B = sum(_held_B(engine, one) for one in embedding_weights(model))
    head_B = sum(_held_B(engine, one) for one in head_weights(model))
    if engine.pp == 1:
        return layers_B + table_B + head_B
    return layers_B + max(table_B, head_B + table_B * model.tied_embeddings)


def _held_B(engine: Engine, weight: Weight) -> float:
    """Bytes of a weight on one rank."""
    size_B = engine.format_of(weight.category)[0] if weight.is_matrix else WIDE_B
    return float(weight.per_rank_elems(engine.tp, engine.ep, engine.experts_tp)) * size_B


def _working_B(engine: Engine) -> float:
    """Bytes of activations that a pass keeps at a time, and of logits."""
    model = engine.model
    inner = model.mlp.ffn / engine.tp if model.mlp else 0.0
    if model.experts:
        inner = max(inner, model.experts.top_k * (model.hidden + model.experts.ffn / engine.experts_tp))
    kept = engine.pass_tokens * (2 * model.hidden + 2 * inner) * WIDE_B
    return kept + engine.most_sequences / engine.dp * model.vocab / engine.tp * LOGIT_B
