"""Sums against exact rationals: bounds, orders, classic examples, and bits that no order changes."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lockstep.learn.methods.summation import (
    FOLDS,
    SUMS,
    grids,
    in_pairs,
    kahan,
    neumaier,
    one_by_one,
    parts,
    reproducible,
)
from lockstep.simulate.collectives import algorithms, get
from lockstep.simulate.program.executor import execute
from optional import torch

U = 2.0**-24


def terms(count: int, seed: int = 0, spread: float = 4.0) -> list[np.ndarray]:
    draw = np.random.Generator(np.random.PCG64(seed))
    return list((draw.standard_normal((count, 50)) * np.exp(spread * draw.standard_normal((count, 50)))).astype("f4"))


def exact(given: list[np.ndarray]) -> list[Fraction]:
    return [sum((Fraction(float(value)) for value in column), Fraction(0)) for column in zip(*given, strict=True)]


@pytest.mark.parametrize("count", [2, 3, 17, 64, 200])
@pytest.mark.parametrize("name", SUMS)
def test_errors_stay_below_the_bounds(name: str, count: int) -> None:
    given = terms(count)
    sizes = np.abs(np.array(given, dtype=np.float64)).sum(axis=0)
    largest = max(float(np.abs(term).max()) for term in given)
    bound = {
        "sequential": (count - 1) * U * 1.001 * sizes,
        "pairwise": math.ceil(math.log2(count)) * U * 1.001 * sizes,
        "Kahan": (2 * U + 4 * count * U**2) * sizes,
        "Neumaier": (2 * U + 4 * count**2 * U**2) * sizes,
        "reproducible": count * grids(largest, count, 24)[-1] / 2 + 2 * U * sizes,
    }[name]
    got = SUMS[name](given)
    errors = [abs(float(Fraction(float(value)) - true)) for value, true in zip(got, exact(given), strict=True)]
    assert (np.array(errors) <= bound).all()


def test_compensated_sums_solve_the_classic_examples() -> None:
    big = [np.float64(value) for value in (1.0, 1e100, 1.0, -1e100)]
    assert kahan(big) == 0.0
    assert neumaier(big) == 2.0
    single = [np.float32(value) for value in (1e30, 1.0, -1e30)]
    assert one_by_one(single) == one_by_one(single[::-1]) == 0
    single = [np.float32(value) for value in (1e30, -1e30, 1.0)]
    assert one_by_one(single) == 1
    assert one_by_one(single[::-1]) == 0


def test_every_order_of_six_terms_gives_the_same_bits() -> None:
    given = terms(6, seed=3)
    found = {reproducible([given[i] for i in order]).tobytes() for order in itertools.permutations(range(6))}
    assert len(found) == 1
    naive = {one_by_one([given[i] for i in order]).tobytes() for order in itertools.permutations(range(6))}
    assert len(naive) > 100


def test_parts_add_up_to_the_term_and_sit_on_their_grids() -> None:
    (vector,) = terms(1, seed=5, spread=1.0)
    spacings = grids(float(np.abs(vector).max()), 8, 24, folds=3)
    cut = parts(vector, spacings, 24)
    for share, spacing in zip(cut, spacings, strict=True):
        assert (np.round(share / spacing) * spacing == share).all()
    rest = vector.astype(np.float64) - sum(share.astype(np.float64) for share in cut)
    assert (np.abs(rest) <= spacings[-1] / 2).all()


@pytest.mark.parametrize("ranks", [3, 8])
def test_every_all_reduce_gives_the_same_bits(ranks: int) -> None:
    given = [term[:48] for term in terms(ranks, seed=7)]
    spacings = grids(max(float(np.abs(term).max()) for term in given), ranks, 24)
    cut = [parts(term, spacings, 24) for term in given]
    found = set()
    for name in algorithms("all-reduce"):
        program = get("all-reduce", name).program(ranks, 48 * 4, element_B=4)
        switches = [np.zeros(48, np.float32)] * (program.ranks - ranks)
        columns = [execute(program, {"data": [one[fold] for one in cut] + switches})["data"] for fold in range(FOLDS)]
        found |= {one_by_one([column[rank] for column in columns]).tobytes() for rank in range(ranks)}
    assert len(found) == 1
    assert found == {reproducible(given).tobytes()}


@pytest.mark.parametrize("name", SUMS)
def test_numpy_and_torch_give_the_same_bits(name: str) -> None:
    given = terms(9, seed=2)
    twins = [torch.from_numpy(term.copy()) for term in given]
    assert SUMS[name](given).tobytes() == SUMS[name](twins).numpy().tobytes()


def test_sums_of_zeros_and_single_terms_are_exact() -> None:
    zeros = [np.zeros(4, np.float32)] * 3
    for add in SUMS.values():
        assert (add(zeros) == 0).all()
    alone = terms(1)
    assert (in_pairs(alone) == alone[0]).all()
