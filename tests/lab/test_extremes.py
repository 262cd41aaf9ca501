"""Experiments at the ends of what their settings allow: no false alarm, NaN, warning or crash."""

import math
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

import pytest

from effort import share
from lockstep.base.errors import BadInput
from lockstep.base.settings import LARGEST, SMALLEST, choices_of
from lockstep.learn.lab import EXPERIMENTS, find_experiment

LEAST: dict[str, dict[str, object]] = {
    "critical-batch-digits": {"batches": (16, 32, 64, 128)},
    "implicit-bias-epochs": {"unknowns": 4},
}
"""Where the least of every setting is not allowed together."""


def ends(one: Field[Any]) -> list[Any]:
    """The lowest and the highest value of a number; all choices; nothing for free text."""
    rules, like = one.metadata, one.default[0] if isinstance(one.default, tuple) else one.default
    if isinstance(like, bool):
        return [False, True]
    if isinstance(like, str):
        return list(choices_of(one))
    if isinstance(like, int):
        return [int(rules["least"] if rules["least"] is not None else 0)]
    low = rules["least"]
    if low is None:
        low = -LARGEST if rules["above"] is None else max(rules["above"] * (1 + 1e-15), SMALLEST)
    high = rules["most"]
    if high is None:
        high = LARGEST if rules["below"] is None else math.nextafter(rules["below"], -math.inf)
    return [low, high]


def smallest(kind: type[Any]) -> dict[str, object]:
    """All whole numbers at their least, so that a run takes a moment; a list of them keeps its first."""
    given: dict[str, object] = {}
    for one in fields(kind):
        several = isinstance(one.default, tuple)
        like = one.default[0] if several else one.default
        if isinstance(like, int) and not isinstance(like, bool):
            given[one.name] = one.default[:1] if several else ends(one)[0]
    return given


def extremes(name: str) -> list[dict[str, object]]:
    """Small settings, and these with a share of the ends of every setting in turn; in a list beside a usual value."""
    kind = find_experiment(name).settings
    usual = {one.name: one.default for one in fields(kind)}
    base = smallest(kind) | LEAST.get(name, {})
    moved = [
        base | {one.name: (end, end, one.default[0]) if isinstance(one.default, tuple) else end}
        for one in fields(kind)
        for end in ends(one)
    ]
    others = [one for one in moved if usual | one != usual | base]
    return [base, *share(others, 5, EXPERIMENTS.index(name))]


def odd(value: Any, path: str = "") -> Iterator[str]:
    """Where an answer has a number that is not finite."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from odd(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from odd(inner, f"{path}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path} = {value}"


def answered(name: str, settings: dict[str, object]) -> dict[str, Any] | None:
    """The answer, or None when the settings are refused by the name of one."""
    try:
        return find_experiment(name).answer(settings).to_dict()
    except BadInput as refusal:
        if not (refusal.where or "").startswith("--set"):
            raise
        return None


@pytest.mark.parametrize("name", share(EXPERIMENTS, 3, 1))
def test_the_ends_of_every_setting_are_answered_or_refused(name: str) -> None:
    answers = [answer for settings in extremes(name) if (answer := answered(name, settings)) is not None]
    assert answers
    assert [place for answer in answers for place in odd(answer)] == []
    failed = [(answer["settings"], one) for answer in answers for one in answer["checks"] if not one["ok"]]
    assert failed == []
