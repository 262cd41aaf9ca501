"""JSON files that carry their own checksum: what is read is, to the bit, what was written, or it is refused.

    {"checksum":"<BLAKE2b of the rest>", ... ,"schema":1}

The rest is the same object without the checksum, as canonical JSON. A reader compares the file with the canonical form
of what it parsed as well, so that no two files are read as the same one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.errors import BadInput
from lockstep.files import read_bytes
from lockstep.store.files import canonical, write_whole

SCHEMA = 1
MOST_B = 64 << 20
CHECKSUM = "checksum"


class Unsealed(BadInput):
    """A file that is not what was written, or not what this version writes; the message goes on after its name."""


def digest(value: Mapping[str, Any]) -> str:
    """BLAKE2b of the value as canonical JSON, 16 bytes in hex (RFC 7693)."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=16).hexdigest()


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Replaces `path` by `value` (plain JSON) with schema and checksum. Raises OSError."""
    whole = {**value, "schema": SCHEMA}
    write_whole(path, {**whole, CHECKSUM: digest(whole)})


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` was given. Raises Unsealed, also for a newer schema or a file without a checksum."""
    if not os.path.exists(path):
        raise Unsealed("is missing")
    try:
        return unsealed(read_bytes(path, MOST_B))
    except Unsealed:
        raise
    except BadInput as error:
        raise Unsealed(error.message) from None


def unsealed(content: bytes) -> dict[str, Any]:
    """What the bytes of a sealed file hold. Raises Unsealed."""
    try:
        whole = json.loads(content)
        if not isinstance(whole, dict):
            raise Unsealed("is damaged: it holds no object")
        if CHECKSUM not in whole:
            raise Unsealed("is damaged or of an earlier Lockstep: it has no checksum")
        if content != f"{canonical(whole)}\n".encode():
            raise Unsealed("is damaged: it is not as it was written")
        if whole.pop(CHECKSUM) != digest(whole):
            raise Unsealed("is damaged: its checksum is another")
    except Unsealed:
        raise
    except (ValueError, RecursionError):
        raise Unsealed("is damaged: it is not JSON") from None
    if (schema := whole.pop("schema", None)) != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        raise Unsealed(f"is of a newer Lockstep (schema {schema})" if newer else f"has an unknown schema: {schema}")
    return whole
