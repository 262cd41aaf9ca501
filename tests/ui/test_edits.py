"""Nothing that is typed, pasted or filled in is lost, and the last answer stays beside the refusal of the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

import lockstep
from ui.asking import WORDS
from ui.conftest import Watched

QUERY = f"?{urlencode(WORDS)}"
FIGURES = "main .screen.ask .figures"
SET = """(values) => Object.entries(values).forEach(([name, value]) => {
  const field = document.getElementById(`f-${name}`);
  field.value = value;
  field.dispatchEvent(new Event('change', { bubbles: true }));
})"""


@pytest.fixture(scope="module")
def page(browser: Any, served: Any) -> Iterator[Watched]:
    """One page for all tests of this file."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    found = Watched(context.new_page(), served.address.partition("/?")[0])
    found.page.goto(served.address, wait_until="commit")
    yield found
    context.close()


def said(page: Watched) -> dict[str, str]:
    """The words of the address."""
    return dict(parse_qsl(urlsplit(page.page.url).query))


def wait_for(page: Watched, **words: str) -> None:
    """Waits until the address and the command below the answer have the words."""
    for name, value in words.items():
        page.page.wait_for_function(
            "([name, value]) => (new URLSearchParams(location.search).get(name) ?? '') === value", arg=[name, value]
        )
    page.settle()


@pytest.mark.parametrize("between_ms", [0, 60, 120])
def test_of_two_fields_changed_at_once_both_are_asked(between_ms: int, page: Watched) -> None:
    page.go(f"/ask{QUERY}")
    page.page.locator("#f-model").fill("gpt2")
    page.page.wait_for_timeout(between_ms)
    page.page.locator("#f-cluster").fill("dgx-h100:1")
    wait_for(page, model="gpt2", cluster="dgx-h100:1")
    assert page.page.locator("main .over").inner_text() == "gpt2 on 8 x h100-sxm"
    assert page.page.locator("#f-model").input_value() == "gpt2"


def test_what_is_pasted_or_filled_in_is_asked(page: Watched) -> None:
    page.go(f"/ask{QUERY}")
    page.page.locator("#f-batch").select_text()
    page.page.keyboard.insert_text("128")  # as a paste does: one event of input, no keys
    wait_for(page, batch="128")
    page.page.evaluate(SET, {"model": "gpt2", "cluster": "dgx-h100:1"})
    wait_for(page, model="gpt2", cluster="dgx-h100:1", batch="128")
    assert page.page.locator("main .over").inner_text() == "gpt2 on 8 x h100-sxm"


def test_an_edit_goes_along_to_the_next_screen(page: Watched) -> None:
    page.go(f"/ask{QUERY}")
    page.page.locator("#f-batch").fill("128")
    page.page.locator("nav a[data-screen=layout]").click()
    page.page.wait_for_selector(".screen.layout")
    wait_for(page, batch="128")
    page.page.locator("nav a[data-screen=play]").click()
    page.page.wait_for_selector(".screen.play")
    page.page.locator(".plays a").nth(1).click()
    page.page.wait_for_selector(".plays a:nth-child(2)[aria-current]")
    page.page.locator("nav a[data-screen=ask]").click()
    wait_for(page, batch="128", model="llama3-8b")


def test_back_and_forward_undo_and_redo_edits(page: Watched) -> None:
    """A field is one state, however many letters it took; the field in use shows the state too."""
    page.go(f"/ask{QUERY}")
    field = page.page.locator("#f-batch")
    field.fill("")
    for letters in ("1", "12", "128"):
        field.press(letters[-1])
        wait_for(page, batch=letters)
    page.page.locator("#f-tokens").fill("2T")
    wait_for(page, tokens="2T")
    for undone in ({"batch": "128", "tokens": "1T"}, {"batch": "64", "tokens": "1T"}):
        page.page.go_back()
        wait_for(page, **undone)
        assert field.input_value() == undone["batch"]
        assert page.page.locator("#f-tokens").input_value() == undone["tokens"]
    page.page.go_forward()
    wait_for(page, batch="128", tokens="1T")
    page.page.go_forward()
    wait_for(page, batch="128", tokens="2T")
    assert page.page.locator("#f-tokens").input_value() == "2T"


def test_the_last_answer_stays_beside_an_error(page: Watched) -> None:
    page.go(f"/ask{QUERY}")
    before = page.page.locator(FIGURES).inner_text()
    page.page.locator("#f-model").fill("llama3-")
    page.page.wait_for_selector("main .refused")
    assert page.page.locator(FIGURES).inner_text() == before
    assert float(page.page.evaluate("() => getComputedStyle(document.querySelector('main .screen')).opacity")) < 1
    field = page.page.locator("#f-model")
    assert field.get_attribute("aria-invalid") == "true"
    told = page.page.locator(f"#{field.get_attribute('aria-errormessage')}").inner_text()
    assert "Model: " in told
    assert "did you mean llama3-8b" in told
    assert page.page.locator("h1").count() == 1
    field.fill("llama3-8b")
    page.page.wait_for_selector("main .refused", state="detached")
    assert page.settle().locator(".old").count() == 0
    assert page.page.locator(FIGURES).inner_text() == before
    assert field.get_attribute("aria-invalid") is None
    page.page.locator("#f-cluster").fill("dgx-h100:-1")
    page.page.wait_for_selector("main .refused")
    assert "'dgx-h100:-1': number of nodes after the colon" in page.page.locator("main .refused").inner_text()
    assert page.page.locator("#f-cluster").get_attribute("aria-invalid") == "true"


def test_an_address_without_a_question_has_the_first_one(page: Watched) -> None:
    """A screen that shows something of its own keeps its bare address."""
    for name in ("ask", "layout", "campaign"):
        page.go(f"/{name}")
        assert page.page.locator("main .refused").count() == 0
        assert said(page)["model"] == "llama3-70b"
    page.go("/diagnose")
    assert said(page) == {}


def test_a_server_that_ends_leaves_the_answer_and_one_that_is_back_goes_on(browser: Any) -> None:
    """Started again on the same port, with another token, which another tab brings."""
    running = lockstep.ui(open=False)
    port = urlsplit(running.address).port
    context = browser.new_context()
    page = Watched(context.new_page(), running.address.partition("/?")[0])
    try:
        page.page.goto(running.address, wait_until="commit")
        page.go(f"/ask{QUERY}")
        before = page.page.locator(FIGURES).inner_text()
        running.stop()
        page.page.locator("#f-batch").fill("128")
        page.page.wait_for_selector("main .refused")
        assert page.page.locator(FIGURES).inner_text() == before
        assert page.page.locator("#f-batch").input_value() == "128"
        running = lockstep.ui(open=False, port=port)
        context.new_page().goto(running.address, wait_until="commit")
        page.page.get_by_text("Try again").click()
        page.page.wait_for_selector("main .refused", state="detached")
        wait_for(page, batch="128")
        assert "--batch 128" in page.page.locator("footer pre").first.inner_text()
    finally:
        context.close()
        running.stop()
