"""`Questions`: one function, asked of many tasks.

A key is a digest of the function, its words, the task and the versions that compute it: the same content has the same
key on any machine, so a batch that was run twice is kept once, and a longer list finds the answers of a shorter one. A
file that a word names counts with its content.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from lockstep import __version__
from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.store.files import canonical
from lockstep.base.types.plain import Json

DIGEST_B = 16
FILES = "lockstep files"
ONE_AT_A_TIME = Lock()


def versions() -> dict[str, str]:
    """Of what an answer depends on, in this process: Python, numpy, Lockstep.

    Lockstep has its version number and a digest of its files: two commits of one version may answer differently.
    """
    # Threads of a worker ask together when it joins, and `cache` alone would let each of them compute it.
    with ONE_AT_A_TIME:
        return _versions()


@cache
def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(), "numpy": version("numpy"), "lockstep": __version__,
        FILES: tree_digest(Path(__file__).parents[2]),
    }  # fmt: skip


def tree_digest(folder: Path) -> str:
    """A short digest of the names and contents of all files in a folder, compiled ones left out."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if os.path.isfile(path) and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(folder).as_posix()} {_digest(str(path))}\n".encode())
    return digest.hexdigest()[:DIGEST_B]


@dataclass(frozen=True, slots=True)
class Questions:
    """`function(task)` of every task. Both are picklable; an answer is plain data or one numpy array."""

    function: Callable[[Any], Any]
    tasks: Sequence[Any]
    """May make its items when they are asked for: a million need not be in memory."""
    about: Json
    """What the function is and all that is the same for every task, as plain data."""
    name: Callable[[Any], str] = str
    """How a task is named to a person."""
    content: Callable[[Any], Any] = lambda task: task
    """What a task is, as plain data."""
    alike: Callable[[int], Any] | None = None
    """Places that have the same of it share work, in the context that `function.together(tasks)` then is."""

    def keys(self) -> Callable[[int], bytes]:
        """The key of the task at a place. Raises BadInput where a question is more than names, numbers and text."""
        start = hashlib.sha256(_text([self.about, versions()]))

        def key(place: int) -> bytes:
            digest = start.copy()
            digest.update(_text(self.content(self.tasks[place])))
            return digest.digest()[:DIGEST_B]

        return key


def plain_words(value: Any) -> Any:
    """`value` as JSON has it. Raises BadInput where it is more than names, numbers and text."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain_words(part) for name, part in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_words(part) for part in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    raise BadInput(
        f"a file of answers is for questions of names, numbers and text, not of a {type(value).__name__}; name a file",
        "--store",
    )


def _text(value: object) -> bytes:
    return canonical(_with_files(plain_words(value))).encode("utf-8", "surrogatepass")


def _with_files(value: Any) -> Any:
    """Plain data with a digest of the content beside every file that it names."""
    if isinstance(value, dict):
        return {name: _with_files(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_files(part) for part in value]
    if not isinstance(value, str):
        return value
    digests = [_digest(part) for part in dict.fromkeys((value, *value.split("@"))) if _is_file(part)]
    return [value, *digests] if digests else value


def _is_file(name: str) -> bool:
    return ("." in name or os.sep in name) and os.path.isfile(name)


def _digest(name: str) -> str:
    with open(name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
