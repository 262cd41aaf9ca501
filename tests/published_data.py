"""Published tables that may not be packaged: read from the folder that the environment variable LOCKSTEP_DATA names."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

FOLDER = os.environ.get("LOCKSTEP_DATA")


def unpackaged(file: str) -> list[dict[str, str]]:
    """The rows of a table; skips the test where the folder or the table is not there."""
    if not FOLDER:
        pytest.skip("LOCKSTEP_DATA does not name a folder of published tables")
    path = Path(FOLDER) / file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with path.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))
