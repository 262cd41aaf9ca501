"""The ledger of first sights: what its entries must be, what is quoted of it, and how it is made."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import UnknownName
from lockstep.check.validation import TABLES, Errors, Ledger, first_sight
from published_data import unpackaged

ROOT = Path(__file__).parents[2]
ASKED = {"lucie": 51, "mlperf": 49, "deepseek": 5}
"""Rows that each reader asks."""


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    return first_sight()


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scripts that ask tables, which are no package."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "first_sight"))
    yield
    for name in ("ask", "published", *ASKED):
        sys.modules.pop(name, None)


def _sound(one: Errors) -> bool:
    shares = one.coverage_frac, one.fits_frac
    rows = all(abs(share * one.rows - round(share * one.rows)) < 1e-4 * one.rows for share in shares)
    return rows and all(0 <= share <= 1 for share in shares) and one.median_abs_frac >= abs(one.median_signed_frac)


def test_every_entry_has_a_day_a_commit_and_possible_shares(ledger: Ledger) -> None:
    for one in ledger.entries:
        assert date.fromisoformat(one.date) <= date.today()
        assert re.fullmatch("[0-9a-f]{8}", one.commit)
        assert all(map(_sound, (one, *one.groups)))
        assert all((one.title, one.source, one.question))


def test_the_parts_of_an_entry_make_it_up(ledger: Ledger) -> None:
    for one in ledger.entries:
        assert one.rows == sum(part.rows for part in one.groups)
        for name in ("mean_signed_frac", "coverage_frac", "fits_frac"):
            parts = sum(part.rows * getattr(part, name) for part in one.groups)
            assert parts / one.rows == pytest.approx(getattr(one, name), abs=2e-4), (one.table, name)


def test_entries_follow_one_another_and_the_first_of_each_table_is_quoted(ledger: Ledger) -> None:
    assert [one.date for one in ledger.entries] == sorted(one.date for one in ledger.entries)
    assert len({(one.table, one.commit) for one in ledger.entries}) == len(ledger.entries)
    first = {one.table: one for one in reversed(ledger.entries)}
    assert {one.table: one for one in ledger.first} == first
    steps = [one for one in first.values() if one.quantity == "step"]
    assert ledger.median_abs_frac == np.median([one.median_abs_frac for one in steps])
    assert ledger.coverage_frac == pytest.approx(np.mean([one.coverage_frac for one in steps]))


def test_what_is_quoted_is_of_steps_and_else_of_what_was_asked_for(ledger: Ledger) -> None:
    assert {one.quantity for one in ledger.quoted} == {"step"} < {one.quantity for one in ledger.first}
    generation = first_sight(["rl_serving_silicon"])
    assert [one.table for one in generation.quoted] == ["rl_serving_silicon"]
    assert generation.median_abs_frac == generation.first[0].median_abs_frac


def test_tables_are_chosen_by_name() -> None:
    chosen = lockstep.validate("lucie_7b_jeanzay", first_sight=True)
    assert {one.table for one in chosen.entries} == {"lucie_7b_jeanzay"}
    with pytest.raises(UnknownName, match="lucie_7b_jeanzay"):
        first_sight(["lucie"])


def test_readme_leads_with_first_sight_before_what_is_in_sample(ledger: Ledger) -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = f"a median error of {100 * ledger.median_abs_frac:.0f} %; {100 * ledger.coverage_frac:.0f} % of the steps"
    assert 0 < text.index("**At first sight**") < text.index(said) < text.index("**In sample**")
    assert len(ledger.quoted) == 3
    assert f"Three tables, {sum(one.rows for one in ledger.quoted)} steps," in text


@pytest.mark.parametrize("name", ASKED)
def test_readers_ask_what_their_rows_say(name: str, scripts: None) -> None:
    reader: ModuleType = import_module(name)
    rows = unpackaged(reader.FILE)
    cases = reader.cases()
    assert len(cases) == ASKED[name] <= len(rows)
    for case in cases:
        layout = case.layout
        assert layout.dp * layout.tp * layout.pp * layout.cp == case.job.devices
        assert case.job.recipe.batch % (layout.dp * layout.micro_batch) == 0
        assert reader.group(case)


def test_figures_are_those_of_the_answers(scripts: None) -> None:
    """Steps 10 % too fast, 30 % too slow and 20 % too fast; one outside, one that does not fit."""
    found = import_module("ask").figures([(-0.1, True, True), (0.3, False, True), (-0.2, True, False)])
    expected = {
        "rows": 3, "median_abs_frac": 0.2, "median_signed_frac": -0.1, "mean_signed_frac": 0.0,
        "coverage_frac": 2 / 3, "fits_frac": 2 / 3,
    }  # fmt: skip
    assert found == pytest.approx(expected)


def test_an_entry_is_what_the_ledger_reads(scripts: None) -> None:
    """The cases of a table in sample, asked: its errors are those that `validate` reports, one group of all rows."""
    ask, table = import_module("ask"), TABLES["korthikanti_2022"]
    reader = SimpleNamespace(FILE="made.csv", cases=table.cases, group=lambda case: "all")
    (found,) = tomllib.loads(ask.entry(reader))["entries"]
    (report,) = lockstep.validate("korthikanti_2022").tables
    assert found["table"] == "made"
    assert found["median_abs_frac"] == pytest.approx(report.median_abs_frac, abs=1e-4)
    (group,) = found["groups"]
    assert group.pop("name") == "all"
    assert group.items() <= found.items()
