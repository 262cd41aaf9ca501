"""`shipped_table`: a TOML file of this package, parsed once per version of the file rather than once per process.

tomllib reads about 5 MB/s, and an estimate needs 200 kB. As Python keeps a module's byte code, the parsed table stays
in `__pycache__` beside the file, under a digest of the text; where nothing can be written the text is parsed each time.
"""

from __future__ import annotations

import marshal
import os
import sys
import tomllib
from contextlib import suppress
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from typing import Any


def shipped_table(package: str, *parts: str) -> dict[str, Any]:
    """The content of the file `parts` of `package`. Raises FileNotFoundError, and TOMLDecodeError of a broken file."""
    return table(resources.files(package).joinpath(*parts))


def table(file: Traversable) -> dict[str, Any]:
    """The content of a TOML file that the package holds."""
    text = file.read_bytes()
    if not isinstance(file, Path):
        return tomllib.loads(text.decode())
    kept, digest = Path(cache_from_source(f"{file}.py")), source_hash(text)
    with suppress(OSError, ValueError, EOFError, TypeError):
        found = kept.read_bytes()
        if found.startswith(digest):
            content: dict[str, Any] = marshal.loads(found[len(digest) :])
            return content
    content = tomllib.loads(text.decode())
    if not sys.dont_write_bytecode:
        with suppress(OSError, ValueError):
            _keep(kept, digest + marshal.dumps(content))
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
