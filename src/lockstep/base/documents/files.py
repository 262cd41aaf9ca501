"""Reading files that a user, or another user of the machine, has made, and writing every output.

    data = read_bytes(path, limit_B)        # or read_text; open_file for what is read in parts
    handle = open_folder(path)              # a folder of this user, never through a link
    write_text(path, text, "--out")         # or replacing(path) for what is written in parts

An ordinary `open` waits for ever on a named pipe that nobody writes to, and a read of /dev/zero never ends. Here only
regular files are opened (also through links), without waiting; every failure is one `BadInput` located at the path.

An output is written beside its place, flushed to the disk and renamed into place, so that a full disk or a kill leaves
the file that was there, and never half of a new one.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BytesIO, FileIO, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.units import format_size

# Missing on Windows, where opening a named pipe by such a path is not possible.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)

YAML_ENDINGS = (".yaml", ".yml")
BESIDE = re.compile(r"\.lockstep-[0-9a-f]{16}\.tmp")
"""Names of files that are being written; only a killed writer leaves one."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


@dataclass(frozen=True, slots=True)
class InMemory:
    """A file that is in memory and nowhere else: what to call it, and its bytes."""

    name: str
    data: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return self.name


File: TypeAlias = str | Path | InMemory


def open_file(path: File) -> BufferedReader:
    """A regular file, open for reading bytes; the size is the caller's to limit. Raises BadInput."""
    if isinstance(path, InMemory):
        # Buffered so that it can be peeked into; typeshed wants a raw stream, which BytesIO is in all but name.
        return BufferedReader(cast(RawIOBase, BytesIO(path.data)))
    with _explained(path):
        # Opening a device can already do something to it, so its kind is looked at first.
        _refuse_other_kinds(path, os.stat(path))
        raw = _Located(path, opener=lambda name, flags: os.open(name, flags | _AT_ONCE))
        file: BufferedReader = BufferedReader(raw)
    try:
        # The path may have become something else in between.
        _refuse_other_kinds(path, os.fstat(file.fileno()))
    except BadInput:
        file.close()
        raise
    return file


class _Located(FileIO):
    """A file whose errors while it is read name it, as those of opening it do."""

    def readinto(self, buffer: Any, /) -> int | None:
        with _explained(str(self.name)):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with _explained(str(self.name)):
            return super().readall()


def read_bytes(path: File, limit_B: int) -> bytes:
    """The content of a regular file of at most `limit_B` bytes. Raises BadInput."""
    with open_file(path) as file:
        raw = file.read(limit_B + 1)
    if len(raw) > limit_B:
        raise BadInput(f"is larger than the {format_size(limit_B)} allowed for such a file", str(path))
    return raw


def read_text(path: File, limit_B: int) -> str:
    """The text of a file of at most `limit_B` bytes, UTF-8 with or without a byte order mark. Raises BadInput."""
    raw = read_bytes(path, limit_B)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput("is not UTF-8 text", f"{path}:{line}") from None


def open_folder(path: str | Path) -> int:
    """A descriptor, for the caller to close, of a folder of this user; a link is refused. Raises BadInput."""
    with _explained(path):
        handle = os.open(path, os.O_RDONLY | _AT_ONCE | _FOLDER)
    if hasattr(os, "getuid") and os.fstat(handle).st_uid != os.getuid():
        os.close(handle)
        raise BadInput("is a folder owned by another user", str(path))
    return handle


def writable(path: str | Path, where: str) -> Path:
    """The path of a file to write, asked before anything is computed: one that may be replaced, or a new one in a
    folder that may be written to. Raises BadInput at `where`.
    """
    wanted = Path(path)
    try:
        found = wanted.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"cannot write {str(path)!r}: it {_kind(found.st_mode)}", where)
        allowed = os.access(wanted, os.W_OK)
    except FileNotFoundError:
        if not os.path.isdir(wanted.parent):
            raise BadInput(f"the folder {str(wanted.parent)!r} does not exist", where) from None
        allowed = True
    except BadInput:
        raise
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot write {str(path)!r}: {_reason(error)}", where) from None
    if not allowed or not os.access(_place(wanted).parent, os.W_OK | os.X_OK):
        raise BadInput(f"cannot write {str(path)!r}: {'its folder' if allowed else 'it'} is read-only", where)
    return wanted


def writable_yaml(path: str | Path, where: str) -> Path:
    """The same of a YAML file, which its name must say."""
    wanted = writable(path, where)
    if wanted.suffix.lower() not in YAML_ENDINGS:
        raise BadInput(f"{str(path)!r} must end in .yaml", where)
    return wanted


def write_text(path: str | Path, text: str, where: str) -> None:
    """Writes text as the file `path`. Raises BadInput at `where`; the file is then the one that was there before."""
    with writing(path, where), replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when all of it is on the disk, and leaves nothing otherwise.

    A link stays a link: what it points to is replaced, with the permissions that it had. Raises OSError, and BadInput
    where something other than a file stands there.
    """
    place = _place(path)
    beside = place.with_name(f".lockstep-{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as file:
            with suppress(FileNotFoundError):
                found = place.stat()
                _refuse_other_kinds(path, found)
                os.chmod(beside, stat.S_IMODE(found.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    flush(place.parent)


def flush(path: Path) -> None:
    """Waits until what the file or folder `path` holds is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(path: str | Path, where: str) -> Iterator[None]:
    """For the writing itself: a full disk, or a place that has changed since, as BadInput at `where`."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {str(path)!r}: {_reason(error)}", where) from None


def _place(path: str | Path) -> Path:
    """Where a file of that name is, behind any links."""
    return Path(os.path.realpath(path))


def _refuse_other_kinds(path: str | Path, found: os.stat_result) -> None:
    """BadInput unless it is a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(_kind(found.st_mode), str(path))


def _kind(mode: int) -> str:
    """What stands where a regular file should."""
    return f"is {next((name for is_kind, name in _KINDS if is_kind(mode)), 'something else')}, not a file"


def _reason(error: OSError | ValueError) -> str:
    """What the system said, without the path."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def _explained(path: File) -> Iterator[None]:
    """Any failure of the system, or a path that no system takes, as BadInput."""
    try:
        yield
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput("there is no such file", str(path)) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {_reason(error)}", str(path)) from None
