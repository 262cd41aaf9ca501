"""One server and one browser for all tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep.show.verbs.ui import Served
from ui.asking import Client

PATIENCE_MS = 900_000
"""How long a page is waited for: half a minute, which is playwright's own, passes on a busy machine."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep of plans."""
    folder = tmp_path_factory.mktemp("sweeps")
    lockstep.plan("llama3-8b", "dgx-h100:2", batch=[64, 128], store=folder / "plans.sweep")
    return folder


@pytest.fixture(scope="session")
def served(kept: Path) -> Iterator[Served]:
    """The page on a free port."""
    found = lockstep.ui(open=False, sweeps=kept)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def client(served: Served) -> Client:
    """Who has opened the address."""
    return Client(served.address).enter()


@dataclass(frozen=True)
class Patient:
    """A browser whose pages are waited for as long as it takes."""

    browser: Any

    def new_context(self, **how: Any) -> Any:
        """Pages of their own, with nothing kept from before."""
        context = self.browser.new_context(**how)
        context.set_default_timeout(PATIENCE_MS)
        return context

    def new_page(self, **how: Any) -> Any:
        """One page of its own."""
        page = self.browser.new_page(**how)
        page.set_default_timeout(PATIENCE_MS)
        return page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium, steered by playwright."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=PATIENCE_MS
        )
        yield Patient(opened)
        opened.close()


@dataclass
class Watched:
    """A page, what it asked for, and what it complained of."""

    page: Any
    base: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Any:
        """Opens an address of the page and waits until all of it is drawn."""
        self.page.goto(self.base + path)
        return self.settle()

    def settle(self) -> Any:
        """The part of the page with the answer, once nothing is awaited."""
        self.page.wait_for_selector("main .screen, main .refused")
        self.page.wait_for_function("() => !document.querySelector('main[aria-busy], [role=status]')")
        return self.page.locator("main")

    def quiet(self) -> None:
        """Nothing of another host was asked for, and nothing was complained of."""
        assert [one for one in self.requests if not one.startswith((self.base, "data:", "file:"))] == []
        assert self.complaints == []


@pytest.fixture
def watched(browser: Any, served: Served) -> Iterator[Any]:
    """Opens pages, each with a width and a colour scheme."""
    contexts = []

    def opened(width: int = 1400, scheme: str = "light") -> Watched:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        found = Watched(context.new_page(), served.address.partition("/?")[0])
        found.page.on("request", lambda one: found.requests.append(one.url))
        found.page.on("pageerror", lambda one: found.complaints.append(str(one)))
        found.page.on("console", lambda one: one.type in ("error", "warning") and found.complaints.append(one.text))
        found.page.goto(served.address, wait_until="commit")
        return found

    yield opened
    for context in contexts:
        context.close()
