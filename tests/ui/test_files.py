"""The files of the page: small, without anything from elsewhere, and text as text."""

from __future__ import annotations

import re
from pathlib import Path

import lockstep

ROOT = Path(lockstep.__file__).parent
FILES = sorted(
    file
    for place in ("show/web/page", "show/views/page")
    for file in (ROOT / place).rglob("*")
    if file.is_file() and file.suffix != ".pyc"
)
SCRIPTS = [file for file in FILES if file.suffix == ".js"]
MOST_LINES, MOST_LINES_OF_ONE, MOST_B = 2_500, 300, 250_000


def test_scripts_stay_small() -> None:
    lines = {file.name: len(file.read_text("utf-8").splitlines()) for file in SCRIPTS}
    assert sum(lines.values()) <= MOST_LINES
    assert {name: count for name, count in lines.items() if count > MOST_LINES_OF_ONE} == {}
    assert sum(file.stat().st_size for file in FILES if file.suffix != ".py") <= MOST_B


def test_nothing_is_fetched_from_elsewhere() -> None:
    for file in FILES:
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"(?:https?:)?//[\w-]+\.[\w.]+", text) == [], file.name


def test_text_is_never_read_as_html() -> None:
    forbidden = re.compile(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|new Function)\b")
    assert [
        (file.name, forbidden.findall(file.read_text("utf-8")))
        for file in SCRIPTS
        if forbidden.search(file.read_text("utf-8"))
    ] == []


def test_the_page_has_no_style_or_script_of_its_own() -> None:
    page = (ROOT / "show" / "web" / "page" / "index.html").read_text("utf-8")
    assert re.findall(r"<style|style=|<script(?![^>]*src=)|\son\w+=", page) == []
