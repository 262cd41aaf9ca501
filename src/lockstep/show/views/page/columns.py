"""Columns of numbers inside JSON, small enough for a file and read by `columns.js` without a loop over digits.

A column is zlib-compressed little-endian bytes in base64, all first bytes of its values before all second ones, which
compresses numbers of similar size best. A column with few different values is an index into a table of them.
"""

from __future__ import annotations

import zlib
from base64 import b64encode

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json

KINDS = {"f8": "<f8", "u1": "u1", "u2": "<u2", "u4": "<u4"}
"""Name of a type -> its NumPy form."""


def packed(values: Array) -> Json:
    """A column of numbers in JSON: type, count and bytes; with `table`, the values that it counts into."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return _column(array, _whole(int(array.max(initial=0))))
    table, index = np.unique(array, return_inverse=True)
    if 4 * len(table) < len(array):
        return {**_column(index, _whole(len(table))), "table": _column(table, "f8")}
    return _column(array, "f8")


def _whole(largest: int) -> str:
    """The smallest type of whole numbers up to `largest`."""
    return next(kind for kind in ("u1", "u2", "u4") if largest <= np.iinfo(KINDS[kind]).max)


def _column(array: Array, kind: str) -> Json:
    plain = np.ascontiguousarray(array.reshape(-1).astype(KINDS[kind]))
    planes = plain.view(np.uint8).reshape(plain.size, plain.itemsize).T
    return {"type": kind, "count": plain.size, "bytes": b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")}


def unpacked(column: Json) -> Array:
    """The numbers of a column that `packed` made."""
    from base64 import b64decode

    plain = np.dtype(KINDS[column["type"]])
    planes = np.frombuffer(zlib.decompress(b64decode(column["bytes"])), np.uint8).reshape(plain.itemsize, -1)
    array = np.ascontiguousarray(planes.T).view(plain).reshape(-1)
    return unpacked(column["table"])[array] if "table" in column else array
