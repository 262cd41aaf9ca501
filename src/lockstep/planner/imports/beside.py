"""Files that lie in a folder with the one that names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lockstep.documents.files import read_text
from lockstep.planner.imports.text import MOST_MAPPING_B, Text, mapping


def beside(text: Text, name: str, shape: str) -> Text | None:
    """The file of that relative path; None where a text is in memory, or there is no such file. Raises BadInput."""
    if text.folder is None or Path(name).is_absolute():
        return None
    path = text.folder / name
    if not path.is_file():
        return None
    return replace(mapping(read_text(path, MOST_MAPPING_B), str(path), shape), folder=path.parent)
