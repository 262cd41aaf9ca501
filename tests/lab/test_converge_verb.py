"""The verb `converge`: every experiment answers with its keys, agrees with its theory, and draws."""

import re
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import lockstep
from cli_runner import run
from effort import share
from lockstep.base.errors import BadInput
from lockstep.base.settings import read_settings, setting
from lockstep.learn.lab import (
    ALWAYS,
    EXPERIMENTS,
    GROUPS,
    Check,
    Curve,
    Findings,
    find_experiment,
)
from lockstep.learn.lab.facts import Fact, facts
from lockstep.show.views.converge import plot_findings
from lockstep.show.views.parts.figure import save_figure
from predicted_once import experiment

ROOT = Path(__file__).parents[2]
QUICK: dict[str, dict[str, object]] = {
    "tolerable-delay": {"moments": (0, 100)},
    "critical-batch-digits": {"batches": (1, 4, 16, 64), "examples": 256, "hidden": 16, "starts": 2},
    "algorithmic-stability": {"trials": 100, "steps": 100},
}
"""Smaller settings for experiments whose defaults take seconds."""


@cache
def answer(name: str) -> Findings:
    """Each experiment is run once."""
    found: Findings = lockstep.converge(name, QUICK[name]) if name in QUICK else experiment(name)
    return found


NUMBER = r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)\b"


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in QUICK])
def test_the_experiments_page_shows_the_current_results(name: str, pages: ModuleType) -> None:
    """Numbers to 2 %, or to a part of what may differ: another processor adds in another order.

    Of what only has to lie beyond a bound, to a half: runs that diverge make much of the last digits.
    """
    page = (ROOT / "docs" / "reference" / "experiments.md").read_text(encoding="utf-8")
    section = page.split(f"### {name}\n")[1].split("\n### ")[0]
    rows = section.split(pages.FINDINGS_HEAD)[1].split("\n\n")[0].strip().splitlines()
    checks = answer(name).checks
    assert len(rows) == len(checks)
    for row, check in zip(rows, checks, strict=True):
        said, today = (re.split(r" (?<!\\)\| ", text) for text in (row, pages.row(*pages.cells(check))))
        for column, (one, other) in enumerate(zip(said, today, strict=True)):
            assert re.sub(NUMBER, "", one) == re.sub(NUMBER, "", other)
            numbers = [[float(value) for value in re.findall(NUMBER, text)] for text in (one, other)]
            slack = 1e-12 if column not in (1, 2) else 1e-9 if check.false_law else max(0.1 * check.allowed, 1e-9)
            rel = 0.02
            if check.relation != "equals" and column == 2:
                rel, slack = 0.5, max(slack, 0.1 * abs(check.expected))
            assert numbers[0] == pytest.approx(numbers[1], rel=rel, abs=slack, nan_ok=True), (row, today)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_theory_and_simulation_agree(name: str) -> None:
    assert answer(name).agrees, answer(name).verdict
    assert answer(name).checks


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_explains_itself(name: str) -> None:
    one, found = find_experiment(name), answer(name)
    assert one.name == name
    assert one.question.endswith("?")
    assert one.source
    assert all(field.metadata["help"].endswith(".") for field in fields(one.settings))
    assert found.rows or found.curves
    assert found.theory
    assert all(law.formula and law.source for law in found.theory)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_curves_and_rows_contain_only_finite_numbers(name: str) -> None:
    found = answer(name)
    for curve in found.curves:
        assert len(curve.x) == len(curve.y)
        assert np.isfinite(curve.x).all()
        assert np.isfinite(curve.y).all()
    for row in found.rows:
        assert all(np.isfinite(value) for value in row.values() if isinstance(value, float))
        assert set(row) == set(found.rows[0])


@pytest.mark.parametrize("name", share(EXPERIMENTS, 3))
def test_experiments_with_curves_can_be_plotted(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    if answer(name).picture is None:
        with pytest.raises(BadInput, match="nothing to draw"):
            plot_findings(answer(name))
    else:
        save_figure(plot_findings(answer(name)), picture)
        assert picture.stat().st_size > 1000


@pytest.mark.parametrize(("name", "fact"), [pytest.param(one.experiment, one, id=one.id) for one in facts()])
def test_every_fact_is_confirmed_or_contradicted(name: str, fact: Fact) -> None:
    evidence = fact.evidence(answer(name))
    assert evidence
    assert all(one.ok for one in evidence)


def test_evidence_is_of_the_kind_that_the_fact_needs() -> None:
    law, refuted = (
        Check("two and two", 4.0, 4.0, holds=ALWAYS),
        Check("two and two: five", 5.0, 4.0, false_law=True, holds=ALWAYS),
    )
    found = Findings((law, refuted, Check("three", 3.0, 3.0, holds=ALWAYS)))
    assert Fact("a.b", "", True, "", "Two and").evidence(found) == (law,)
    assert Fact("a.b", "", False, "", "two and").evidence(found) == (refuted,)
    assert not Fact("a.b", "", False, "", "three").evidence(found)


def test_facts_name_experiments_once_and_the_list_shows_them() -> None:
    assert {fact.experiment for fact in facts()} <= set(EXPERIMENTS)
    for named in ([fact.statement for fact in facts()], [fact.id for fact in facts()]):
        assert len(set(named)) == len(named)
    assert all(fact.id.partition(".")[0] in {group.name for group in GROUPS} for fact in facts())
    listed = {one["experiment"]: one["claims"] for one in run("converge", "--json").json()["experiments"]}
    assert sum(len(some) for some in listed.values()) == len(facts())
    assert "batch.gap-bound" in [fact["id"] for fact in listed["algorithmic-stability"]]


def test_the_command_prints_json_and_a_table_and_draws(tmp_path: Path) -> None:
    name, pairs = "delay-stability", ["--set=delays=0,1,5", "--set=momenta=0.5"]
    picture = tmp_path / "picture.svg"
    session = run("converge", name, *pairs, "--json", "--plot", str(picture))
    assert session.code == 0
    assert {"verdict", "theory", "curves", "checks", "settings", "assumptions"} <= set(session.json())
    assert picture.stat().st_size > 1000
    assert "agree" in run("converge", name, *pairs).out


def test_the_list_names_every_experiment_and_its_settings() -> None:
    listed = run("converge", "--json").json()["experiments"]
    assert [one["experiment"] for one in listed] == list(EXPERIMENTS)
    assert all({"name", "default", "allowed", "help"} == set(one) for each in listed for one in each["settings"])


def test_the_examples_of_the_help_name_settings_that_exist() -> None:
    help_text = " ".join(run("converge", "--help").out.split())
    examples = re.findall(r"lockstep converge (\S+)((?: --(?:set|sweep) \S+)+)", help_text)
    assert len(examples) >= 2
    for name, words in examples:
        given = dict(pair.split("=") for pair in words.split()[1::2])
        known = {field.name for field in fields(find_experiment(name).settings)}
        assert set(given) <= known


def test_the_groups_fit_on_a_screen_and_each_lists_its_experiments() -> None:
    shown = run("converge").out
    assert len(shown.splitlines()) <= 24
    for group in GROUPS:
        assert group.name in shown
        inside = run("converge", group.name, "--json").json()
        assert [one["experiment"] for one in inside["experiments"]] == list(group.experiments)
    assert "delay-floor" in run("converge", "staleness").out


def test_no_experiment_is_named_like_a_group_or_twice() -> None:
    assert len(set(EXPERIMENTS)) == len(EXPERIMENTS)
    assert not {group.name for group in GROUPS} & set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("delay-stabilty",), "did you mean delay-stability"),
        (("delay-stability", "--set", "delay=1"), "did you mean delays"),
        (("delay-stability", "--set", "delays=x"), "--set delays"),
        (("delay-stability", "--set", "delays=1,2.5"), "whole number"),
        (("delay-stability", "--set", "momenta=1"), "from 0 to 0.98"),
        (("delay-stability", "--set", "delays"), "KEY=VALUE"),
        (("delay-stability", "--set", "delays=1", "--set", "delays=2"), "twice"),
        (("delay-stability", "--seed", "-1"), "--seed"),
        (("delay-stability", "--plot", "a.txt"), "--plot"),
        (("--set", "a=1"), "EXPERIMENT"),
        (("staleness", "--plot", "a.svg"), "need an experiment"),
        (("stalenes",), "did you mean staleness"),
    ],
)
def test_refusals_state_what_is_allowed(arguments: tuple[str, ...], said: str) -> None:
    assert said in run("converge", *arguments).refusal()


def test_a_refuted_law_exits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstep.learn.lab import experiment

    wrong = Check("two and two", 5.0, 4.0, holds=ALWAYS)
    fake = replace(find_experiment(EXPERIMENTS[0]), run=lambda *_: Findings((wrong,)))
    monkeypatch.setattr(experiment, "Experiment", lambda *_: fake)
    session = run("converge", EXPERIMENTS[0], "--json")
    assert session.code == 1
    assert session.json()["agrees"] is False
    assert "two and two: expected 5, got 4" in session.json()["verdict"]


def test_a_check_counts_its_standard_errors_and_a_false_law_must_fail() -> None:
    assert Check("", 1.0, 1.3, standard_error=0.1, holds=ALWAYS).ok
    assert not Check("", 1.0, 1.5, standard_error=0.1, holds=ALWAYS).ok
    assert Check("", 1.0, 1.5, standard_error=0.1, false_law=True, holds=ALWAYS).ok
    assert not Check("", 1.0, 1.0, false_law=True, holds=ALWAYS).ok
    assert not Check("", 1.0, float("nan"), holds=ALWAYS).ok


def test_a_curve_ends_where_the_run_diverges() -> None:
    x = np.arange(4.0)
    curve = Curve.until_divergence("run", x, np.array([1.0, 2.0, np.nan, np.inf]))
    assert curve.diverged_at == 2.0
    assert curve.y.tolist() == [1.0, 2.0]
    assert Curve.until_divergence("run", x, x).diverged_at is None


def test_settings_are_read_by_type_and_unit() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Settings:
        size_B: float = setting(1.0, "Size.")
        link_s: float = setting(1.0, "Time.", above=0)
        shift: float = setting(0.0, "May be negative.", least=-2, below=2)
        rule: str = setting("sum", "Kind.", choices=("sum", "mean"))
        quick: bool = setting(True, "Or not.")
        delays: tuple[int, ...] = setting((1, 2), "Several.")

    read = read_settings(
        Settings, {"size_B": "1KiB", "link_s": "5us", "shift": "-1.5", "rule": "mean", "quick": "no", "delays": "3, 4"}
    )
    assert read == Settings(1024.0, 5e-6, -1.5, "mean", False, (3, 4))
    assert read_settings(Settings, {"delays": 7, "shift": -1}) == Settings(delays=(7,), shift=-1.0)
    for bad in ({"link_s": 0}, {"shift": 2}, {"rule": "men"}, {"quick": "maybe"}, {"delays": ""}, {"shift": "nan"}):
        with pytest.raises(BadInput, match="--set"):
            read_settings(Settings, bad)
