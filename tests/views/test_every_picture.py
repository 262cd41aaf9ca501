"""Every verb with something to draw draws it; what is drawn has a title, words that stand for it, and dark colours."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cli_runner import LLAMA, run
from lockstep.base.errors import BadInput
from lockstep.show.verbs import VERBS
from lockstep.show.views.parts.figure import PALETTE
from lockstep.show.views.parts.notebook import LONGEST
from lockstep.show.views.parts.page import Page
from lockstep.show.views.parts.svg import DARK, on_dark

WITHOUT = {"export", "find", "report", "cite", "stack", "ui"}
"""Text that another program reads; the file with all pictures; lists of words and papers; a page of its own."""
OWN = {"claims"}
"""Draws what an entry is about."""
SVG = "{http://www.w3.org/2000/svg}"
LINK = ("--latency", "5us", "--bandwidth", "25GB/s")
COMMANDS = {
    "messages": ("messages", "--workers", "8", "--params", "25M"),
    "balance": ("balance", "--speeds", "2x310,2x125", "--batch", "64"),
    "roofline": ("roofline", "gpt2", "-c", "dgx-h100", "--batch", "64"),
}


def test_every_verb_has_a_picture() -> None:
    missing = {verb for verb in VERBS if import_module(f"lockstep.show.views.{verb}").COMMAND.picture is None}
    assert missing <= WITHOUT | OWN


@pytest.mark.parametrize("name", COMMANDS)
def test_an_svg_has_a_title_and_a_description(name: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    assert run(*COMMANDS[name], "--plot", str(path), "--json").code == 0
    root = ElementTree.parse(path).getroot()
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    said = " ".join("".join(one.itertext()) for one in root.iter(f"{SVG}text"))
    assert title.text
    assert title.text in said
    assert description.text
    assert len(description.text) > len(title.text)
    # Letters are letters, so that they can be searched, read aloud and selected.
    assert len(said) > 100


def test_an_html_page_contains_the_description_of_its_plot(tmp_path: Path) -> None:
    page, picture = tmp_path / "answer.html", tmp_path / "picture.svg"
    for more in (("--html", str(page)), ("--plot", str(picture), "--json")):
        assert run(*COMMANDS["balance"], *more).code == 0
    words = re.search(r"<desc.*?</desc>", picture.read_text("utf-8"))
    assert words is not None
    assert words[0] in page.read_text("utf-8")


QUESTIONS = {
    **COMMANDS,
    **{verb: (verb, *LLAMA) for verb in ("plan", "estimate", "memory", "guide", "roofline", "sensitivity", "cite")},
    "export": ("export", *LLAMA, "--to", "megatron"),
    "compare": ("compare", LLAMA[0], "tp=2", *LLAMA[1:]),
    "collective": ("collective", "all-reduce", "--ranks", "8", "--size", "1MB", *LINK),
    "crossover": ("crossover", "all-reduce", "--ranks", "8", *LINK),
    "pipeline": ("pipeline", "--stages", "4", "--microbatches", "8"),
    "choices": ("pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "all"),
    "overlap": ("overlap", "--layers", "8", "--backward", "48ms", "--gradients", "70MB", "--ranks", "8", *LINK),
    "rollout": ("rollout", "gpt2", "-c", "l40s:1", "--prompts", "4", "--prompt-tokens", "16", "--response", "32"),
    "tensor": ("tensor", "--ranks", "4", "--hidden", "64", "--heads", "4", "--seq", "32", "--flops", "1T", *LINK),
    "experts": ("experts", "--experts", "8", "--tokens", "4096", "--ranks", "4", *LINK),
    "stragglers": ("stragglers", "--workers", "16", "--law", "lognormal:mean=50ms,cv=0.3"),
    "checkpoint": ("checkpoint", "--mtbf", "6h", "--write", "5min"),
    "campaign": ("campaign", *LLAMA, "--tokens", "1G"),
    "scaling": ("scaling", "gpt2", "--cluster", "dgx-a100-80gb:2", "--batch", "24"),
    "speedup": ("speedup", "--compute", "10s", "--size", "200MB", *LINK),
    "converge": ("converge", "index-bits"),
    "claims": ("claims", "A.5"),
    "catalog": ("catalog",),
    "stack": ("stack", "torchtitan"),
    "support": ("support", "h100-sxm"),
    "validate": ("validate", "korthikanti_2022"),
    "case": ("case", "gpt3-175b-megatron"),
    "watch": ("watch", str(Path(__file__).parents[2] / "examples" / "watched.log")),
    "lists": ("messages", "--workers", "2,4", "--params", "1M"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_has_a_short_repr_rows_and_a_plot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    monkeypatch.setattr(Page, "write", lambda page, answer, render: answers.append(answer))
    assert run(*QUESTIONS[name], "--html", str(tmp_path / "answer.html")).code in (0, 1)
    (answer,) = answers
    assert 0 < len(repr(answer)) <= LONGEST
    rows = answer.table()
    assert rows
    assert all(isinstance(row, dict) and row for row in rows)
    if name in WITHOUT | OWN:
        with pytest.raises(BadInput, match="no picture"):
            answer.plot()
    else:
        assert answer.plot().axes


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_contrast_with_light_and_dark_backgrounds() -> None:
    dark = on_dark("#ffffff")
    assert dark is not None
    for colour in PALETTE:
        assert contrast(colour, "#ffffff") > 2.0
        assert contrast(on_dark(colour.lower()) or colour, dark) > 3.0
    assert contrast(on_dark("#000000") or "", dark) > 10
    assert set(DARK) >= {colour.lower() for colour in PALETTE[:-1]}


@pytest.mark.parametrize("grey", ["#000000", "#333333", "#999999", "#eeeeee", "#ffffff"])
def test_greys_keep_their_order_on_a_dark_background(grey: str) -> None:
    found = on_dark(grey)
    assert found is not None
    assert luminance(found) <= luminance(on_dark("#000000") or "")
    # What is lighter on white is darker there.
    assert (luminance(grey) > 0.5) == (luminance(found) < 0.1)
