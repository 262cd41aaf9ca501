"""The formulas by which papers and projects state FLOPs, so that an MFU can be put beside theirs.

`flops.py` counts what a description needs. These closed forms are what published tables divide by, each with its own
idea of attention, vocabulary and recomputation. All return FLOPs per token of one optimizer step.

Symbols: N parameters, L layers, h hidden, s sequence length, V vocabulary, a heads, d head width.
"""

from __future__ import annotations

from collections.abc import Callable

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number
from lockstep.describe.workload.architecture import Transformer
from lockstep.describe.workload.parameters import parameters


@dataclass(frozen=True, slots=True)
class Convention:
    """A named way to count. `recomputed` says that recomputation is in it: it gives HFU rather than MFU."""

    name: str
    formula: str
    source: str
    recomputed: bool
    per_token: Callable[[Transformer, Number], Number]


def six_n(model: Transformer, seq: Number) -> Number:
    """6N, with N the parameters that a token uses (all of them in a dense model)."""
    return 6 * parameters(model).active + 0 * seq


def palm(model: Transformer, seq: Number) -> Number:
    """6N + 12 L a d s: attention in full, even where it is causal."""
    return 6 * parameters(model).active + 12 * model.layers * model.attention.query_width * seq


def narayanan(model: Transformer, seq: Number) -> Number:
    """96 L h^2 (1 + s/6h + V/16Lh): full recomputation included."""
    return 96 * _layer(model) * (1 + seq / (6 * model.hidden) + model.vocab / (16 * model.layers * model.hidden))


def korthikanti_model(model: Transformer, seq: Number) -> Number:
    """72 L h^2 (1 + s/6h + V/12Lh)."""
    return 72 * _layer(model) * (1 + seq / (6 * model.hidden) + _head(model))


def korthikanti_selective(model: Transformer, seq: Number) -> Number:
    """72 L h^2 (1 + s/3h + V/12Lh), as printed.

    One more forward pass of the attention core, 4 s h per layer, would make s/4.5h; the paper's HFUs (43.7 % for
    22B, 52.8 % for 175B) follow from s/3h, so this convention keeps it.
    """
    return 72 * _layer(model) * (1 + seq / (3 * model.hidden) + _head(model))


def _layer(model: Transformer) -> int:
    return model.layers * model.hidden**2


def _head(model: Transformer) -> float:
    return model.vocab / (12 * model.layers * model.hidden)


CONVENTIONS = {
    each.name: each
    for each in (
        Convention("6n", "6 N", "Kaplan et al. 2020 (arXiv 2001.08361), section 2.1", False, six_n),
        Convention("palm", "6 N + 12 L a d s", "Chowdhery et al. 2022 (arXiv 2204.02311), appendix B", False, palm),
        Convention(
            "megatron-full-recompute",
            "96 L h^2 (1 + s/6h + V/16Lh)",
            "Narayanan et al. 2021 (arXiv 2104.04473), equation 3",
            True,
            narayanan,
        ),
        Convention(
            "megatron-model",
            "72 L h^2 (1 + s/6h + V/12Lh)",
            "Korthikanti et al. 2022 (arXiv 2205.05198), appendix A",
            False,
            korthikanti_model,
        ),
        Convention(
            "megatron-selective-recompute",
            "72 L h^2 (1 + s/3h + V/12Lh)",
            "Korthikanti et al. 2022 (arXiv 2205.05198), appendix A",
            True,
            korthikanti_selective,
        ),
    )
}


def convention(name: str) -> Convention:
    """The convention called `name`. Raises UnknownName."""
    found = CONVENTIONS.get(name)
    if found is None:
        raise UnknownName("FLOP convention", name, CONVENTIONS)
    return found


def narayanan_parameters(model: Transformer) -> float:
    """Parameters by 12 L h^2 (1 + 13/12h + (V + s)/12Lh): the totals of Narayanan et al. 2021, equation 2."""
    layers, hidden = model.layers, model.hidden
    tables = (model.vocab + model.max_positions) / (12 * layers * hidden)
    return 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + tables)
