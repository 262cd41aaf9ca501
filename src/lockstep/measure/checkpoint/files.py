"""Names and checksums of a checkpoint's files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lockstep.files import open_file

MANIFEST = "manifest.json"
PREFIX = "step-"
CHUNK_B = 1 << 20


def folder_of(root: Path, step: int) -> Path:
    """Where the checkpoint after `step` steps lies."""
    return root / f"{PREFIX}{step:08d}"


def data_file(folder: Path, rank: int) -> Path:
    """The arrays of a rank."""
    return folder / f"rank-{rank}.npz"


def note_file(folder: Path, rank: int) -> Path:
    """What a rank says of its file once it is on the disk."""
    return folder / f"rank-{rank}.json"


def checksum(path: Path) -> str:
    """BLAKE2b of a file's bytes, 16 bytes in hex."""
    found = hashlib.blake2b(digest_size=16)
    with open_file(path) as file:
        while chunk := file.read(CHUNK_B):
            found.update(chunk)
    return found.hexdigest()
