"""Real data that travels with the package. Licences: `SOURCES.md` beside this file."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files

import numpy as np

from lockstep.base.types.arrays import Array, Ints

BRIGHTEST = 16


def digits() -> tuple[Array, Ints]:
    """(pixels from 0 to 1 [1797, 64], classes from 0 to 9 [1797]) of handwritten digits, in the order of the file."""
    rows = _rows()
    return rows[:, :-1] / BRIGHTEST, rows[:, -1].astype(np.int64)


@cache
def _rows() -> Array:
    """The numbers of the file, which takes 40 ms to read."""
    packed = files(__package__).joinpath("digits.csv.gz").read_bytes()
    return np.array([line.split(",") for line in gzip.decompress(packed).decode().split()], dtype=np.float64)


def alice() -> str:
    """The twelve chapters of Alice's Adventures in Wonderland, 148,209 characters of 70 kinds."""
    return gzip.decompress(files(__package__).joinpath("alice.txt.gz").read_bytes()).decode("ascii")
