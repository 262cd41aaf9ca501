"""`SweepFile`: the answers of a sweep in one file of lines, appended as they come.

    digest sweep JSON           what is asked: verb, words, number of questions, versions, when it began
    digest answer KEY BASE64    a packed answer under the key of its question

A digest is that of the rest of its line: a line that does not have it is damaged and left out, so that its answer is
missing and is computed again. What is asked is written twice, and the file begins with two lines that say what it is,
so that no single damage loses them. A later line about the sweep adds to the earlier ones.

A batch of answers is one write of whole lines. Readers see it at once, a writer that is killed loses none that it has
written, and several writers do not harm each other. The file is read as data: nothing in it is run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import sqlite3
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self

from lockstep.base.documents.files import open_file, writable
from lockstep.base.errors import BadInput
from lockstep.base.store.files import append, canonical, parsed
from lockstep.base.types.plain import Json

FORMAT, OLD_FORMAT = 2, 1
MAGIC, OLD_MAGIC = b"# answers of a Lockstep sweep\n", b"SQLite format 3\0"
"""How a file begins; up to format 1 it was an SQLite database."""
DIGEST = 32
"""Letters of a digest: half of SHA-256."""
ABOUT, ANSWER = re.compile(rb"sweep (\{.*\})"), re.compile(rb"answer ((?:[0-9a-f]{2})+) ([A-Za-z0-9+/=]*)")
LONGEST_B = 64 << 20
"""Of a line."""
BESIDE = ("-wal", "-shm")
"""Endings of the files that SQLite keeps beside one of format 1."""


class SweepFile:
    """One file; a context, at whose end everything is on the disk."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        """Opens `path`, or makes it where it `writes`, and clears what is damaged there.

        Raises BadInput for what is not such a file.
        """
        self.path, self._writes = path, writes
        self._where = "--store" if writes else "SWEEP"
        self._about: Json = {}
        self._places: dict[bytes, int] = {}
        self._damaged: list[tuple[int, int]] = []
        self._end, self._handle = 0, -1
        if not writes and not os.path.isfile(path):
            raise BadInput(f"no sweep is kept in {str(path)!r}", "SWEEP")
        with self._located():
            if writes:
                self._handle = os.open(writable(path, self._where), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            self._file = open_file(path)
            try:
                self._read_first()
            except BaseException:
                self._close()
                raise

    @property
    def about(self) -> Json:
        """What is asked, by name; empty in a new file."""
        self._refresh()
        return dict(self._about)

    @property
    def damaged(self) -> int:
        """Lines that were left out because their digest is not theirs."""
        return len(self._damaged)

    @property
    def has_digests(self) -> bool:
        """Whether damage would be noticed: not in files of format 1."""
        return self._about.get("format") != OLD_FORMAT

    def begin(self, about: Json) -> None:
        """Writes what is asked, where it is not there already; a reader changes nothing."""
        known = self.about
        about = {"format": FORMAT, **about}
        new = {name: value for name, value in about.items() if name not in known or known[name] != value}
        if self._writes and new:
            self._append(_twice(_line(b"sweep " + canonical(new).encode("utf-8", "surrogatepass"))))

    def answer(self, key: bytes) -> bytes | None:
        """The packed answer with that key, if it is there."""
        if key not in self._places:
            self._refresh()
        if key not in self._places:
            return None
        self._file.seek(self._places[key])
        found = ANSWER.fullmatch(_content(self._file.readline(LONGEST_B)))
        return None if found is None else a2b_base64(found[2])

    def add(self, answers: Iterable[tuple[bytes, bytes]]) -> None:
        """Appends answers; of those with one key the first counts."""
        self._append(b"".join(_answer(key, answer) for key, answer in answers))

    def commit(self) -> None:
        """Everything so far survives a loss of power."""
        if self._writes:
            with self._located():
                os.fsync(self._handle)

    def __len__(self) -> int:
        self._refresh()
        return len(self._places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BadInput):
            self.commit()
        self._close()

    def _close(self) -> None:
        self._file.close()
        if self._writes:
            os.close(self._handle)

    def _append(self, lines: bytes) -> None:
        with self._located(), self._alone():
            append(self._handle, (b"" if os.fstat(self._handle).st_size else _twice(MAGIC)) + lines)

    def _read_first(self) -> None:
        """Reads the whole file, or that of an earlier version. Raises BadInput for another kind of file."""
        begun = self._file.read(len(_twice(MAGIC)))
        if begun.startswith(OLD_MAGIC) and self._writes:
            said = "kept by an earlier version, without digests of its answers; go on with that, or choose another file"
            raise BadInput(f"{str(self.path)!r} was {said}", self._where)
        if begun.startswith(OLD_MAGIC):
            self._about, self._places = _read_old(self.path)
            self._end = os.path.getsize(self.path)
        elif begun and MAGIC not in begun:
            raise BadInput(f"{str(self.path)!r} is not a file of answers", self._where)
        format_ = self.about.get("format", FORMAT)
        if format_ not in (FORMAT, OLD_FORMAT):
            raise BadInput(f"{str(self.path)!r} has format {format_}; this version reads {FORMAT}", self._where)
        if self._writes:
            self._clear_damage()

    def _refresh(self) -> None:
        """Reads the lines that were appended since."""
        self._file.seek(self._end)
        while line := self._file.readline(LONGEST_B):
            if not line.endswith(b"\n") and len(line) < LONGEST_B:
                break
            place, self._end = self._end, self._end + len(line)
            content = _content(line)
            if found := ANSWER.fullmatch(content):
                self._places.setdefault(bytes.fromhex(found[1].decode()), place)
            elif found := ABOUT.fullmatch(content):
                self._about |= parsed(found[1].decode("utf-8", "surrogatepass"))
            elif line.strip() and line != MAGIC:
                self._damaged.append((place, len(line)))

    def _clear_damage(self) -> None:
        """Blanks damaged lines and a last one without its end, so that they are said once and continue nothing."""
        with self._alone():
            # What another writer appended in the meantime is whole, and no damage.
            self._refresh()
            size = os.fstat(self._handle).st_size
            torn = [(self._end, size - self._end)] if size > self._end else []
            with open(self.path, "r+b") as file:
                for place, length in self._damaged + torn:
                    file.seek(place)
                    file.write(b" " * (length - 1) + b"\n")
            self._end = size

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other writer appends or clears damage, where the file system has locks."""
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    @contextmanager
    def _located(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            said = error.strerror or str(error)
            raise BadInput(f"answers cannot be kept in {str(self.path)!r}: {said}", self._where) from None


def _twice(line: bytes) -> bytes:
    """A line two times, with an empty one that keeps them apart when the end of the first is damaged."""
    return line + b"\n" + line


def _line(content: bytes) -> bytes:
    """The line that says it, with its digest."""
    return hashlib.sha256(content).hexdigest()[:DIGEST].encode() + b" " + content + b"\n"


def _answer(key: bytes, answer: bytes) -> bytes:
    """The line of an answer."""
    return _line(b"answer " + key.hex().encode() + b" " + b2a_base64(answer, newline=False))


def _content(line: bytes) -> bytes:
    """What a line says; nothing where its digest is not its own."""
    content = line[DIGEST + 1 : -1]
    return content if line == _line(content) else b""


def _read_old(path: Path) -> tuple[Json, dict[bytes, int]]:
    """What a file of format 1 says of its sweep, and the keys of its answers. Raises BadInput."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            about = {name: json.loads(value) for name, value in base.execute("SELECT name, value FROM sweep")}
            keys = {bytes(key): 0 for (key,) in base.execute("SELECT key FROM answers")}
            return {**about, "format": OLD_FORMAT}, keys
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise BadInput(f"{str(path)!r} is not a file of answers: {error}", "SWEEP") from None


def delete(path: Path) -> None:
    """Removes the file of a sweep, and what SQLite kept beside an old one. Raises BadInput for another kind of file."""
    with SweepFile(path, writes=False) as found:
        if "verb" not in found.about:
            raise BadInput(f"{str(path)!r} is not a sweep", "SWEEP")
    try:
        for name in (path, *(path.with_name(path.name + ending) for ending in BESIDE)):
            name.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be deleted: {error.strerror}", "SWEEP") from None
