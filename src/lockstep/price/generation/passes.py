"""`Passes`: seconds of one pass of an engine over its layers, for tokens that decode and tokens of prompts.

    decode step of n sequences          T(n) = A(n) + sum over kinds of layers of s_kind * sum over sequences min(c, w)
    a prompt beside a decode step       A(n + P) - A(n) + attention of the prompt

A(m) has what depends on the number of tokens alone: products, experts, exchanges, small kernels, the head. With
pipeline stages a sequence's token passes all of them, and p parts of the batch are in flight, one in each: a step of
all sequences takes p times the slowest stage with n / p of them.

Symbols: n sequences of an engine, m tokens, c context and w window of a sequence in a layer, s seconds per token of
context, P tokens of a prompt, p stages.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lockstep.base.types.arrays import Number
from lockstep.describe.workload.kind import LayerKind
from lockstep.price.generation import attention, exchange, experts, products
from lockstep.price.generation.engine import WIDE_B, Engine

STREAMS = 4
"""Kernels of a whole layer that only move activations: two norms with the residual sum, rotary angles with the write to
the cache, the activation between products."""
ROUTING = 3
"""The same that experts add: choice, order of rows, weighted sum."""


@dataclass(frozen=True)
class Passes:
    """What passes of an engine cost; all methods broadcast."""

    engine: Engine

    @cached_property
    def kinds(self) -> Counter[LayerKind]:
        """Layers of the slowest stage by kind: the last, as many as any and the head."""
        kinds = self.engine.model.kinds
        return Counter(kinds[len(kinds) - math.ceil(len(kinds) / self.engine.pp) :])

    @cached_property
    def context_s(self) -> dict[int, float]:
        """Seconds per token of context that sequences of one group read, by window (0 none), all stages together."""
        found: dict[int, float] = {}
        for kind, times in self.kinds.items():
            if kind.attends:
                own = attention.decode_s_per_token(self.engine, kind) * times / self.engine.dp
                found[kind.window] = found.get(kind.window, 0.0) + own
        return found

    def tokens_s(self, tokens: Number, rows: Number | None = None) -> Number:
        """A(m): seconds of a pass of `tokens`, of which `rows` (all) get logits; without attention to any context."""
        engine = self.engine
        parts = np.asarray(tokens, dtype=float) / engine.pp
        here = parts / engine.dp
        found: Number = 0.0
        for kind, times in self.kinds.items():
            found = found + times * self._layer_s(kind, here, parts)
        logits = here if rows is None else np.asarray(rows, dtype=float) / engine.pp / engine.dp
        head_s = sum(one.seconds(engine, logits) for one in products.head_products(engine))
        return engine.pp * (found + head_s + exchange.stages_s(engine, here))

    def step_s(self, sequences: Number, contexts: dict[int, Number]) -> Number:
        """Seconds of a decode step; `contexts` are the tokens that sequences read together, by window."""
        read_s = sum(rate * contexts[window] for window, rate in self.context_s.items())
        return self.tokens_s(sequences) + read_s

    def equal_step_s(self, sequences: Number, context: Number) -> Number:
        """Seconds of a decode step of sequences that all have the same context."""
        reach = {window: np.minimum(context, window) if window else context for window in self.context_s}
        return self.step_s(sequences, {window: sequences * each for window, each in reach.items()})

    def prompt_s(self, prompts: Number, tokens: Number, past: Number = 0.0) -> Number:
        """Seconds of attention for so many prompts of `tokens` each after `past` ones, all groups side by side."""
        one_s: Number = 0.0
        for kind, times in self.kinds.items():
            one_s = one_s + times * attention.prefill_s(self.engine, kind, tokens, past)
        return one_s * prompts / self.engine.dp

    def prefill_s(self, prompts: Number, tokens: Number, beside: Number = 0.0, past: Number = 0.0) -> Number:
        """Seconds that so many prompts add to a decode step of `beside` sequences; chunks are whole passes."""
        new = np.asarray(prompts * tokens, dtype=float)
        room = self.engine.pass_tokens
        full = np.floor(new / room)
        rest = new - full * room
        first = np.where(rest > 0, self.tokens_s(beside + rest, beside + prompts), 0.0)
        first = first - np.where(np.asarray(beside) > 0, np.where(rest > 0, self.tokens_s(beside), 0.0), 0.0)
        return first + full * self.tokens_s(room, prompts) + self.prompt_s(prompts, tokens, past)

    def _layer_s(self, kind: LayerKind, here: Number, parts: Number) -> Number:
        """A layer for `here` tokens of a group, `parts` of all groups of a stage."""
        engine = self.engine
        seconds = sum(one.seconds(engine, here) for one in products.layer_products(engine, kind))
        if kind.experts:
            seconds = seconds + experts.experts_s(engine, parts)
        seconds = seconds + attention.decode_start_s(engine, kind, here)
        return seconds + self._streams_s(kind, here) + exchange.layer_exchange_s(engine, kind, here)

    def _streams_s(self, kind: LayerKind, here: Number) -> Number:
        """Kernels that move activations: each reads and writes rows of the hidden width, or takes a launch."""
        device = self.engine.cluster.device
        kernels = STREAMS * (kind.residual_blocks / 2) + ROUTING * kind.experts
        row_B = 3.0 * self.engine.model.hidden * WIDE_B
        moved_s = here * row_B / (device.memory_bandwidth_Bps * device.efficiency.stream_frac)
        return kernels * np.maximum(moved_s, device.efficiency.launch_s)


def passes_of(engine: Engine) -> Passes:
    """What passes of an engine cost."""
    return Passes(engine)
