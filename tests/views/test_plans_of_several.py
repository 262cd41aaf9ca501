"""A plan in words: rows of several questions, differences that nobody can tell, and one count of layouts."""

from dataclasses import replace

import pytest

import lockstep
from cli_runner import run
from lockstep.base.units import SAME_FRAC, format_money, format_slower, format_time
from lockstep.decide.planner.result import Plan

BOTH = ("plan", "gpt2", "-c", "dgx-h100:2,dgx-a100-80gb:2", "--batch", "64")


def test_rows_show_time_cost_and_layout() -> None:
    """They dropped what --tokens asks for, and which layout it is."""
    shown = " ".join(run(*BOTH, "--tokens", "10G").out.split())
    rows = run(*BOTH, "--tokens", "10G", "--json").json()["rows"]
    assert len(rows) == 2
    for name, row in zip(("dgx-h100:2", "dgx-a100-80gb:2"), rows, strict=True):
        best = lockstep.plan("gpt2", name, batch=64).best
        assert f"{name} {best.layout}" in shown
        assert f"{format_time(row['days'] * 86_400)} {format_money(row['cost'])}" in shown


def test_rows_show_the_number_of_devices_of_the_cheapest_plan() -> None:
    words = run(*BOTH, "--objective", "cost").out
    rows = run(*BOTH, "--objective", "cost", "--json").json()["rows"]
    assert "devices" in words
    lines = [line for line in words.splitlines() if "dgx-" in line]
    for line, row in zip(lines, rows, strict=False):
        assert row["gpus"] < 16
        assert str(row["gpus"]) in line.split()


def test_indistinguishable_times_are_called_equally_fast() -> None:
    assert format_slower(2.2e-16) == format_slower(-0.9 * SAME_FRAC) == "as fast as"
    assert format_slower(0.023) == "2.3 % slower than"
    assert format_slower(-0.023) == "2.3 % faster than"


@pytest.fixture(scope="module")
def chosen() -> Plan:
    """A plan whose robust choice is not the fastest layout."""
    for batch in (32, 64, 96, 128, 256):
        found = lockstep.plan("llama3-8b", "dgx-h100:4", batch=batch, seq=4096)
        if found.choice is not None:
            return found
    raise AssertionError("no plan gives anything up")


def test_a_robust_choice_without_cost_is_not_called_slower(chosen: Plan) -> None:
    """It was said to be 2.2e-14 % slower."""
    best = chosen.findings.best[0]
    even = replace(best, step_time_s=chosen.best.step_time_s * (1 - 2.2e-16))
    same = replace(chosen, findings=replace(chosen.findings, best=[even, *chosen.findings.best[1:]]))
    assert same.choice is not None
    assert same.choice.startswith("as fast as ")
    clear = replace(best, step_time_s=chosen.best.step_time_s / 1.02)
    other = replace(chosen, findings=replace(chosen.findings, best=[clear]))
    assert other.choice is not None
    assert other.choice.startswith("2 % slower than ")


def test_an_answer_counts_layouts_once() -> None:
    """The search said how many keep the rules, the answer how many there are."""
    session = run("plan", "llama3-8b", "-c", "dgx-h100:2", "--batch", "64")
    found = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64).findings
    assert found.considered == found.feasible + sum(found.rejected.values())
    assert f"searched {found.considered:,} layouts" in session.err
    assert f"of {found.considered:,} layouts rejected" in session.out


def test_plans_of_several_batches_can_be_plotted() -> None:
    """Layouts are no numbers to draw."""
    figure = lockstep.plan("gpt2", "dgx-h100:1", batch=[64, 128]).plot()
    assert figure.axes
