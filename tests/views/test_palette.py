"""One colour for one part, of a step and of memory: on the page and in every picture, on light and on dark paper."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from lockstep.show.views.parts.bars import MEMORY_COLOURS, PART_COLOURS
from lockstep.show.views.parts.svg import DARK
from lockstep.show.web.parts import UPDATE

PAGE = resources.files("lockstep.show.web").joinpath("page", "page.css").read_text("utf-8")


def variables(text: str) -> dict[str, str]:
    """Colours by the name of their variable."""
    return {name: colour.lower() for name, colour in re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text)}


LIGHT = variables(PAGE[: PAGE.index("@media")])
ON_DARK = {**LIGHT, **variables(PAGE[PAGE.index("@media") : PAGE.index("* { box-sizing")])}
KINDS = {
    kind: name
    for kinds, name in re.findall(r"((?:\.k-\w+,? ?)+)\{ background: var\(--(\w+)\)", PAGE)
    for kind in re.findall(r"\.k-(\w+)", kinds)
}
"""The variable of each part."""


@pytest.mark.parametrize("colours", [MEMORY_COLOURS, PART_COLOURS], ids=["memory", "step"])
def test_pictures_have_the_colours_of_the_page(colours: dict[str, str]) -> None:
    for part, colour in colours.items():
        kind = UPDATE.get(part, part) if colours is PART_COLOURS else part
        assert LIGHT[KINDS[kind]] == colour.lower(), part
        assert ON_DARK[KINDS[kind]] == DARK[colour.lower()], part


def test_parts_of_one_bar_differ() -> None:
    drawn = [colour for part, colour in PART_COLOURS.items() if part != "generation"]
    assert len(set(drawn)) == len(drawn)
    assert len(set(MEMORY_COLOURS.values())) == len(MEMORY_COLOURS)


def test_memory_on_a_timeline_has_the_same_colours() -> None:
    sheet = resources.files("lockstep.show.views").joinpath("page", "views.css").read_text("utf-8")
    light, dark = (variables(part) for part in sheet.split("@media screen and (prefers-color-scheme: dark)"))
    for part in MEMORY_COLOURS:
        assert light[f"m-{part}"] == LIGHT[KINDS[part]], part
        assert dark[f"m-{part}"] == ON_DARK[KINDS[part]], part
