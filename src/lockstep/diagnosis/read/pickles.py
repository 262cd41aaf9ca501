"""Pickles of plain values: numbers, text, lists, tuples, mappings. One that names any class is refused unread.

A pickle is a program that may call whatever it names. What PyTorch dumps of its allocator and of its collectives holds
plain containers alone, so nothing that such a file needs is lost by refusing every name.
"""

from __future__ import annotations

import pickle
from typing import Any, NoReturn

from lockstep.diagnosis.read.file import Head, stream
from lockstep.documents.files import File
from lockstep.errors import BadInput

PROTOCOLS = range(2, 6)
BROKEN = (
    pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError, TypeError, OverflowError,
    MemoryError,
)  # fmt: skip


class _Refused(Exception):
    """A name in a pickle."""


class PlainUnpickler(pickle.Unpickler):
    """Refuses every class, function and reference to outside."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        """Refuses a name."""
        raise _Refused(f"it names {module[:60]}.{name[:60]}")

    def persistent_load(self, pid: object, /) -> NoReturn:
        """Refuses a reference."""
        raise _Refused("it refers to something outside of the file")


def is_pickle(begun: Head) -> bool:
    """Whether a file begins as pickles of protocol 2 and later do."""
    return len(begun.data) > 1 and begun.data[0] == 0x80 and begun.data[1] in PROTOCOLS


def read_plain(path: File) -> Any:
    """The value in a pickle. Raises BadInput for one that names a class, and for a broken one with the byte."""
    with stream(path) as file:
        try:
            return PlainUnpickler(file).load()
        except _Refused as error:
            raise BadInput(f"is a pickle that could run code: {error}; refused", str(path)) from None
        except BROKEN as error:
            if isinstance(error, EOFError) and "Compressed" in str(error):
                raise
            reason = str(error) or type(error).__name__
            raise BadInput(f"is a pickle that breaks off near byte {file.tell():,}: {reason}", str(path)) from None
