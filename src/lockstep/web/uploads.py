"""`Uploads`: files that were dropped on the page. They stay in memory, and nothing of them is run or written.

A file is read like one that is named on the command line, by the same strict reader: JSON without NaN, duplicate keys
or deep nesting. Its size is limited before it is read at all.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from lockstep.documents import MAX_JSON_B
from lockstep.errors import BadInput
from lockstep.units import format_size

if TYPE_CHECKING:
    from lockstep.workload import Model

MOST_B = MAX_JSON_B
MOST_FILES = 20
MARK = "dropped:"
LETTERS = re.compile(r"[^\w.-]+", re.ASCII)


class Uploads:
    """Models of dropped files, by the word that stands for them in an address."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[str, Model]] = OrderedDict()

    def add(self, name: str, raw: bytes, size_B: int) -> dict[str, Any]:
        """Reads a dropped config.json; what to say in its place, and the model's name. Raises BadInput.

        Of a file of more than MOST_B not all of `size_B` is in `raw`.
        """
        from lockstep.workload.huggingface import config_of

        if size_B > MOST_B:
            raise BadInput(f"is larger than the {format_size(MOST_B)} that a dropped file may have", "file")
        short = LETTERS.sub("-", name)[-60:].strip("-.") or "config.json"
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadInput("is not UTF-8 text", short) from None
        model = config_of(text, short)
        word = f"{MARK}{hashlib.sha256(raw).hexdigest()[:12]}-{short}"
        self._found[word] = (short, model)
        while len(self._found) > MOST_FILES:
            self._found.popitem(last=False)
        return {"word": word, "name": model.name}

    def get(self, word: str) -> Model | None:
        """The model of a dropped file; None for another word. Raises BadInput for one that is gone."""
        if not word.startswith(MARK):
            return None
        if word not in self._found:
            raise BadInput("this file is no longer there, as the page was started again; drop it again", "MODEL")
        return self._found[word][1]

    @property
    def names(self) -> dict[str, str]:
        """The name of every file by its word."""
        return {word: name for word, (name, _) in self._found.items()}
