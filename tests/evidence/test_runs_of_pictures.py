"""A picture draws what was run: no experiment runs twice for one command, and the seed is that of the run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from lockstep.learn.lab import each_run_once, experiment, find_experiment
from lockstep.show.views.parts import claims_plot

ITEMS = ("A.12", "T7", "B.7", "T2")
"""Their experiments are cheap, run with default settings, and also decide checks."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str, int]]:
    """How often each experiment ran, with which settings and seed."""
    counted = Counter[tuple[str, str, int]]()

    def named(found: Any, **names: Any) -> Any:
        """Stands where an experiment puts its name to what it has just found."""
        counted[names["experiment"], repr(names["settings"]), names["seed"]] += 1
        return dataclasses.replace(found, **names)

    monkeypatch.setattr(experiment, "replace", named)
    return counted


@pytest.mark.parametrize("more", [(), ("--run",), ("--run", "--seed", "3")])
@pytest.mark.parametrize("item", ITEMS)
def test_plotting_an_item_reuses_its_experiment(
    item: str, more: tuple[str, ...], tmp_path: Path, runs: Counter[tuple[str, str, int]]
) -> None:
    assert run("claims", item, *more, "--plot", str(tmp_path / "a.svg")).err == ""
    assert set(runs.values()) == {1}, runs
    assert {seed for *_, seed in runs} == {3 if "--seed" in more else 0}


def test_facts_and_items_share_one_run(runs: Counter[tuple[str, str, int]]) -> None:
    found = lockstep.claims("T2", "staleness.floor-by-lyapunov", "staleness.floor-factor", run=True)
    assert (len(found.entries), len(found.facts)) == (1, 2)
    assert list(runs.values()) == [1]


def test_an_experiment_and_its_picture_share_one_run(tmp_path: Path, runs: Counter[tuple[str, str, int]]) -> None:
    assert run("converge", "delay-floor", "--plot", str(tmp_path / "a.svg")).err == ""
    assert list(runs.values()) == [1]


def test_runs_are_cached_only_inside_their_context(runs: Counter[tuple[str, str, int]]) -> None:
    asked = find_experiment("local-identity")
    with each_run_once():
        with each_run_once():
            first = asked.answer({})
        assert asked.answer({}) is first
        assert asked.answer({}, seed=1) is not first
    assert asked.answer({}) is not first
    assert sorted(runs.values()) == [1, 2]


def test_a_picture_shows_the_result_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is drawn later, and of numbers that no experiment of the lab decides."""
    found = lockstep.claims("E1", run=True)
    monkeypatch.setattr("lockstep.check.evidence.claims.running.run", lambda *_: pytest.fail("ran again"))
    assert claims_plot.plot_claim(found).axes
