"""`claims`: the list, cards, runs, budgets, errata, pictures, and exit codes."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import lockstep
from claim_pages import anchor, claims_page, exercises_page
from cli_runner import run
from effort import share
from lockstep.base.engines import Processes
from lockstep.base.errors import BadInput, RunFailed
from lockstep.check.evidence.claims import decide, running
from lockstep.check.evidence.claims.deciders import scaling
from lockstep.check.evidence.claims.entry import Found
from lockstep.check.evidence.claims.pictures import PICTURES, pictures
from lockstep.check.evidence.claims.shelf import entries
from lockstep.show.verbs.claims import Claims
from lockstep.show.views import claims as claims_view
from lockstep.show.views.parts import claims_plot
from lockstep.show.views.parts.claims_compared import compared, draw_compared

ROOT = Path(__file__).parents[2]


def test_the_list_has_every_item_and_runs_nothing() -> None:
    found = run("claims", "--json").json()
    assert [one["id"] for one in found["claims"]] == [entry.id for entry in entries()]
    assert all(one["as_registered"] is None for one in found["claims"])
    assert all(check["got"] is None for one in found["claims"] for check in one["evidence"])
    few = run("claims", "--kind", "proof", "--verdict", "true", "--json").json()
    assert {"B.3", "B.5", "B.16"} <= {one["id"] for one in few["claims"]} < {entry.id for entry in entries()}
    assert {one["verdicts"]["problem"] for one in few["claims"]} == {"true"}
    assert {one["verdicts"]["solution"] for one in few["claims"]} == {"true", "false", "conditional"}


def test_showing_a_card_runs_nothing_and_exits_with_0() -> None:
    shown = run("claims", "T5")
    assert shown.code == 0
    assert shown.out.startswith("T5 is false, its proof false")
    assert "lockstep claims T5 --run" in shown.out


@pytest.mark.parametrize(
    ("item", "code"), [("A.11", 0), ("T5", 1), ("B.4", 0), ("B.12", 1), ("B.15", 0), ("C.8", 0), ("M11", 0)]
)
def test_running_a_false_claim_exits_with_1(item: str, code: int) -> None:
    found = run("claims", item, "--run", "--json")
    assert found.code == code
    (one,) = found.json()["claims"]
    assert one["as_registered"]
    assert lockstep.claims(item, run=True).to_dict()["claims"][0]["verdict"] == one["verdict"]


def test_a_run_with_an_unexpected_result_exits_with_1_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "_step_s", lambda *given: 1.0)
    found = run("claims", "T5", "--run", "--json")
    assert found.code == 1
    assert "did not find" in found.err
    (one,) = found.json()["claims"]
    assert (one["verdict"], one["as_registered"]) == ("undecided", False)


def test_a_time_budget_skips_and_names_what_does_not_fit() -> None:
    cheap, stopped = running.run([one for one in entries() if one.id in ("T5", "A.16")], within_s=0.5)
    assert [one.found is None for one in cheap] == [False, True]
    assert stopped == ""
    none = lockstep.claims(all=True, within=0)
    assert set(none.left_out) == {entry.id for entry in entries() if entry.every_check()}
    assert none.ok


def test_every_engine_finds_the_same() -> None:
    """Items that share an experiment, runs that a process keeps, and deciders that draw random numbers."""
    few = [one for one in entries() if one.id in ("T2", "A.9", "A.10", "B.16", "C.8")]
    here, _ = running.run(few, seed=3)
    there, stopped = running.run(few, seed=3, engine=Processes(2))
    assert (there, stopped) == (here, "")
    assert all(one.as_registered for one in here)


def test_a_shared_experiment_runs_once() -> None:
    checks = [check for entry in entries() for check in entry.every_check()]
    alone, together = sum(decide.seconds([check]) for check in checks), decide.seconds(checks)
    assert together < alone / 2
    (races,) = {decide.part_of(check.by) for check in checks if check.by.startswith("steps.race")}
    assert decide.seconds([check for check in checks if decide.part_of(check.by) == races]) < 5


def test_a_dead_process_leaves_only_its_own_items_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, with exit code 1: what is not known is not as registered."""
    monkeypatch.setattr(running, "find_part", _dies)
    found, stopped = running.run([one for one in entries() if one.id == "T5"], engine=Processes(1))
    assert [one.found for one in found] == [None]
    assert "killed 3 processes" in stopped
    monkeypatch.setattr(running, "run", lambda *given, **words: (found, stopped))
    with pytest.raises(RunFailed, match="killed 3 processes"):
        lockstep.claims("T5", run=True, engine="processes:1")


def _dies(seed: int, part: object) -> None:
    os._exit(1)


def test_errata_of_an_item_are_run_and_filtered() -> None:
    found = run("claims", "--errata", "B.13", "--severity", "high", "--json")
    assert found.code == 0
    assert {one["severity"] for one in found.json()["errata"]} == {"high"}
    assert all(one["as_registered"] for one in found.json()["errata"])
    assert run("claims", "B.14/1", "--json").json()["errata"][0]["of"] == "B.14"
    (one,) = run("claims", "--errata", "b.14/1", "--json").json()["errata"]
    assert one["id"] == "B.14/1"


def test_errata_show_printed_and_computed_numbers_and_a_single_one_its_check() -> None:
    shown = run("claims", "B.12/1", "--run").out
    assert re.search(r"B\.12/1 .* 8 +1\.0282", shown)
    assert "Decided by network.crossing_ratio nodes=32 node=8" in shown
    card = run("claims", "B.12/1").out
    assert "recomputed" not in card
    assert "lockstep claims B.12/1 --run" in card
    (one,) = run("claims", "B.12/1", "--json").json()["errata"]
    assert (one["claimed"], one["decider"]) == ("8", "network.crossing_ratio nodes=32 node=8")


def test_a_fact_of_the_lab_is_found_by_its_id() -> None:
    found = run("claims", "staleness.mean-delay", "--run", "--json")
    assert found.code == 0
    assert found.json()["claims"][0]["verdict"] == "true"


def test_claims_are_plotted(tmp_path: Path) -> None:
    for item in ("B.14", "T5"):
        assert run("claims", item, "--plot", str(tmp_path / f"{item}.svg")).code == 0
        assert (tmp_path / f"{item}.svg").stat().st_size > 5000
    assert run("claims", "T9", "--plot", str(tmp_path / "experiment.svg")).code == 0
    assert run("claims", "M11", "--plot", str(tmp_path / "a.svg")).refusal() == "--plot: M11 has no picture"


def test_every_item_has_a_picture() -> None:
    assert [one.id for one in entries() if one.kind != "missing" and not claims_plot.has_picture(one)] == []


@pytest.mark.parametrize("item", ["E1", "A.15", "B.13"])
def test_a_comparison_has_a_row_for_each_number_with_claimed_and_computed_values(item: str) -> None:
    found = lockstep.claims(item)
    (axes,) = claims_plot.plot_claim(found).axes
    right, *claimed, seen = axes.lines
    checks = list(compared(found.entries[0].entry))
    assert set(right.get_xdata()) == {1.0}
    drawn = {row: at for line in claimed for at, row in zip(line.get_xdata(), line.get_ydata(), strict=True)}
    assert [drawn[row] for row in range(len(checks), 0, -1)] == pytest.approx([
        next(v for v in (one.claimed.low, one.claimed.high) if np.isfinite(v)) / one.right.low for one in checks
    ])  # fmt: skip
    assert list(seen.get_xdata()) == pytest.approx([1.0] * len(checks), rel=0.1)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert len(set(names)) == len(checks)
    assert axes.get_title(loc="left").endswith("?")
    assert axes.get_xlabel()


@pytest.mark.parametrize(("item", "sign", "end"), [("T4", ">", 1), ("E1", ">", 1), ("T10", "<", 0)])
def test_a_claimed_bound_is_drawn_as_one(item: str, sign: str, end: int) -> None:
    """A line from it to the end of the axis on its side; of a negative right value the sides change."""
    found = lockstep.claims(item)
    *_, axes = claims_plot.plot_claim(found).axes if item != "T10" else _compared_alone(found).axes
    (bounds,) = [line for line in axes.lines if line.get_marker() == sign]
    lines = [one.get_segments()[0] for one in axes.collections]
    assert {tuple(line[0]) for line in lines} == set(zip(bounds.get_xdata(), bounds.get_ydata(), strict=True))
    assert {line[1][0] for line in lines} == {axes.get_xlim()[end]}


def _compared_alone(found: Claims) -> Figure:
    """The comparison of an item that has another picture too."""
    figure = Figure()
    draw_compared(found.entries[0])(figure.subplots())
    return figure


@pytest.mark.parametrize("name", share([*PICTURES], 4))
def test_pictures_state_their_question_and_name_their_axes(name: str) -> None:
    for picture in pictures(name):
        assert picture.title.rstrip(".").count("?") == 1
        if picture.timeline is not None:
            assert picture.timeline.makespan_s > 0
            continue
        assert picture.x
        assert picture.y or picture.rows
        assert any(np.ptp(np.asarray(line.y, dtype=float)) > 0 for line in picture.lines), "all of it is level"
        # A quantity and its unit stand as on the other pictures: time, seconds.
        assert not re.search(r"[(\[]", picture.x + picture.y)
        assert len({line.label for line in picture.lines}) == len(picture.lines) >= 2
        for line in picture.lines:
            assert len(line.x) == len(line.y)
            assert line.half is None or (len(line.half) == len(line.y) and min(line.half) > 0)
            assert len(line.x) >= (1 if line.kind in ("wrong", "found") else 2), line.label
            assert np.isfinite([np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float)]).all()
            assert not picture.log_x or min(line.x) > 0
            assert not picture.log_y or max(line.y) > 0


@pytest.mark.parametrize(
    ("words", "where"),
    [({"run": True}, "--run"), ({"engine": "processes:2"}, "--engine"), ({"within": "3s"}, "--within"),
     ({"severity": "high"}, "--severity"),
     ({"seed": 3}, "--seed"), ({"kind": "nothing"}, "--kind"), ({"all": True, "errata": "A.1"}, "--all"),
     ({"errata": "A.1", "severity": "worst"}, "--severity"), ({"all": True, "search": "ring"}, "--kind")],
)  # fmt: skip
def test_options_without_effect_are_refused(words: dict[str, object], where: str) -> None:
    with pytest.raises(BadInput, match=where):
        lockstep.claims(**words)


def test_unknown_names_are_refused_with_suggestions() -> None:
    assert run("claims", "T99").refusal().startswith("ID: unknown claim 'T99'; did you mean")
    assert "A.3, B.4, C.1, C.18, G.5.3, G.8.6; --search lists them" in run("claims", "ring latency").refusal()
    assert "C.2 (Stragglers)" in run("claims", "stragglrs").refusal()
    assert "try one of" in run("claims", "no such words").refusal()


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("homework", ["HW1", "HW2", "HW3"]), ("Ring all-reduce is optimal", ["B.4"]), ("local sgd", ["C.7"]),
        ("delayed sgd recast", ["B.7"]), ("t-5", ["T5"]), ("exercise C.6", ["C.6"]), ("theorem 3", ["T3", "M3"]),
    ],
)  # fmt: skip
def test_items_are_found_by_title_or_unique_words(name: str, ids: list[str]) -> None:
    """A title as it stands, or words that only one item contains."""
    assert [one["id"] for one in run("claims", name, "--json").json()["claims"]] == ids


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ("C.3 A.6", ["C.3", "A.6"]), ("theorem 5 t4 Ring all-reduce is optimal", ["T5", "T4", "B.4"]),
        ("A.7 a7 theorem 3", ["A.7", "T3", "M3"]), ("T5 staleness.delay-limit", ["T5", "staleness.delay-limit"]),
    ],
)  # fmt: skip
def test_several_names_are_several_items_each_shown_once(names: str, ids: list[str]) -> None:
    found = run("claims", *names.split(), "--json").json()
    assert [one["id"] for one in found["claims"]] == ids
    assert run("claims", *names.split()).out.count(": Upper bound of the speed-up") == ids.count("T5")


def test_several_items_run_together_and_exit_with_1_if_one_is_false() -> None:
    found = run("claims", "A.11", "T5", "B.14/1", "--run", "--json")
    assert found.code == 1
    true, false = found.json()["claims"]
    (erratum,) = found.json()["errata"]
    assert (true["verdict"], false["verdict"]) == ("true", "false")
    assert [one["as_registered"] for one in (true, false, erratum)] == [True, True, True]


def test_an_unknown_name_among_several_is_refused_and_plot_takes_one_item(tmp_path: Path) -> None:
    assert run("claims", "C.3", "T99").refusal().startswith("ID: unknown claim 'T99'")
    refused = run("claims", "T5", "B.14", "--plot", str(tmp_path / "both.svg")).refusal()
    assert refused == "--plot: draws one item, not T5, B.14"


def test_the_claims_pages_match_the_entries() -> None:
    page = ROOT / "docs" / "reference" / "claims.md"
    assert page.read_text(encoding="utf-8") == claims_page()
    assert exercises_page() in (ROOT / "docs" / "learn" / "exercises.md").read_text(encoding="utf-8")


def test_pages_that_teach_a_subject_link_to_its_items() -> None:
    for entry in entries():
        if entry.learn:
            assert f"claims.md#{anchor(entry)})" in (ROOT / "docs" / entry.learn).read_text(encoding="utf-8"), entry.id


COMMANDS = sorted({entry.command for entry in entries() if entry.command and " train " not in entry.command})
"""Real training is run by the tests of `train`."""


@pytest.mark.parametrize("command", share(COMMANDS, 4))
def test_commands_shown_by_items_run(command: str) -> None:
    """An experiment of the lab, or a verb; a no is an answer too, a refusal is not."""
    words = shlex.split(command)[1:]
    assert run(*words, "--json").code in (0, 1)


def test_a_card_names_the_law_that_the_experiment_broke(capsys: pytest.CaptureFixture[str]) -> None:
    entry = next(one for one in entries() if one.id == "T9")
    broken = {check: Found(check.right.low, doubt="expected 2, got 3") for check in entry.every_check()}
    one = decide.Decided(entry, broken)
    assert one.verdict == "undecided"
    assert {row["doubt"] for row in one.evidence()} == {"expected 2, got 3"}
    claims_view._numbers(one, Console(width=100))
    assert "broke one of its laws: expected 2, got 3" in capsys.readouterr().out
