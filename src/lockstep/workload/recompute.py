"""What is thrown away after the forward pass and computed again: words and integer codes.

    none       everything is kept
    selective  the attention core (scores, softmax, dropout) is computed again (Korthikanti et al. 2022, section 5)
    full       only the input of each layer is kept (Chen et al. 2016, one segment per layer)

A stronger mode keeps less and computes more; the codes are ordered so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lockstep.errors import BadInput, UnknownName

RECOMPUTE = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)


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
