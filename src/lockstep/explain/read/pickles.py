"""Pickles of plain values: numbers, text, lists, tuples, mappings. One that names any class is refused unread.

A pickle is a program that may call whatever it names, and may ask for any amount of memory: a few bytes can announce a
gigabyte. So its operations are walked before it is loaded. Each must be one of plain data, no length may go beyond the
end of the file, no place in the table of repeated values beyond the number of bytes before it, and the memory that all
of it takes must stay below MOST_MEMORY_B. What PyTorch dumps of its allocator and of its collectives holds plain
containers alone, so nothing that such a file needs is lost.

Source: the operations are those of Python's pickletools.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Any, NoReturn

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.units import format_size
from lockstep.explain.read.file import Head, stream

PROTOCOLS = range(2, 6)
MOST_B, PIECE_B = 512 << 20, 1 << 16
"""Of a pickle, decompressed."""
MOST_MEMORY_B = 4 << 30
CONTAINER_B, BYTE_B = 250, 8
"""About what a list or a mapping takes, and a value or a reference in it for each byte of the file."""
BROKEN = (
    pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError, TypeError, OverflowError,
    MemoryError,
)  # fmt: skip

CODES = {one.name: one.code.encode("latin-1") for one in pickletools.opcodes}
WIDTHS = {
    "PROTO": 1, "FRAME": 8, "MARK": 0, "POP": 0, "POP_MARK": 0, "NONE": 0, "NEWTRUE": 0, "NEWFALSE": 0,
    "BININT": 4, "BININT1": 1, "BININT2": 2, "BINFLOAT": 8, "APPEND": 0, "APPENDS": 0, "SETITEM": 0, "SETITEMS": 0,
    "BINGET": 1, "LONG_BINGET": 4, "BINPUT": 1, "MEMOIZE": 0,
}  # fmt: skip
"""Bytes behind the operations that hold at most one number."""
CONTAINERS = ("EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "LIST", "DICT")
LENGTHS = {
    "SHORT_BINUNICODE": 1, "BINUNICODE": 4, "BINUNICODE8": 8, "SHORT_BINBYTES": 1, "BINBYTES": 4, "BINBYTES8": 8,
    "SHORT_BINSTRING": 1, "BINSTRING": 4, "LONG1": 1, "LONG4": 4,
}  # fmt: skip
"""Bytes of the length behind the operations that hold so many bytes."""
ENDS = ("STOP", "GLOBAL", "STACK_GLOBAL", "INST", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4")
"""The last operation, and those that `PlainUnpickler` refuses: whatever follows is never reached."""

SIMPLE = re.compile(
    b"(?s:" + b"|".join(re.escape(CODES[name]) + b"." * width for name, width in WIDTHS.items()) + b")*+"
)
CONTAINER = frozenset(CODES[name][0] for name in CONTAINERS)
LENGTH = {CODES[name][0]: width for name, width in LENGTHS.items()}
LAST = frozenset(CODES[name][0] for name in ENDS)
PUT = CODES["LONG_BINPUT"][0]


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
    """The value in a pickle. Raises BadInput for one that names a class, is too large or is broken, with the byte."""
    with stream(path) as file:
        # In pieces: to ask for all at once takes the memory of all, however little is there.
        loaded = BytesIO(b"".join(islice(iter(partial(file.read, PIECE_B), b""), MOST_B // PIECE_B + 1)))
    data = loaded.getvalue()
    if len(data) > MOST_B:
        raise BadInput(f"is a pickle of more than the {format_size(MOST_B)} allowed", str(path))
    try:
        check_plain(data)
        return PlainUnpickler(loaded).load()
    except _Refused as error:
        raise BadInput(f"is a pickle that could run code: {error}; refused", str(path)) from None
    except BROKEN as error:
        reason = str(error) or type(error).__name__
        raise BadInput(f"is a pickle that breaks off near byte {loaded.tell():,}: {reason}", str(path)) from None


def check_plain(data: bytes) -> None:
    """Walks the operations of a pickle. Raises UnpicklingError where loading it could take more than its size allows.

    One that names a class is walked up to there.
    """
    at, containers = 0, 0
    while True:
        at = SIMPLE.match(data, at).end()  # type: ignore[union-attr]
        code = data[at] if at < len(data) else None
        if code in CONTAINER:
            containers += 1
            at += 1
        elif code in LENGTH:
            begin = at + 1 + LENGTH[code]
            at = begin + int.from_bytes(data[at + 1 : begin], "little")
            if at > len(data):
                raise pickle.UnpicklingError(f"a value ends {at - len(data):,} bytes behind the file")
        elif code == PUT and int.from_bytes(data[at + 1 : at + 5], "little") <= at:
            at += 5
        elif code is None or code in LAST:
            break
        else:
            raise pickle.UnpicklingError(f"byte {at:,} holds {bytes([code])!r}, which no pickle of plain values has")
    memory_B = BYTE_B * len(data) + CONTAINER_B * containers
    if memory_B > MOST_MEMORY_B:
        raise pickle.UnpicklingError(f"it takes about {format_size(memory_B)}, more than {format_size(MOST_MEMORY_B)}")
