"""Codes of 1, 2, 4 or 8 bits in bytes, so that what is counted is what travels."""

from __future__ import annotations

from lockstep.methods.arrays import Array, cast, namespace


def packed_B(num_elems: int, bits: int) -> int:
    """Bytes of that many codes."""
    return -(-num_elems * bits // 8)


def pack(codes: Array, bits: int) -> Array:
    """Bytes that hold non-negative codes below 2**bits, the first code in the lowest bits."""
    library = namespace(codes)
    per_byte = 8 // bits
    padding = library.zeros_like(codes[:1]).repeat(-len(codes) % per_byte)
    rows = cast(library.concatenate((codes, padding)), "uint8").reshape(-1, per_byte)
    packed = rows[:, 0]
    for place in range(1, per_byte):
        packed = packed | (rows[:, place] << (bits * place))
    return packed


def unpack(packed: Array, bits: int, num_elems: int) -> Array:
    """The first `num_elems` codes, as whole numbers of 32 bits."""
    library = namespace(packed)
    columns = [(packed >> (bits * place)) & (2**bits - 1) for place in range(8 // bits)]
    return cast(library.stack(columns, 1).reshape(-1)[:num_elems], "int32")
