"""Files that lie in a folder with the one that names them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from lockstep.base.documents.files import read_text
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.text import MOST_MAPPING_B, Text, mapping, shape_of

SHAPES = ("json", "yaml")


def beside(text: Text, name: str, shape: str = "") -> Text | None:
    """The file of that relative path, or of that name in the same folder, in a shape: JSON or YAML where none is given.

    None where a text is in memory, or there is no such file. Raises BadInput for one that is no such mapping.
    """
    given = Path(name)
    if text.folder is None or given.is_absolute():
        return None
    path = next((one for one in (text.folder / given, text.folder / given.name) if os.path.isfile(one)), None)
    if path is None:
        return None
    content = read_text(path, MOST_MAPPING_B)
    found = shape or shape_of(content)
    if found is None or (not shape and found not in SHAPES):
        raise BadInput("is not a mapping in JSON or YAML", str(path))
    return replace(mapping(content, str(path), found), folder=path.parent)
