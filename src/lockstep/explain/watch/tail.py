"""`Tail`: a file's lines as it grows, in constant memory. A state of a progress bar ends at a carriage return.

A file that has become shorter was begun anew and is read from its beginning, as `tail -F` does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Protocol

from lockstep.base.errors import BadInput
from lockstep.explain.read import LOG, MOST_FILES, recognise
from lockstep.explain.read.file import stream

STDIN = "-"
CHUNK_B = 1 << 18
LONGEST_B = 1 << 20
"""Of a line; of a longer one the end is kept."""
RANKED = re.compile(r"(?:^|[/_.-])rank[_-]?(\d{1,6})(?=[/_.-]|$)|/(\d{1,6})/std(?:out|err)(?:\.log)?$")
"""Names of files of one rank: rank_3.log, and attempt_0/3/stdout.log as torchrun writes them."""


class Lines(Protocol):
    """What lines come from."""

    name: str
    rank: int | None
    """Where the name says it."""
    grows: bool
    """Whether there may be more after a part that is empty."""

    def read(self) -> list[bytes]:
        """The lines of the next part, with their ends; empty where nothing is new."""
        ...

    def rest(self) -> list[bytes]:
        """What has no end yet."""
        ...

    def close(self) -> None:
        """Closes the file."""
        ...


class Tail:
    """Lines of a file."""

    grows = True

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path
        found = RANKED.search(path.as_posix())
        self.rank = int(found[1] or found[2]) if found else None
        self._rest, self._stack = b"", ExitStack()
        self._file = self._stack.enter_context(stream(path))

    def read(self) -> list[bytes]:
        """As `Lines.read`. Raises BadInput of a file that is damaged."""
        try:
            return self._split(self._file.read(CHUNK_B) or self._again())
        except EOFError as error:
            raise BadInput(f"is cut off or damaged: {error}", self.name) from None

    def rest(self) -> list[bytes]:
        """As `Lines.rest`."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def close(self) -> None:
        """As `Lines.close`."""
        self._stack.close()

    def _split(self, chunk: bytes) -> list[bytes]:
        """Lines and states of a progress bar with their ends; what has none is kept."""
        lines = (self._rest[-LONGEST_B:] + chunk).splitlines(keepends=True)
        self._rest = b"" if not lines or lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        return lines

    def _again(self) -> bytes:
        """The beginning of a file that was begun anew; nothing of one that was not."""
        try:
            if os.stat(self._path).st_size >= self._file.tell() or hasattr(self._file, "fileobj"):
                return b""
        except OSError:
            return b""
        self._stack.close()
        self._rest, self._file = b"", self._stack.enter_context(stream(self._path))
        return self._file.read(CHUNK_B)


class StandardInput(Tail):
    """Lines of standard input, which waits until there are some."""

    grows = False

    def __init__(self) -> None:
        self.name, self.rank, self._rest = "standard input", None, b""
        self._input: IO[bytes] = sys.stdin.buffer

    def read(self) -> list[bytes]:
        """As `Lines.read`; empty at the end only."""
        while chunk := getattr(self._input, "read1", self._input.read)(CHUNK_B):
            if lines := self._split(chunk):
                return lines
        return []

    def close(self) -> None:
        """It stays open."""


class Sources:
    """Files and the logs in folders, those as well that are written while they are followed."""

    def __init__(self, given: list[str]) -> None:
        self._given = given
        self._open: set[str] = set()
        self._refused: dict[str, int] = {}
        """Files of folders that are no log, with their sizes: one that grows may still become one."""

    def new(self) -> Iterator[Lines]:
        """Those that were not there before, in the order of their names. Raises BadInput for none at all."""
        for one in self._given:
            paths = self._in_folder(Path(one)) if os.path.isdir(one) else [Path(one)]
            for path in paths:
                if str(path) not in self._open:
                    self._open.add(str(path))
                    yield StandardInput() if one == STDIN else Tail(path)

    def _in_folder(self, folder: Path) -> list[Path]:
        found = sorted((path for path in folder.rglob("*") if os.path.isfile(path)), key=_by_numbers)
        if len(found) > MOST_FILES:
            raise BadInput(f"has more than {MOST_FILES:,} files; give those of the run", str(folder))
        logs = [path for path in found if not path.name.startswith(".") and self._is_log(path)]
        if not logs:
            raise BadInput("is a folder without a log that is known", str(folder))
        return logs

    def _is_log(self, path: Path) -> bool:
        name = str(path)
        if name in self._open:
            return True
        try:
            size_B = os.stat(path).st_size
        except OSError:
            return False
        if self._refused.get(name) == size_B:
            return False
        try:
            known = recognise(path).kind.gives == LOG
        except BadInput:
            known = False
        if not known:
            self._refused[name] = size_B
        return known


def _by_numbers(path: Path) -> tuple[tuple[int, str], ...]:
    """Names in the order of the numbers in them: 9.out before 10.out."""
    parts = re.findall(r"\d{1,18}|\D+|\d+", path.as_posix())
    return tuple((int(one), "") if one.isdigit() and len(one) < 19 else (-1, one) for one in parts)
