"""A JSON document of any size, read in pieces: the members of its outermost object, one long list item by item.

Only one item and one chunk of text are held at a time. Items are decoded one by one by the standard library's scanner,
which takes 7 ms per megabyte of a trace. Commas before a closing bracket, and the NaN that profilers write, are
accepted; anything else that is no JSON is BadInput with the byte where it begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any

from lockstep.base.documents.files import File
from lockstep.base.errors import BadInput
from lockstep.base.units import format_size

CHUNK_B = 1 << 20
MOST_ITEM_B = 64 << 20
"""Of one item or member: a trace's largest are a few kilobytes."""
LITERAL = len("-Infinity")
"""Characters of the longest word that may have been cut in two."""
GAP = re.compile(r"[\s,]*")


class _Text:
    """Text of a file from the place that is being read on."""

    def __init__(self, file: IO[bytes], path: File) -> None:
        self.file, self.path = file, path
        self.text, self.at, self.passed = "", 0, 0
        self.ended = False
        self.scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().raw_decode

    def more(self) -> bool:
        """Reads another chunk; false at the end of the file."""
        chunk = self.file.read(CHUNK_B)
        # A character of several bytes may not be cut in two: traces are ASCII but for a name now and then.
        while chunk and chunk[-1] >= 0x80 and (byte := self.file.read(1)):
            chunk += byte
        self.ended = not chunk
        self.passed += self.at
        self.text, self.at = self.text[self.at :] + chunk.decode("utf-8", "replace"), 0
        if len(self.text) > MOST_ITEM_B:
            raise self.wrong(f"one item is larger than the {format_size(MOST_ITEM_B)} allowed")
        return not self.ended

    def next(self) -> str:
        """The next character that is neither space nor comma, not yet taken; empty at the end."""
        while True:
            match = GAP.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def value(self) -> Any:
        """The value that begins here."""
        if not self.next():
            raise self.wrong("the file ends in the middle")
        while True:
            try:
                found, end = self.scan(self.text, self.at)
            except ValueError as error:
                unfinished = self._unfinished(error)
                if self.ended or not unfinished or not self.more():
                    raise self.wrong("the file ends in the middle" if unfinished else "is not JSON") from None
                continue
            except RecursionError:
                raise self.wrong("is nested too deeply") from None
            if end < len(self.text) or not isinstance(found, int | float) or not self.more():
                self.at = end if end <= len(self.text) else self.at
                return found

    def _unfinished(self, error: Exception) -> bool:
        """Whether more text could make sense of it: what is wrong is near the end of what was read."""
        at = getattr(error, "pos", None)
        return at is None or at >= len(self.text) - LITERAL or "Unterminated" in str(error)

    def expect(self, character: str) -> None:
        """Takes a character."""
        if self.next() != character:
            raise self.wrong("is not JSON" if self.next() else "the file ends in the middle")
        self.at += 1

    def finish(self) -> None:
        """Nothing may follow."""
        if self.next():
            raise self.wrong("goes on after its end")

    def wrong(self, what: str) -> BadInput:
        """BadInput with the byte of the unpacked file."""
        return BadInput(f"{what}, at byte {self.passed + self.at:,}", str(self.path))


def members(path: File, file: IO[bytes], long: str) -> Iterator[tuple[str, Any]]:
    """(key, value) of the outermost object, of the list under the key `long` one item each; of a list, every item.

    Raises BadInput where the text is not JSON or ends early, with the byte.
    """
    text = _Text(file, path)
    first = text.next()
    if first == "[":
        yield from _items(text, long)
        text.finish()
        return
    if first != "{":
        raise text.wrong("is not a JSON object" if first else "is empty")
    text.at += 1
    while (at := text.next()) != "}":
        key = text.value() if at == '"' else None
        if not isinstance(key, str):
            raise text.wrong("is not JSON" if at else "the file ends in the middle")
        text.expect(":")
        if key == long and text.next() == "[":
            yield from _items(text, key)
        else:
            yield key, text.value()
    text.at += 1
    text.finish()


def _items(text: _Text, key: str) -> Iterator[tuple[str, Any]]:
    text.at += 1
    while text.next() != "]":
        yield key, text.value()
    text.at += 1
