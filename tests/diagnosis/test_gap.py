"""Attribution by substitution: known games, and laws that the Shapley value keeps."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection

import pytest

from lockstep.explain.gap import REST, attribute


def drawn(names: list[str], seed: int):
    """A game with a value of its own for every set."""
    chance = random.Random(seed)
    values = {
        frozenset(chosen): chance.uniform(1, 2) for size in range(len(names) + 1)
        for chosen in itertools.combinations(names, size)
    }  # fmt: skip
    return lambda chosen: values[frozenset(chosen)]


@pytest.mark.parametrize("seed", range(5))
def test_shapley_values_are_the_mean_over_all_orders(seed: int) -> None:
    """As by going through every order."""
    names = ["a", "b", "c", "d"]
    value = drawn(names, seed)
    found = {one.factor: one for one in attribute(value, names)}
    for name in names:
        orders = list(itertools.permutations(names))
        gained = [value(order[: order.index(name) + 1]) - value(order[: order.index(name)]) for order in orders]
        assert found[name].seconds == pytest.approx(sum(gained) / math.factorial(len(names)))
        assert found[name].first_s == pytest.approx(value((name,)) - value(()))
        assert found[name].last_s == pytest.approx(value(names) - value([o for o in names if o != name]))
    assert sum(one.seconds for one in found.values()) == pytest.approx(value(names) - value(()))


def test_hidden_time_is_attributed_nothing() -> None:
    """Of two lanes that run side by side, only the longer one's growth counts; of both, each half."""

    def step_s(chosen: Collection[str]) -> float:
        return max(10.0 + 2.0 * ("compute" in chosen), 6.0 + 3.0 * ("link" in chosen))

    found = {one.factor: one.seconds for one in attribute(step_s, ["compute", "link"])}
    assert found["compute"] == pytest.approx(2.0)
    assert "link" not in found
    assert found[REST] == 0.0


def test_many_small_factors_are_merged_into_one() -> None:
    """And the sum stays exact."""
    names = [f"small {i}" for i in range(20)] + ["large"]
    found = attribute(lambda chosen: 100.0 + 1e-3 * len(chosen) + 9.0 * ("large" in chosen), names)
    assert [one.factor for one in found] == ["large", REST]
    assert sum(one.seconds for one in found) == pytest.approx(9.021)
