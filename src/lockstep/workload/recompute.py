"""What is thrown away after the forward pass and computed again: words and integer codes.

    none       everything is kept
    selective  chosen modules are computed again, by default the attention core (Korthikanti et al. 2022, section 5)
    full       only the input of each layer is kept (Chen et al. 2016, one segment per layer)

A stronger mode keeps less and computes more; the codes are ordered so. Modules, in the words of Megatron Core's
--recompute-modules, and what of them is thrown away:

    core_attn     scores, softmax and dropout, or the log-sum-exp of fused attention
    layernorm     outputs of the norms before attention, feed-forward block and latent projections
    mla_up_proj   queries, keys and values made from the latents of multi-head latent attention
    moe_act       outputs of the activation function in routed and shared experts
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.errors import BadInput, UnknownName

RECOMPUTE = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)
MODULES = ("core_attn", "layernorm", "mla_up_proj", "moe_act")


def recompute_code(mode: Any) -> Any:
    """The integer code (or array of codes) of a word, a code, or an array of codes."""
    if isinstance(mode, str):
        if mode not in RECOMPUTE:
            raise UnknownName("recompute mode", mode, RECOMPUTE, "recompute")
        return RECOMPUTE.index(mode)
    code = np.asarray(mode)
    if code.dtype.kind not in "iu" or (code.size and (code.min() < NONE or code.max() > FULL)):
        raise BadInput(f"recompute must be one of {', '.join(RECOMPUTE)} or a code 0 to 2", "recompute")
    return code if code.ndim else int(code)
