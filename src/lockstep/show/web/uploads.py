"""`Uploads`: files that were dropped on the page. They stay in memory, and nothing of them is run or written.

A config.json stands for a model, and is read by the same strict reader as one that is named on the command line: JSON
without NaN, duplicate keys or deep nesting. So does a capture, which is read once, as a measured file is by the readers
of `diagnose`. Sizes have limits before anything is read: as dropped, unpacked, and of all files together.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockstep.base.documents import MAX_JSON_B
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field
from lockstep.base.units import format_size
from lockstep.show.verbs.capture import FILE

if TYPE_CHECKING:
    from lockstep.base.documents.files import InMemory
    from lockstep.describe.varied import CaptureFile
    from lockstep.describe.workload import Model
    from lockstep.explain.read import Known

MOST_B = MAX_JSON_B
MOST_FILES = 20
MOST_MEASURED_B = 64 * 2**20
"""Of a measured file as it is dropped."""
MOST_UNPACKED_B = 512 * 2**20
"""Of one after unpacking."""
MOST_KEPT_B = 2**30
"""Of all measured files, as dropped and unpacked; of more, those dropped first are forgotten."""
MOST_CAPTURED_B = 128 * 2**20
"""Of a capture after unpacking: some 30 of the example of adapters in `docs/use/capture.md`."""
PIECE_B = 2**20
MARK = "dropped:"
LETTERS = re.compile(r"[^\w.-]+", re.ASCII)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """A dropped file."""

    name: str
    value: T
    size_B: int = 0
    """As dropped and unpacked together, of a measured file; unpacked, of a capture."""
    states: tuple[str, ...] = ()
    """Words of a question that a log answers by itself, the model among them."""


@dataclass(slots=True)
class Uploads:
    """What dropped files hold, by the word that stands for each in an address."""

    _models: OrderedDict[str, Dropped[Model]] = field(default_factory=OrderedDict)
    _captures: OrderedDict[str, Dropped[CaptureFile]] = field(default_factory=OrderedDict)
    _measured: OrderedDict[str, Dropped[Known]] = field(default_factory=OrderedDict)

    def add(self, name: str, raw: bytes, size_B: int) -> dict[str, Any]:
        """Reads a dropped config.json; what to say in its place, and the model's name. Raises BadInput.

        Of a file of more than MOST_B not all of `size_B` is in `raw`.
        """
        from lockstep.describe.workload.huggingface import config_of

        _refuse_larger(size_B, MOST_B)
        short = _short(name, "config.json")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadInput("is not UTF-8 text", short) from None
        model = config_of(text, short)
        word = _kept(self._models, raw, Dropped(short, model))
        return {"word": word, "name": model.name}

    def add_capture(self, name: str, raw: bytes, size_B: int) -> dict[str, Any]:
        """Reads a dropped capture; what to say in its place, its name, and the screens that show it. Raises BadInput.

        Of a file of more than MOST_B not all of `size_B` is in `raw`.
        """
        from lockstep.base.documents.files import InMemory
        from lockstep.describe.captured import opened
        from lockstep.describe.varied import read_capture_file

        _refuse_larger(size_B, MOST_B)
        short = _short(name, FILE)
        file = InMemory(short, raw)
        with opened(file) as parts:
            unpacked_B = sum(one.file_size for one in parts.infolist())
        _refuse_unpacked(unpacked_B, MOST_CAPTURED_B, short)
        word = _kept(self._captures, raw, Dropped(short, read_capture_file(file), unpacked_B))
        while sum(one.size_B for one in self._captures.values()) > MOST_CAPTURED_B:
            self._captures.popitem(last=False)
        return {"word": word, "name": short, "screens": ["layout", "timeline", "diagnose"]}

    def add_measured(self, name: str, raw: bytes, size_B: int) -> dict[str, Any]:
        """Reads a dropped trace, log, table or snapshot; what to say in its place, what it is, and the words that a
        log states. Raises BadInput.

        Of a file of more than MOST_MEASURED_B not all of `size_B` is in `raw`.
        """
        from lockstep.base.documents.files import InMemory
        from lockstep.explain.read import Known, recognise

        _refuse_larger(size_B, MOST_MEASURED_B)
        short = _short(name, "file")
        file = InMemory(short, raw)
        unpacked_B = _unpacked_B(file)
        found = recognise(file)
        known = Known(file, found.kind, found.read())
        states = _stated(known)
        word = _kept(self._measured, raw, Dropped(short, known, len(raw) + unpacked_B, states))
        while sum(one.size_B for one in self._measured.values()) > MOST_KEPT_B:
            self._measured.popitem(last=False)
        return {"word": word, "name": short, "what": found.kind.what, "states": states}

    def get(self, word: str) -> Model | None:
        """The model of a dropped file; None for another word. Raises BadInput for one that is gone."""
        return _found(self._models, word, "MODEL").value if word.startswith(MARK) else None

    def capture(self, word: str) -> CaptureFile:
        """The capture of a dropped file. Raises BadInput for one that is gone, and for a path."""
        if not word.startswith(MARK):
            raise BadInput(f"{word[:60]!r} names a file; drop it on the page, or start lockstep ui with it", "MODEL")
        return _found(self._captures, word, "MODEL").value

    def measured(self, words: str) -> list[Known]:
        """The measured files of words with spaces between them. Raises BadInput for names, and for one that is gone."""
        return [_found(self._measured, word, "file").value for word in dict.fromkeys(words.split())]

    def stated(self, words: str) -> bool:
        """Whether one of the measured files says which run it is of. Raises BadInput as `measured` does."""
        return any(_found(self._measured, word, "file").states for word in words.split())

    @property
    def names(self) -> dict[str, str]:
        """The name of every file by its word."""
        kinds: tuple[OrderedDict[str, Dropped[Any]], ...] = (self._models, self._captures, self._measured)
        return {word: one.name for kind in kinds for word, one in kind.items()}


def _kept(found: OrderedDict[str, Dropped[T]], raw: bytes, one: Dropped[T]) -> str:
    """Keeps a file instead of the one that was dropped first; its word."""
    word = f"{MARK}{hashlib.sha256(raw).hexdigest()[:12]}-{one.name}"
    found[word] = one
    found.move_to_end(word)
    while len(found) > MOST_FILES:
        found.popitem(last=False)
    return word


def _found(found: OrderedDict[str, Dropped[T]], word: str, where: str) -> Dropped[T]:
    if not word.startswith(MARK):
        raise BadInput(f"{word[:60]!r} is not a file that was dropped on the page", where)
    if word not in found:
        raise BadInput("this file is no longer there; drop it again", where)
    return found[word]


def _stated(known: Known) -> tuple[str, ...]:
    """The words that a log's arguments stand for, all of a layout among them; none where it does not say its model."""
    from lockstep.show.verbs.words.run_file import run_of
    from lockstep.show.verbs.words.shared import LAYOUT_WORDS

    found = run_of([known.path] if known.kind.gives == "log" else ())
    return () if found is None else ("model", "batch_tokens", *found[1].found.words, *LAYOUT_WORDS)


def _short(name: str, otherwise: str) -> str:
    """A name without what could lead out of a folder, of an address or of a text."""
    return LETTERS.sub("-", name)[-60:].strip("-.") or otherwise


def _refuse_larger(size_B: int, most_B: int) -> None:
    if size_B > most_B:
        raise BadInput(f"is larger than the {format_size(most_B)} that a dropped file may have", "file")


def _unpacked_B(file: InMemory) -> int:
    """Bytes of a file after unpacking. Raises BadInput for one that holds too many, before any are kept."""
    from lockstep.explain.read.file import stream

    size_B = 0
    with stream(file) as unpacked:
        while piece := unpacked.read(PIECE_B):
            size_B += len(piece)
            _refuse_unpacked(size_B, MOST_UNPACKED_B, file.name)
    return size_B


def _refuse_unpacked(size_B: int, most_B: int, name: str) -> None:
    if size_B > most_B:
        raise BadInput(f"holds more than {format_size(most_B)} unpacked", name)
