"""What tests of the lab share."""

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool that writes pages."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    found: ModuleType = pytest.importorskip("pages", reason="the tools are not installed beside these tests")
    return found
