"""Files that survive the death of their writer.

    whole file   written beside its place, flushed to the disk, renamed into place: the old or the new one, never half
    line         appended by one write call: once the call returned, a killed writer cannot take it back; a reader drops
                 a torn last line
Only a loss of power can take lines that were not flushed; `flush` does that once, at the end of a run.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.base.documents.files import read_bytes, replacing
from lockstep.base.types.plain import Json

MOST_VALUE_B = 64 << 20
"""Bytes of a JSON file that are read."""
MOST_LINES_B = 1 << 30
"""Bytes of a file of lines that are read: ten million events."""
MOST_LEVELS = 64
"""Objects and lists inside each other that are read: no run writes a tenth, and printing them is recursive."""


class NotRecorded(OSError):
    """What a run has to say cannot be written any more: the disk is full, read-only or gone."""


def canonical(value: object) -> str:
    """One line of JSON, keys sorted: the same value, the same text."""
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def finite(value: object) -> Any:
    """The value with null for every number that JSON does not know, such as the loss of a run that diverged."""
    if isinstance(value, Mapping):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_whole(path: Path, value: object) -> None:
    """Replaces `path` by `value` as JSON, so that no reader ever sees a part of it."""
    content = f"{canonical(value)}\n".encode()
    with replacing(path) as file:
        file.write(content)


def read_whole(path: Path) -> Any:
    """The value of a JSON file; None where there is none or it is not JSON, or nested too deep."""
    try:
        return parsed(read_bytes(path, MOST_VALUE_B))
    except (ValueError, RecursionError):
        return None


def read_lines(path: Path) -> tuple[list[Json], list[int]]:
    """(objects, numbers of damaged lines counted from 1); a last line without its end is torn, and left out.

    No file has no lines. Raises BadInput where there is one that cannot be read.
    """
    if not os.path.lexists(path):
        return [], []
    text = read_bytes(path, MOST_LINES_B)
    values, damaged = [], []
    for number, line in enumerate(text[: text.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            value = parsed(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            values.append(value)
        else:
            damaged.append(number)
    return values, damaged


def parsed(text: bytes | str) -> Any:
    """The value of JSON text. Raises ValueError, RecursionError."""
    value = json.loads(text)
    level = [value]
    for _ in range(MOST_LEVELS):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return value
    raise ValueError(f"nested deeper than {MOST_LEVELS} levels")


def append(handle: int, lines: bytes) -> None:
    """Appends whole lines by one write call; none of them where the disk is full. Raises OSError."""
    written = os.write(handle, lines)
    if written != len(lines):
        os.ftruncate(handle, os.fstat(handle).st_size - written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def cut_torn_tail(path: Path) -> None:
    """Removes a last line without its end, so that the next one does not continue it."""
    if os.path.exists(path):
        text = read_bytes(path, MOST_LINES_B)
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.truncate(path, whole)
