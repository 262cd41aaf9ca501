"""Would a card of the guide notice the opposite? Its arithmetic with an operator turned, its deciders with a sign."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from lockstep.check.evidence.claims.decide import Bench
from lockstep.check.evidence.claims.deciders.table import ARITHMETIC, arithmetic, function
from lockstep.check.evidence.claims.entry import Check, Entry, Found
from lockstep.check.evidence.claims.shelf import entries

GUIDE = [entry for entry in entries() if entry.kind == "guide"]
TURNED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Div(), ast.Div: ast.Mult(), ast.Pow: ast.Mult(),
}  # fmt: skip


def turned(text: str) -> Iterator[str]:
    """The expression with one of its operators turned, in every way; with a factor of 1 it stays the same."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            kept, node.op = node.op, TURNED[type(node.op)]
            yield ast.unparse(tree)
            node.op = kept


def notices(check: Check, text: str) -> bool:
    try:
        return not check.as_known(Found(arithmetic(text)))
    except ZeroDivisionError:
        return True


ARITHMETICS = [(entry.id, check) for entry in GUIDE for check in entry.every_check() if check.by.startswith(ARITHMETIC)]


@pytest.mark.parametrize(("item", "check"), ARITHMETICS, ids=[f"{item} {check.what}" for item, check in ARITHMETICS])
def test_arithmetic_with_an_operator_turned_is_noticed(item: str, check: Check) -> None:
    text = check.by.removeprefix(ARITHMETIC)
    assert check.as_known(Found(arithmetic(text)))
    changed = list(turned(text))
    assert [one for one in changed if not notices(check, one)] == []
    assert changed


@pytest.mark.parametrize("entry", [pytest.param(one, id=one.id) for one in GUIDE])
def test_a_decider_that_returns_the_opposite_is_noticed(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number with the other sign, of a count of 0 and 1 the other one: each check that rests on it notices."""
    resting = [check for check in entry.every_check() if not check.by.startswith((ARITHMETIC, "lab "))]
    for check in resting:
        name = check.by.split()[0]
        real = function(name)

        def opposite(*given: Any, real: Any = real, **named: Any) -> float:
            value = float(real(*given, **named))
            return 1 - value if value in (0, 1) else -value

        opposite.__signature__ = inspect.signature(real)  # type: ignore[attr-defined]
        home = import_module(f"lockstep.check.evidence.claims.deciders.{name.partition('.')[0]}")
        with monkeypatch.context() as patched:
            patched.setattr(home, name.partition(".")[2], opposite)
            assert not check.as_known(Bench().find(check.by)), check.what
        assert check.as_known(Bench().find(check.by)), check.what


@pytest.mark.parametrize("entry", [pytest.param(one, id=one.id) for one in GUIDE])
def test_the_verdict_follows_from_no_opposite_value(entry: Entry) -> None:
    """Where a check finds what it excludes, nothing follows; where it does not find anything, neither."""
    right = {check: Found(check.right.low if check.right.low > float("-inf") else check.right.high)
             for check in entry.every_check()}  # fmt: skip
    assert entry.derived(right) == entry.verdict
    for check in entry.every_check():
        assert check.excluded is not None
        for wrong in (-right[check].value or 1.0, check.excluded.low):
            if check.right.away(wrong) > 0:
                assert entry.derived(right | {check: Found(wrong)}) == "undecided", check.what
