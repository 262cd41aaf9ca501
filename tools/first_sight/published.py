"""Tables that are asked before they are packaged: read from the folder that LOCKSTEP_DATA names."""

from __future__ import annotations

import csv
import os
from pathlib import Path


def rows(file: str) -> list[dict[str, str]]:
    """The rows of a published table."""
    with (Path(os.environ["LOCKSTEP_DATA"]) / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
