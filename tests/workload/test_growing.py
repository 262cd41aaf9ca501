"""What grows with a number: lists built from parts that repeat, and numbers by polynomials, are met at other values."""

import random
from collections.abc import Callable

import pytest

from lockstep.describe.growing import Growth, Many, Uneven, beside

Parts = list[tuple[str, int]]


def parts(draw: random.Random, most: int) -> Parts:
    """Parts with few names, so that what repeats also begins and ends like what stands beside it."""
    return [(draw.choice("abc"), draw.randrange(3)) for _ in range(draw.randrange(most))]


def grown(values: tuple[int, ...], target: int, make: Callable[[int], Many]) -> Many:
    found = [make(value) for value in values]
    made: Many = Growth(values, target, counts=len(set(map(len, found))) > 1).at_target(found)
    return made


@pytest.mark.parametrize("seed", range(40))
def test_a_list_with_a_part_that_repeats(seed: int) -> None:
    draw = random.Random(seed)
    first, last = parts(draw, 6), parts(draw, 6)
    block = [*parts(draw, 9), ("block", 0)]
    assert grown((2, 3), 9, lambda n: Many(first + block * n + last)) == Many(first + block * 9 + last)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("values", [(2, 3), (3, 5), (2, 3, 4), (2, 4, 7)])
def test_forward_and_backward_with_lists_of_all_tensors(seed: int, values: tuple[int, ...]) -> None:
    draw = random.Random(seed)
    before, between, after = ([*parts(draw, 5), (name, 0)] for name in ("first", "turn", "end"))
    forward, backward = ([*parts(draw, 9), (name, 0)] for name in ("up", "down"))
    sizes = [*parts(draw, 5), ("weight", 1)]

    def step(layers: int) -> Many:
        update = ("update", layers * len(sizes), Many(["embedding", *sizes * layers, "head"] * 2))
        return Many([*before, *forward * layers, *between, *backward * layers, *after, update])

    assert grown(values, 11, step) == step(11)
    assert grown(values, values[0], step) == step(values[0])


def test_layers_of_two_kinds_in_turn_repeat_in_pairs() -> None:
    def step(layers: int) -> Many:
        return Many(["in", *(("even", "odd")[layer % 2] for layer in range(layers)), "out"])

    assert grown((2, 4), 8, step) == step(8)
    with pytest.raises(Uneven, match="every 2 above it"):
        grown((2, 4), 7, step)


def test_numbers_by_polynomials_with_one_value_as_a_check() -> None:
    rules = (lambda n: 3 * n, lambda n: 5 * n - 1, lambda n: 7 * n**2)
    for rule in rules:
        assert Growth((2, 3, 4), 10, counts=False).at_target([rule(n) for n in (2, 3, 4)]) == rule(10)
    wide = lambda n: n**2 + 6 * n  # noqa: E731
    assert Growth((2, 3, 4, 6), 10, counts=False).at_target([wide(n) for n in (2, 3, 4, 6)]) == wide(10)
    with pytest.raises(Uneven):
        Growth((2, 3, 4), 10, counts=False).at_target([wide(n) for n in (2, 3, 4)])
    with pytest.raises(Uneven, match="give three"):
        Growth((2, 3), 10, counts=False).at_target([6, 9])
    assert Growth((2, 3), 10, counts=True).at_target([6, 9]) == 30


def test_nothing_is_said_where_values_do_not_agree() -> None:
    with pytest.raises(Uneven):
        Growth((2, 3, 4), 8, counts=False).at_target([128, 192, 384])
    with pytest.raises(Uneven):
        grown((2, 3, 4), 8, lambda n: Many(["in", *["layer"] * (n if n < 4 else n + 1), "out"]))
    with pytest.raises(Uneven, match="repeat none of them evenly"):
        beside(Many("ab"), Many("axb"), 1)
    with pytest.raises(Uneven, match="'relu' and 'gelu'"):
        Growth((2, 3), 4, counts=False).at_target(["relu", "gelu"])
