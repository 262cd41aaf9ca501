"""`Blocks`: what the ranks of a context-parallel group exchange for one layer and micro-batch."""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Number


@dataclass(frozen=True, slots=True)
class Blocks:
    """Bytes of a rank's own tokens, in the heads that tensor parallelism leaves it, and seconds of attention."""

    key_value_B: Number
    """Keys and values."""
    query_B: Number
    output_B: Number
    kv_heads: Number
    """Key and value heads on a rank."""
    core_s: tuple[Number, Number]
    """Attention core, forward and backward."""
