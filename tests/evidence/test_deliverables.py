"""What exercises ask for: every deliverable is ticked by a figure or a number that the card's command makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.check.evidence.claims.entry import Deliverable, Entry, Found
from lockstep.check.evidence.claims.figures import WORDS, declared, points
from lockstep.check.evidence.claims.pictures import PICTURES, pictures
from lockstep.check.evidence.claims.shelf import entries

if TYPE_CHECKING:
    from lockstep.check.evidence.claims.picture import Line

EXERCISES = [one for one in entries() if one.kind == "exercise"]
SHOWN = sorted({name for one in EXERCISES for name in one.figures})


def unticked(entry: Entry) -> list[str]:
    """Deliverables that nothing ticks, or that name a figure or a number that does not exist."""
    numbers = [check.what for check in entry.every_check()]
    return [
        one.asks for one in entry.deliverables
        if not (one.figure or one.value)
        or (one.figure and one.figure not in PICTURES) or (one.value and numbers.count(one.value) != 1)
    ]  # fmt: skip


@pytest.mark.parametrize("entry", EXERCISES, ids=lambda entry: entry.id)
def test_every_deliverable_is_ticked(entry: Entry) -> None:
    assert len(entry.deliverables) >= 3
    assert unticked(entry) == []
    asked = [one.asks for one in entry.deliverables]
    assert len(set(asked)) == len(asked)
    drawn = [one.figure for one in entry.deliverables if one.figure]
    assert len(set(drawn)) == len(drawn), "a picture for each deliverable"


def test_a_deliverable_without_a_tick_is_noticed() -> None:
    (entry,) = (one for one in EXERCISES if one.id == "C.4")
    wrong = (Deliverable("a"), Deliverable("b", figure="none such"), Deliverable("c", value="none such"))
    assert unticked(replace(entry, deliverables=(*wrong, *entry.deliverables))) == ["a", "b", "c"]


def test_a_number_that_comes_out_otherwise_takes_its_tick_away() -> None:
    (entry,) = (one for one in EXERCISES if one.id == "C.1")
    as_right = {check: Found(check.right.low) for check in entry.every_check()}
    ticks = entry.ticks(as_right)
    assert ticks == [True if one.value else None for one in entry.deliverables]
    first = next(place for place, one in enumerate(entry.deliverables) if one.value)
    (check,) = (one for one in as_right if one.what == entry.deliverables[first].value)
    assert entry.ticks(as_right | {check: Found(0.0)})[first] is False
    assert set(entry.ticks(None)) == {None}


def test_cards_list_deliverables_and_json_has_them() -> None:
    found = run("claims", "C.1", "--run", "--json").json()["claims"][0]
    (entry,) = (one for one in EXERCISES if one.id == "C.1")
    assert [one["asks"] for one in found["deliverables"]] == [one.asks for one in entry.deliverables]
    assert all(one["ok"] is (True if one["value"] else None) for one in found["deliverables"])
    said = run("claims", "C.1").out
    assert "Deliverables" in said
    assert all(f"figure {name}" in said for name in entry.figures)
    assert lockstep.claims("T5").to_dict()["claims"][0]["deliverables"] == []


@pytest.mark.parametrize("name", SHOWN)
def test_every_figure_shows_finite_points_that_differ(name: str) -> None:
    """Laws and limits may be level; something in a figure must not be."""
    (picture,) = pictures(name)
    if picture.timeline is not None:
        return
    assert any(np.ptp(np.asarray(line.y, dtype=float)) > 0 for line in picture.lines)
    for line in picture.lines:
        x, y = np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)
        assert len(x) >= (1 if line.kind == "wrong" else 2), line.label
        assert np.isfinite(x).all()
        assert not picture.log_x or (x > 0).all(), line.label
        assert not picture.log_y or (y > 0).any(), line.label


def test_every_declared_figure_belongs_to_an_exercise() -> None:
    assert set(declared()) <= set(SHOWN)
    for figure in declared().values():
        assert set(figure) <= {"name", "title", "x", "y", "log", "at", "lines", "rows"}
        for line in figure["lines"]:
            assert len(set(line) - WORDS) <= 1, "one name is varied"


def test_points_are_listed_or_spaced() -> None:
    assert points([1, 2.5]) == [1, 2.5]
    assert points({"low": 1, "high": 100, "points": 3}) == pytest.approx([1, 10, 100])
    assert points({"low": 0, "high": 4, "steps": 5}) == pytest.approx([0, 1, 2, 3, 4])


def test_one_figure_is_drawn_alone(tmp_path: Path) -> None:
    every, one = tmp_path / "every.svg", tmp_path / "one.svg"
    assert run("claims", "C.1", "--plot", str(every)).err == ""
    assert run("claims", "C.1", "--figure", "step-by-size", "--plot", str(one)).err == ""
    (picture,) = pictures("step-by-size")
    said, all_said = one.read_text("utf-8"), every.read_text("utf-8")
    assert picture.x in said
    assert "speed-up over one worker" not in said
    assert picture.x in all_said
    assert "speed-up over one worker" in all_said
    refused = run("claims", "C.1", "--figure", "step-by-sizes", "--plot", str(one)).refusal()
    assert refused.startswith("--figure: unknown figure")
    assert "step-by-size" in refused
    assert run("claims", "C.1", "--figure", "step-by-size").refusal().startswith("--figure: chooses what --plot draws")


def line_of(figure: str, label: str) -> Line:
    (picture,) = pictures(figure)
    (line,) = (one for one in picture.lines if one.label == label)
    return line


def at(figure: str, label: str, x: float) -> float:
    """The value that a curve of a figure has at a point of it."""
    line = line_of(figure, label)
    (place,) = np.flatnonzero(np.isclose(np.asarray(line.x, dtype=float), x))
    return float(np.asarray(line.y)[place])


@pytest.mark.parametrize(
    ("figure", "label", "x", "value"),
    [
        ("step-by-workers", "ring", 256, 125 + 1e3 * 2 * 255 * (1e-5 + 700e6 / 256 / 25e9)),
        ("step-by-workers", "tree", 256, 125 + 1e3 * 2 * 8 * (1e-5 + 700e6 / 25e9)),
        ("step-by-size", "tree", 1e9, 0.125 + 2 * 8 * (1e-5 + 1e9 / 25e9)),
        ("share-by-workers", "ring", 256, 0.6725),
        ("speedup-by-workers", "each worker its own batch", 256, 172.16),
    ],
)
def test_curves_pass_through_values_worked_out_by_hand(figure: str, label: str, x: float, value: float) -> None:
    assert at(figure, label, x) == pytest.approx(value, rel=1e-3)
