"""What exercises ask for: every deliverable is ticked by a figure or a number that the card's command makes."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import lockstep
from claim_pages import anchor, exercise_page
from cli_runner import run
from effort import share
from lockstep.check.evidence.claims.curves.paths import delayed_loss
from lockstep.check.evidence.claims.decide import Decided
from lockstep.check.evidence.claims.entry import Deliverable, Entry, Found
from lockstep.check.evidence.claims.figures import WORDS, declared, points
from lockstep.check.evidence.claims.pictures import PICTURES, pictures
from lockstep.check.evidence.claims.shelf import costs, entries

if TYPE_CHECKING:
    from lockstep.check.evidence.claims.picture import Line

EXERCISES = [one for one in entries() if one.kind == "exercise"]
PAGES = Path(__file__).parents[2] / "docs" / "exercises"
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


def test_cards_say_how_long_their_figures_take() -> None:
    """Measured, and a few seconds at most."""
    assert {f"figures {one.id}" for one in EXERCISES} <= set(costs())
    for entry in EXERCISES:
        assert Decided(entry).drawing_s <= 6
        assert f"{Decided(entry).drawing_s:.1f} s for all" in run("claims", entry.id).out


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


def test_every_declared_figure_belongs_to_an_exercise() -> None:
    assert set(declared()) <= set(SHOWN)
    for figure in declared().values():
        assert set(figure) <= {"name", "title", "x", "y", "log", "at", "lines", "rows", "least"}
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


LAYER_GB = 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288) / 8e9
"""Activations of a GPT-3 layer on one of 8 tensor ranks, one sequence."""


@pytest.mark.parametrize(
    ("figure", "label", "x", "value"),
    [
        ("step-by-workers", "ring", 256, 125 + 1e3 * 2 * 255 * (1e-5 + 700e6 / 256 / 25e9)),
        ("step-by-workers", "tree", 256, 125 + 1e3 * 2 * 8 * (1e-5 + 700e6 / 25e9)),
        ("step-by-size", "tree", 1e9, 0.125 + 2 * 8 * (1e-5 + 1e9 / 25e9)),
        ("share-by-workers", "ring", 256, 0.6725),
        ("speedup-by-workers", "each worker its own batch", 256, 172.16),
        ("waiting-by-workers", "cv 0.2", 256, 0.5808),
        ("updates-by-delay", "solved", 50, 29819),
        ("all-reduce-by-size", "tree", 1e9, 320.16),
        ("tie-by-ranks", "10 us, 50 GB/s", 1024, 56.272),
        ("busy-by-microbatches", "8 stages", 4, 4 / 11),
        ("memory-by-schedule", "GPipe", 64, 64 * 12 * LAYER_GB),
        ("memory-by-schedule", "1F1B", 64, 8 * 12 * LAYER_GB),
        ("recomputation", "32 micro-batches", 1, 4 / 3),
        ("saved-by-share", "places of 32 bits", 0.01, 50),
        ("law-of-local-steps", "c = 0.07, r = 2", 1, 3),
        ("one-slow-worker", "without waiting", 4, 4 / 3.25),
        ("lost-by-scale", "overflow, law", 2.0**28, math.erfc(65520 / (2.0**28 * 1e-4) / 2**0.5)),
        ("clipping-order", "clipped before unscaling", 1024, 1 / 1024),
        ("aborted-by-interval", "counted", 2000, 1 / 2001),
        ("safe-sums", "law", 8, 65520 / 8),
        ("backward-by-bucket", "25 GB/s", 2, 486.26),
        ("backward-by-bucket", "25 GB/s", 16, 494.40),
        ("server-by-shards", "push, then pull", 16, 256**2 / (16 * 255)),
        ("server-busy-links", "16 shards", 256, 1 / 16),
        ("density-by-shards", "values and places", 16, 16 * 255 / (2 * 256**2)),
        (
            "overhead-by-interval",
            "exact: M (exp((t + C) / M) - 1) / t - 1",
            0.25,
            84 * np.expm1((0.25 + 1 / 12) / 21) - 1,
        ),
        ("bytes-by-width", "8 ranks", 12288, 352.32),
        ("traffic-by-ranks", "300 GB/s", 8, 0.13166),
        ("gain-of-hierarchy", "700 MB", 32, 1.277),
        ("days-by-mfu", "6 N D / (n x peak x MFU)", 0.45, 270.5),
        ("days-by-gpus", "at the peak rate", 256, 121.7),
    ],
)
def test_curves_pass_through_values_worked_out_by_hand(figure: str, label: str, x: float, value: float) -> None:
    assert at(figure, label, x) == pytest.approx(value, rel=2e-3)


@pytest.mark.parametrize(("label", "shape"), [("Pareto, shape 2.5", 2.5), ("Pareto, shape 1.5", 1.5)])
def test_the_tail_of_steps_follows_the_pareto_law(label: str, shape: float) -> None:
    """A quantile p of the slowest of n is the quantile p^(1 / n) of one, which is (1 - p^(1 / n))^(-1 / shape)."""
    line = line_of("tail-by-workers", label)
    n = np.asarray(line.x)
    assert line.y == pytest.approx(((1 - 0.99 ** (1 / n)) / (1 - 0.5 ** (1 / n))) ** (-1 / shape), rel=1e-6)


def test_no_schedule_beats_the_marked_front() -> None:
    every, front, full = pictures("schedules-in-memory-and-time")[0].lines
    assert full.kind == "limit"
    edge = set(zip(front.x, front.y, strict=True))
    assert edge <= set(zip(every.x, every.y, strict=True))
    for x, y in zip(every.x, every.y, strict=True):
        beaten = any(a <= x and b >= y and (a, b) != (x, y) for a, b in edge)
        assert beaten != ((x, y) in edge)


@pytest.mark.parametrize(("delay", "updates"), [(0, 63), (2, 47), (4, 34), (8, 129)])
def test_loss_curves_at_one_step_stay_below_the_target_from_the_right_update_on(delay: int, updates: int) -> None:
    """Those of the worked example, by its recursion: step 0.1, from 5 sqrt 2 to 0.01."""
    _, losses = delayed_loss(delay, 1.0, 200, 0.1)
    above = np.flatnonzero(losses >= 0.01**2 / 50)
    assert above.max() + 1 == updates


def test_feedback_and_bits_cost_steps_in_the_right_order() -> None:
    fed = line_of("steps-by-share", "largest entries, with error feedback").y
    alone = line_of("steps-by-share", "largest entries alone; 3,000 where the target is not reached").y
    dense = np.asarray(line_of("steps-by-share", "nothing compressed").y)
    assert (np.asarray(fed) >= dense[0]).all()
    assert (np.asarray(alone) > np.asarray(fed)).all()
    random = np.asarray(line_of("steps-by-bits", "rounded at random").y)
    assert (np.diff(random) <= 0).all()


def test_weights_make_a_step_stable_that_is_not() -> None:
    lines = {line.label: np.asarray(line.y) for line in pictures("weighted-loss")[0].lines}
    assert lines["no weight"][-1] > 1
    assert lines["1 / (1 + age)"][-1] < 1e-6


def test_ranks_send_all_tokens_and_the_busiest_gets_most() -> None:
    """2,048 tokens of 8 KiB, 256 from each rank; popular experts lie on the first."""
    matrix = np.stack([np.asarray(line.y) for line in pictures("bytes-between-ranks")[0].lines])
    assert matrix.shape == (8, 8)
    assert matrix.sum(axis=0) == pytest.approx(256 * 8192 / 1e6)
    assert matrix.sum(axis=1).argmax() == 0


def test_local_checkpoints_save_most_of_what_they_serve() -> None:
    """A local write is a twentieth of a remote one: the least overhead falls, and lies at shorter intervals."""
    alone, *local = (np.asarray(line.y) for line in pictures("overhead-of-two-levels")[0].lines)
    for one in local:
        assert one.min() < 0.75 * alone.min()
        assert one.argmin() < alone.argmin()


def test_pages_of_exercises_match_the_cards_and_show_every_figure() -> None:
    """`python tools/pages.py --write docs/exercises` brings them up to date."""
    for entry in share(EXERCISES, 5):
        page = PAGES / f"{anchor(entry)}.md"
        assert page.read_text("utf-8") == exercise_page(entry.id), entry.id
    assert {path.stem for path in (PAGES / "figures").iterdir()} == set(SHOWN)
    for name, figure in declared().items():
        svg = (PAGES / "figures" / f"{name}.svg").read_text("utf-8")
        assert f">{escape(figure['title'], quote=True)}</title>" in svg, name
        assert escape(figure["x"], quote=True) in svg
