"""A headless browser for the tests of what a browser shows; without one they are skipped, with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PATHS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium of the system for all tests."""
    play = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = next(filter(None, map(shutil.which, PATHS)), None)
    if path is None:
        pytest.skip("needs a Chromium")
    with play.sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()
