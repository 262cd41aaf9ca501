"""`EventFile`: scalars in a file that TensorBoard reads, written without TensorBoard.

A file is a row of records: length (8 bytes, little-endian), its checksum, the content, its checksum; a checksum is
CRC-32C, rotated and shifted so that a checksum of checksums is none of all zeros:

    masked(c) = ((c >> 15) | (c << 17)) + 0xA282EAD8   modulo 2^32

The content is a protocol buffer `Event` of wall time, step, and either the file's version or a summary of one value.

Sources: TensorFlow, core/lib/io/record_writer.h (records), core/lib/hash/crc32c.h (mask), core/util/event.proto and
core/framework/summary.proto (fields); RFC 3720, appendix B.4 (CRC-32C); protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import errno
import math
import os
import platform
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from lockstep.base.errors import BadInput
from lockstep.base.store.files import NotRecorded

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
MASK_DELTA = 0xA282EAD8
VERSION = "brain.Event:2"
# Field numbers of Event, Summary and Summary.Value; wire types of protocol buffers.
WALL_TIME, STEP, FILE_VERSION, SUMMARY = 1, 2, 3, 5
VALUE, TAG, SIMPLE_VALUE = 1, 1, 2
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class EventFile:
    """One file of scalars in `folder`, which is made. As a context it is closed at the end.

    Raises BadInput where the folder cannot be made or written; a write that fails later raises NotRecorded.
    """

    def __init__(self, folder: Path) -> None:
        now_s = time.time()
        # Files are told apart by their names alone, and one run may write several in a second.
        name = f"events.out.tfevents.{int(now_s)}.{platform.node()}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / name).open("wb", buffering=0)
        except OSError as error:
            raise BadInput(f"curves cannot be written to {str(folder)!r}: {error.strerror}", "--tensorboard") from None
        try:
            self._write(_number(WALL_TIME, now_s) + _text(FILE_VERSION, VERSION.encode()))
        except NotRecorded:
            self._file.close()
            raise

    def scalar(self, tag: str, value: float, step: int, wall_time_s: float | None = None) -> None:
        """Writes one value of the curve `tag` at a step of 64 bits; `wall_time_s` in Unix time, by default now.

        A value that no float of 32 bits holds is infinite, as TensorFlow writes it.
        """
        name = _text(TAG, tag.encode(errors="replace"))
        summary = _text(VALUE, name + _key(SIMPLE_VALUE, FIXED32) + _float32(value))
        when = _number(WALL_TIME, time.time() if wall_time_s is None else wall_time_s)
        self._write(when + _key(STEP, VARINT) + _varint(step % 2**64) + _text(SUMMARY, summary))

    def event(self, values: Mapping[str, object], number: int, wall_time_s: float | None = None) -> None:
        """Writes every number of a run's event, at its `step`, or at `number` where it has none.

        Raises BadInput, with nothing written, for a step that is no whole number of 64 bits.
        """
        step = _step(values.get("step", number))
        for tag, value in values.items():
            if tag != "step" and isinstance(value, int | float) and not isinstance(value, bool):
                self.scalar(tag, value, step, wall_time_s)

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        record = length + _checksum(length) + event + _checksum(event)
        try:
            # Without a buffer: TensorBoard follows a file while it grows.
            written = self._file.write(record)
        except OSError as error:
            raise NotRecorded(f"curves cannot be written to {self._file.name}: {error.strerror}") from None
        if written != len(record):
            raise NotRecorded(f"curves cannot be written to {self._file.name}: {os.strerror(errno.ENOSPC)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum of the bytes."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    """Remainders of all bytes."""
    found = []
    for remainder in range(256):
        for _ in range(8):
            remainder = (remainder >> 1) ^ (POLYNOMIAL if remainder & 1 else 0)
        found.append(remainder)
    return tuple(found)


def _step(given: object) -> int:
    """A step that the format has room for: an int64."""
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if type(given) is not int or not -(2**63) <= given < 2**63:
        raise BadInput("an event has a step that is not a 64-bit integer", "step")
    return given


def _float32(value: float) -> bytes:
    """The nearest float of 32 bits, as four bytes."""
    try:
        return struct.pack("<f", value)
    except (OverflowError, struct.error):
        return struct.pack("<f", math.inf if value > 0 else -math.inf)


def _checksum(data: bytes) -> bytes:
    """Masked, as four bytes."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF)


def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _number(field: int, value: float) -> bytes:
    return _key(field, FIXED64) + struct.pack("<d", value)


def _text(field: int, content: bytes) -> bytes:
    return _key(field, BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*parts, number))
