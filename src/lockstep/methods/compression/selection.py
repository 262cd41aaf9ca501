"""Which entries travel, and how they come back: the common part of the sparsifiers."""

from __future__ import annotations

from lockstep.methods.arrays import Array, cast, namespace
from lockstep.methods.compression.compressor import Payload


def largest(vector: Array, count: int) -> Array:
    """Indices of the `count` entries of largest magnitude, ascending; of equal ones the first."""
    library = namespace(vector)
    sizes = library.abs(vector)
    if count >= len(vector):
        return library.arange(len(vector))
    if library.__name__ == "numpy":
        edge = library.partition(sizes, len(vector) - count)[len(vector) - count]
    else:
        edge = library.topk(sizes, count, sorted=True).values[-1]
    chosen = sizes > edge
    ties = nonzero(sizes == edge)
    chosen[ties[: count - int(chosen.sum())]] = True
    return nonzero(chosen)


def nonzero(mask: Array) -> Array:
    """Indices where a mask is true, ascending."""
    return namespace(mask).where(mask)[0]


def sparse(vector: Array, indices: Array, index_bits: int) -> Payload:
    """The entries at `indices` with their indices."""
    return Payload((vector[indices], cast(indices, f"int{index_bits}")), len(vector))


def scattered(values: Array, indices: Array, num_elems: int) -> Array:
    """A vector of zeros with `values` at `indices`."""
    library = namespace(values)
    place = {} if library.__name__ == "numpy" else {"device": values.device}
    vector = library.zeros(num_elems, dtype=values.dtype, **place)
    vector[indices] = values
    return vector
