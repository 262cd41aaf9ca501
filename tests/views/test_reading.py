"""Every face of an answer says what its MFU counts and what the answer leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.calling import keywords
from lockstep.show.views.parts.reading import mfu_column
from lockstep.show.web.parts import step_figures

RUN = ("llama3-8b", "-c", "dgx-h100:1", "--batch", "64", "--seq", "32768")
ASKED = (*RUN, "--train", "grpo", "--dtype", "fp8")
PINNED = ("--tp", "4", "--zero", "1", "--micro-batch", "1")
FACES: dict[str, tuple[str, ...]] = {
    "plan": ("plan", *ASKED),
    "estimate": ("estimate", *ASKED, *PINNED),
    "memory": ("memory", *ASKED, *PINNED),
    "compare": ("compare", ASKED[0], "zero=3", *ASKED[1:], *PINNED),
    "guide": ("guide", *ASKED),
    "scaling": ("scaling", *ASKED),
    "sensitivity": ("sensitivity", *ASKED, *PINNED),
    "campaign": ("campaign", *ASKED, *PINNED, "--tokens", "1B", "--campaigns", "2"),
    "diagnose": ("diagnose", "--model", *ASKED, *PINNED, "--recompute", "full", "--measured", "130s"),
}
WITHOUT_MFU = {"memory", "sensitivity"}
OTHER = {
    "roofline": "shares of traffic and computing, no seconds of a step",
    "export": "a configuration",
    "cite": "sources",
    "rollout": "generation, which is what it prices",
    "watch": "a log, beside the interval that an estimate says",
}
"""Verbs that read a recipe and price no step."""
COUNTED = "of the fp8 peak; attention counted in full"


def test_every_verb_that_prices_a_recipe_is_covered() -> None:
    reads = {name for name in VERBS if "train" in keywords(getattr(lockstep, name))}
    assert reads == {*FACES, *OTHER, "report"}


@pytest.mark.parametrize("verb", FACES)
def test_terminal_and_json_state_what_is_counted_and_what_is_not(verb: str) -> None:
    told = " ".join(run(*FACES[verb]).out.split())
    assert "Not counted: the time to generate answers" in told
    assert (f"MFU ({COUNTED}" in told) == (verb not in WITHOUT_MFU)
    answer = run(*FACES[verb], "--json").json()
    sides = [answer["a"], answer["b"]] if verb == "compare" else [answer]
    if verb != "campaign":
        assert all("the time to generate answers" in one["not_counted"] for one in sides)


def test_case_studies_name_the_convention_of_their_table() -> None:
    told = " ".join(run("case", "deepseek-v3").out.split())
    assert f"in 90 % of cases; MFU ({COUNTED})" in told


def test_reports_state_what_is_not_counted(tmp_path: Path) -> None:
    made = tmp_path / "report.html"
    assert run("report", *ASKED, "-o", str(made)).code == 0
    told = made.read_text("utf-8")
    assert "Not counted: the time to generate answers" in told
    assert f"MFU ({COUNTED}" in told


def test_figures_on_the_page_name_their_convention() -> None:
    words = {"batch": 64, "seq": 32768, "tp": 4, "zero": 1, "micro_batch": 1}
    one = lockstep.estimate("llama3-8b", "dgx-h100:1", train="grpo", dtype="fp8", **words)
    labels = {figure["label"]: figure["note"] for figure in step_figures(one)}
    assert f"MFU ({COUNTED})" in labels
    assert "the time to generate answers" in labels["Not counted"]
    plain = lockstep.estimate("llama3-8b", "dgx-h100:1", **words)
    assert "Not counted" not in {figure["label"] for figure in step_figures(plain)}


def test_recipes_with_different_peaks_have_separate_notes() -> None:
    told = " ".join(run("plan", *RUN, "--dtype", "bf16,fp8").out.split())
    recipes = told.partition("Recipes")[2].partition("Best layouts")[0]
    peak, attention = COUNTED.split("; ")
    assert f"MFU ({attention})" in recipes
    assert recipes.count(f"% ({peak})") == 1


def test_an_mfu_column_names_the_convention_of_all_its_cells() -> None:
    words = {"batch": 64, "tp": 4, "zero": 1, "micro_batch": 1}
    long, short = (lockstep.estimate("llama3-8b", "dgx-h100:1", seq=seq, **words).utilisation for seq in (32768, 512))
    assert mfu_column([]) == ("", [])
    assert mfu_column([short])[0] == ""
    assert mfu_column([long, long])[0] == "MFU (attention counted in full)"
    note, cells = mfu_column([long, short])
    assert note == ""
    assert "(attention counted in full)" in cells[0]
    assert "(" not in cells[1]


def test_a_comparison_names_the_run_with_uncounted_parts() -> None:
    told = run("compare", ASKED[0], "train=grpo", *RUN[1:], *PINNED).out
    assert "Not counted in B: the time to generate answers" in " ".join(told.split())
    assert "Not counted in A" not in told
