"""A headless browser for the tests of what a browser shows; without one they are skipped, with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address in a page of its own; at its end nothing may have failed or come from another host."""
    pages, trouble = [], []

    def asks(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            trouble.append(f"asks {url}")

    def opens(url: str, width: int = 1400, height: int = 900, **how: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": height}, **how)
        pages.append(page)
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: asks(request.url))
        page.goto(url)
        return page

    yield opens
    for page in pages:
        page.close()
    assert trouble == []
