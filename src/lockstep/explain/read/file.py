"""Opening a file that may be compressed with gzip: its beginning, and a stream of its bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import IO

from lockstep.base.documents.files import File, open_file
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass

GZIP = b"\x1f\x8b"
HEAD_B = 1 << 20
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file, decompressed."""

    path: File
    data: bytes

    @property
    def text(self) -> str:
        """The same as text; what is not UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


@contextmanager
def stream(path: File) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a regular file, from its beginning. Raises BadInput at the path for a broken one."""
    with open_file(path) as file:
        packed = _packed(file)
        try:
            if packed:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield file
        except BROKEN as error:
            raise BadInput(f"is cut off or damaged: {error}", str(path)) from None


def head(path: File) -> Head:
    """The first bytes of a file; of a broken one as far as they can be read."""
    with open_file(path) as file:
        if not _packed(file):
            return Head(path, file.read(HEAD_B))
        raw = file.read(HEAD_B)
    try:
        return Head(path, zlib.decompressobj(wbits=31).decompress(raw, HEAD_B))
    except zlib.error as error:
        raise BadInput(f"is cut off or damaged: {error}", str(path)) from None


def _packed(file: BufferedReader) -> bool:
    return file.peek(2)[:2] == GZIP
