"""The layer-wise trust ratio that LARS and LAMB share: |w| over the length of what would move it."""

from __future__ import annotations

from lockstep.methods.arrays import Array, namespace, norm


def trust_ratio(weight: Array, length: Array) -> Array:
    """|w| / length, and 1 where either is 0: a layer of zeros must be able to leave zero."""
    library, weight_norm = namespace(weight), norm(weight)
    usable = (weight_norm > 0) & (length > 0)
    one = library.ones_like(weight_norm)
    return library.where(usable, weight_norm / library.where(usable, length, one), one)
