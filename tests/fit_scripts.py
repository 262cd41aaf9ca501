"""The scripts of `tools/fit`, for the tests that hold the catalog to the constants that these find."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "tools" / "fit"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


def fit_script(name: str) -> ModuleType:
    """The script called `name` as a module; skips the tests where the tools are not installed beside them."""
    if not FOLDER.is_dir():
        pytest.skip("the tools are not installed beside these tests", allow_module_level=True)
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return import_module(name)
