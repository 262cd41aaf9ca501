"""`tools/claim_classes.py`: what only says how many, and comparisons whose floats are never equal."""

from __future__ import annotations

import ast

import pytest

import claim_classes
from claim_slices import Slice, place_of
from mutants import Mutant

TEXT = """
TRIALS = 400
SIZES = np.linspace(0, 25, 24)
SCALE, ROUNDS = 30, 31
def run(draw, epochs=40):
    for _ in range(ROUNDS):
        made = draw.standard_normal((12, TRIALS))
    for place in range(50):
        made = made / 60 + SCALE
    few = walk(made, steps=9) + walk(made, steps=20 * 11)
    return np.full(300, 7.0), few, np.arange(70)
"""


def test_counts_are_distinguished_from_computed_values() -> None:
    found = sorted(one.value for one in claim_classes.repeats(ast.parse(TEXT)))
    assert found == [11, 12, 20, 24, 31, 40, 70, 300, 400]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("a < b", "(a <= b)", {"a": 3.0}), ("a < 2.0", "(a <= 2.0)", {"a": 2.0}),
        ("0.0 < a < b", "(0.0 < a <= b)", {"b": 1.0}),
    ],
)  # fmt: skip
def test_comparisons_of_never_equal_floats_are_detected(before: str, after: str, same: dict[str, float]) -> None:
    watched = claim_classes.watching(Mutant("x.py", 1, 1, 0, len(before), before, after))
    assert watched is not None
    for given, apart in (({"a": 1.0, "b": 3.0}, True), ({"a": 1.0, "b": 3.0} | same, False)):
        claim_classes._seen.clear()
        assert eval(watched.after, dict(given)) == eval(before, dict(given))
        assert claim_classes.never_equal() is apart


def test_integer_comparisons_are_not_flagged() -> None:
    claim_classes._seen.clear()
    claim_classes.compared((1, 2), ["Lt"], 0)
    assert not claim_classes.never_equal()
    for before, after in (
        ("a < b", "(a > b)"),
        ("a == b", "(a != b)"),
        ("a + b", "(a - b)"),
        ("a(b)", "pass"),
        ("a += b", "a -= b"),
    ):
        assert claim_classes.watching(Mutant("x.py", 1, 1, 0, 5, before, after)) is None


def test_values_used_only_as_tolerance_are_not_read() -> None:
    text = (
        "def made(x):\n    slack = 0.5 * x\n    share = 0.25 * x\n    return Check('a', 1.0, share, tolerance=slack)\n"
    )
    found = Slice(ast.parse(text))
    (call,) = (one for one in ast.walk(found.tree) if isinstance(one, ast.Call))
    found.follow((("made", place_of(call)),))
    halves = {one.value: place_of(one) for one in ast.walk(found.tree) if isinstance(one, ast.Constant)}
    assert found.covers(halves[0.25])
    assert not found.covers(halves[0.5])
