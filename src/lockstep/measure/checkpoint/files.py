"""Names and checksums of a checkpoint's files, and the removal of an old one."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from lockstep.errors import BadInput
from lockstep.files import open_file

MANIFEST = "manifest.json"
PREFIX = "step-"
CHUNK_B = 1 << 20
_OWN = re.compile(r"(rank-\d+\.(npz|json)|manifest\.json)(\.tmp)?")


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


def folders(root: Path) -> list[Path]:
    """Folders under `root` that may be checkpoints, oldest first; those whose names give no step come last.

    Raises BadInput where `root` is no folder that can be read; one that does not exist holds none.
    """
    try:
        with os.scandir(root) as entries:
            named = [root / one.name for one in entries if one.name.startswith(PREFIX)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(f"is not a readable folder of checkpoints: {error.strerror}", str(root)) from None
    return sorted((one for one in named if os.path.lexists(one / MANIFEST)), key=_age)


def _age(folder: Path) -> tuple[bool, int, str]:
    step = folder.name.removeprefix(PREFIX)
    known = step.isdecimal() and step.isascii()
    return not known, int(step) if known else 0, step


def remove(folder: Path) -> None:
    """Removes a checkpoint's files, and the folder if nothing else is in it; a link is left where it is."""
    if folder.is_symlink():
        return
    with os.scandir(folder) as entries:
        own = [one.name for one in entries if _OWN.fullmatch(one.name) and not one.is_dir(follow_symlinks=False)]
    # The manifest first: a half-removed checkpoint is none.
    for name in sorted(own, key=lambda name: name != MANIFEST):
        (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()
