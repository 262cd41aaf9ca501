"""Real traces, logs and snapshots: read from the folder that the environment variable LOCKSTEP_TRACES names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = os.environ.get("LOCKSTEP_TRACES")


def published_trace(file: str) -> Path:
    """The path of a file; skips the test where the folder or the file is not there."""
    if not FOLDER:
        pytest.skip("LOCKSTEP_TRACES does not name a folder of traces")
    path = Path(FOLDER) / file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path
