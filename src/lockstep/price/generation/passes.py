"""`Passes`: seconds of one pass of an engine over its layers, for tokens that decode and tokens of prompts.

    decode step of n sequences          T(n) = A(n) + sum over windows w of s_w * sum over sequences min(c, w)
    a prompt beside a decode step       A(n + P) - A(n) + attention of the prompt

A(m) has what depends on the number of tokens alone: products, experts, exchanges, small kernels, head, host. With
pipeline stages a sequence's token passes all of them, and p parts of the batch are in flight, one in each: a step of
all sequences takes p times the slowest stage with n / p of them.

Symbols: n sequences of an engine, m tokens, c context and w window of a sequence in a layer, s seconds per token of
context, P tokens of a prompt, p stages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats, Number, Whole
from lockstep.describe.workload import Transformer
from lockstep.describe.workload.kind import LayerKind
from lockstep.price.generation import attention, exchange, experts, products
from lockstep.price.generation.engine import WIDE_B, Engine

PARTS = ("products", "experts", "exchange", "small kernels", "head", "host")
"""Of a pass, beside attention to contexts."""
BY_SEQUENCE = ("head", "host")
"""Those that are of sequences which get a token."""


@dataclass(frozen=True)
class Passes:
    """What passes of an engine cost; all methods broadcast. Tokens and sequences are whole numbers."""

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

    @cached_property
    def parts_s(self) -> dict[str, Floats]:
        """Seconds of each part of a pass, by tokens; of the head and the host by sequences that get a token."""
        engine = self.engine
        parts = np.arange(engine.pass_tokens + engine.most_sequences + 1) / engine.pp
        here, found = parts / engine.dp, {part: np.zeros(len(parts)) for part in PARTS}
        for kind, times in self.kinds.items():
            for part, seconds in self._layer_s(kind, here, parts).items():
                found[part] += np.asarray(engine.pp * times * seconds, dtype=float)
        found["exchange"] += np.asarray(engine.pp * exchange.stages_s(engine, here), dtype=float)
        for product in products.head_products(engine):
            found["head"] += np.asarray(engine.pp * product.seconds(engine, here), dtype=float)
        found["host"] += engine.host_s * np.arange(len(parts))
        return found

    @cached_property
    def _body_s(self) -> Floats:
        """Seconds of the layers, by tokens of a pass."""
        return self._sum([part for part in PARTS if part not in BY_SEQUENCE])

    @cached_property
    def _ends_s(self) -> Floats:
        """Seconds of what follows the layers, by sequences."""
        return self._sum(BY_SEQUENCE)

    def _sum(self, parts: Iterable[str]) -> Floats:
        found: Floats = np.sum([self.parts_s[part] for part in parts], axis=0)
        return found

    def tokens_s(self, tokens: Whole, rows: Whole | None = None) -> Number:
        """A(m): seconds of a pass of `tokens`, of which `rows` (all) get a token; without attention to any context."""
        found: Number = self._body_s[tokens] + self._ends_s[tokens if rows is None else rows]
        return found

    def step_s(self, sequences: Whole, contexts: dict[int, Number]) -> Number:
        """Seconds of a decode step; `contexts` are the tokens that sequences read together, by window."""
        read_s = sum(rate * contexts[window] for window, rate in self.context_s.items())
        return self.tokens_s(sequences) + read_s

    def equal_step_s(self, sequences: Whole, context: Number) -> Number:
        """Seconds of a decode step of sequences that all have the same context."""
        reach = {window: np.minimum(context, window) if window else context for window in self.context_s}
        return self.step_s(sequences, {window: sequences * each for window, each in reach.items()})

    def prompt_s(self, prompts: Number, tokens: Number, past: Number = 0.0) -> Number:
        """Seconds of attention for so many prompts of `tokens` each after `past` ones, all groups side by side."""
        one_s: Number = 0.0
        for kind, times in self.kinds.items():
            one_s = one_s + times * attention.prefill_s(self.engine, kind, tokens, past)
        return one_s * prompts / self.engine.dp * self.engine.pp

    def prefill_s(self, prompts: Whole, tokens: Whole, beside: Whole = 0, past: Whole = 0) -> Number:
        """Seconds that so many prompts add to a decode step of `beside` sequences; chunks are whole passes."""
        full, rest = np.divmod(prompts * tokens, self.engine.pass_tokens)
        rows = np.minimum(prompts, self.engine.most_sequences)
        alone_s = np.where(np.asarray(beside) > 0, self.tokens_s(beside), 0.0)
        last_s = np.where(rest > 0, self.tokens_s(beside + rest, beside + rows) - alone_s, 0.0)
        return full * self.tokens_s(self.engine.pass_tokens, rows) + last_s + self.prompt_s(prompts, tokens, past)

    def _layer_s(self, kind: LayerKind, here: Floats, parts: Floats) -> dict[str, Number]:
        """The parts of a layer for `here` tokens of a group, `parts` of all groups of a stage."""
        engine = self.engine
        start_s = attention.decode_start_s(engine, kind, here)
        return {
            "products": sum(one.seconds(engine, here) for one in products.layer_products(engine, kind)),
            "experts": experts.experts_s(engine, parts) if kind.experts else 0.0,
            "small kernels": start_s + self._streams_s(kind, here),
            "exchange": exchange.layer_exchange_s(engine, kind, here),
        }

    def _streams_s(self, kind: LayerKind, here: Number) -> Number:
        """Kernels that move activations: each reads and writes three rows of its width, the hidden or the activation's
        inner one, or takes a launch.
        """
        model, device = self.engine.model, self.engine.cluster.device
        inner = model.mlp.ffn / self.engine.tp if model.mlp and kind.block == "dense" else 0.0
        rate_Bps = device.memory_bandwidth_Bps * device.efficiency.stream_frac
        one_s = np.maximum(here * 3.0 * model.hidden * WIDE_B / rate_Bps, device.efficiency.launch_s)
        return small_kernels(model, kind) * one_s + here * max(0.0, 3.0 * (inner - model.hidden)) * WIDE_B / rate_Bps


def small_kernels(model: Transformer, kind: LayerKind) -> int:
    """Kernels of a layer that only move activations.

    Norms, which take the residual sum with them; of attention rotary angles with the write to the cache, norms of
    queries and keys in one kernel, and norms of both latents with the second product by the up-projection; of a
    recurrent mixer its convolution and gated norm; of a dense block and of shared experts the activation. Those of
    routed experts are in `experts.py`.
    """
    attention, experts = model.attention, model.experts
    found = model.norms_of(kind) + (kind.block == "dense")
    if kind.attends:
        found += 1 + (attention.qk_norm != "none") + 3 * (attention.latent is not None)
    if kind.mixer == "recurrent":
        found += 2
    if kind.experts and experts is not None:
        found += experts.shared_ffn > 0
    return int(found)


def passes_of(engine: Engine) -> Passes:
    """What passes of an engine cost."""
    return Passes(engine)
