"""Megatron-LM flags of rotary positions and norms, which tell one model from another of the same shape.

    base, share_frac     --rotary-base (a whole number), --rotary-percent
    llama3               --use-rope-scaling --rope-scaling-factor 8
    yarn                 with latent attention alone: --rope-type yarn --rotary-scaling-factor --mscale --mscale-all-dim
    none                 with latent attention: --rope-type rope --no-rope-fusion, which is made for yarn

Of llama3 the frequencies 1 and 4 and the 8,192 positions are fixed in megatron/core/models/common/embeddings/
rotary_pos_embedding.py; of yarn 32 and 1 and 4,096 positions are defaults of MLATransformerConfig without a flag.
gpt_builders.py hands neither --rope-scaling-factor nor --rotary-seq-len-interpolation-factor on to GPTModel, whose own
values hold: 8 and none.
Names as in megatron/training/arguments.py (see `megatron.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.decide.planner.export.refusals import Refusals
from lockstep.describe.workload import Rotary, Transformer

LLAMA3, LLAMA3_FACTOR = (1.0, 4.0, 8192), 8.0
YARN = (32.0, 1.0, 4096)
DEFAULT_BASE, DEFAULT_EPSILON = 10_000, 1e-5
"""Megatron's own, where nothing is said."""


def position_flags(model: Transformer) -> dict[str, object]:
    """Flags of norms and rotary positions, as far as the model's description has their numbers."""
    flags: dict[str, object] = {}
    if model.norm_epsilon is not None:
        flags["norm-epsilon"] = model.norm_epsilon
    if model.positions == "rotary" and model.rotary is not None:
        flags |= _rotary(model.rotary, model.attention.latent is not None)
    return flags


def _rotary(rotary: Rotary, latent: bool) -> dict[str, object]:
    flags: dict[str, object] = {"rotary-base": int(rotary.base)}
    if rotary.share_frac != 1:
        flags["rotary-percent"] = rotary.share_frac
    if latent:
        # Latent attention takes yarn unless it is told otherwise, and its fused kernel is for yarn alone.
        flags |= {"rope-type": "yarn"} if rotary.scaling == "yarn" else {"rope-type": "rope", "no-rope-fusion": True}
    if rotary.scaling == "yarn":
        flags |= {"rotary-scaling-factor": rotary.factor, "mscale": rotary.mscale}
        flags["mscale-all-dim"] = rotary.mscale_all_dim
    elif rotary.scaling == "llama3":
        flags |= {"use-rope-scaling": True, "rope-scaling-factor": rotary.factor}
    return flags


def unknown_numbers(model: Transformer) -> Iterator[str]:
    """What the model's description does not say, and what Megatron takes then."""
    if model.norm_epsilon is None:
        yield f"norm_epsilon is not known: Megatron's default holds, --norm-epsilon {DEFAULT_EPSILON:g}"
    if model.positions == "rotary" and model.rotary is None:
        yield f"rotary is not known: Megatron's default holds, --rotary-base {DEFAULT_BASE}"


def refuse_positions(model: Transformer, no: Refusals) -> None:
    """Notes rotary positions that have no flags."""
    rotary, latent = model.rotary, model.attention.latent is not None
    no.when(bool(model.mtp_layers) and model.positions == "learned", "multi-token prediction with learned positions")
    no.when(latent and model.positions != "rotary", "latent attention without rotary positions")
    if model.positions != "rotary" or rotary is None:
        return
    no.when(rotary.base != int(rotary.base), f"a rotary base of {rotary.base:g}, which is not whole")
    kind = rotary.scaling
    known = kind in ("none", "yarn") if latent else kind in ("none", "linear", "llama3")
    no.when(not known, f"rotary positions stretched by {kind}{' with latent attention' if latent else ''}")
    ignored = ": it parses the flag but does not pass it to the model"
    no.when(
        not latent and kind == "linear" and rotary.factor != 1, f"linear RoPE scaling by {rotary.factor:g}{ignored}"
    )
    other = kind == "llama3" and not latent and rotary.factor != LLAMA3_FACTOR
    no.when(other, f"llama3 RoPE scaling by {rotary.factor:g}{ignored}, which uses {LLAMA3_FACTOR:g}")
    fixed = (rotary.low_freq_factor, rotary.high_freq_factor, rotary.original_positions)
    no.when(kind == "llama3" and fixed != LLAMA3, f"llama3 frequencies {fixed}: it has {LLAMA3}")
    fixed = (rotary.beta_fast, rotary.beta_slow, rotary.original_positions)
    no.when(kind == "yarn" and latent and fixed != YARN, f"yarn numbers {fixed}: it has {YARN}")
