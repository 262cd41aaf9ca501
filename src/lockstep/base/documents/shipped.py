"""What is made of this package's own files, once per version of the files rather than once per process.

`shipped_table`: a TOML file, parsed. tomllib reads about 5 MB/s, and an estimate needs 200 kB. `kept_object`: anything
that takes long to make. As Python keeps a module's byte code, both stay in `__pycache__` beside the files, under a
digest of their content and one of their own; where nothing can be written they are made each time.
"""

from __future__ import annotations

import marshal
import os
import pickle
import sys
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def shipped_table(package: str, *parts: str) -> dict[str, Any]:
    """The content of the file `parts` of `package`. Raises FileNotFoundError, and TOMLDecodeError of a broken file."""
    return table(resources.files(package).joinpath(*parts))


def table(file: Traversable) -> dict[str, Any]:
    """The content of a TOML file that the package holds."""
    text = file.read_bytes()

    def parsed() -> dict[str, Any]:
        return tomllib.loads(text.decode())

    return _kept(file, source_hash(text), parsed, marshal) if isinstance(file, Path) else parsed()


def kept_object(file: Path, made_of: Iterable[Path], make: Callable[[], T]) -> T:
    """What `make` gives, kept beside the module `file` as long as the content of the files `made_of` is the same.

    The objects are pickled: `made_of` are the data that `make` reads and the modules that say what it makes of them.
    """
    try:
        digest = source_hash(b"".join(one.read_bytes() for one in made_of))
    except OSError:
        return make()
    return _kept(file, digest, make, pickle)


def _kept(file: Path, digest: bytes, make: Callable[[], T], form: Any) -> T:
    """The kept copy under `digest`, read by `marshal` or `pickle`; without a whole one what `make` gives, then kept."""
    kept = Path(cache_from_source(f"{file}.py"))
    with suppress(OSError, ValueError):
        found = kept.read_bytes()
        whole, data = found[len(digest) : 2 * len(digest)], found[2 * len(digest) :]
        if found.startswith(digest) and source_hash(data) == whole:
            content: T = form.loads(data)
            return content
    content = make()
    if not sys.dont_write_bytecode:
        with suppress(OSError, ValueError):
            data = form.dumps(content)
            _keep(kept, digest + source_hash(data) + data)
    return content


def _keep(kept: Path, data: bytes) -> None:
    """Writes in one step, as several processes may start at once."""
    kept.parent.mkdir(exist_ok=True)
    beside = kept.with_name(f"{kept.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(kept)
    finally:
        beside.unlink(missing_ok=True)
