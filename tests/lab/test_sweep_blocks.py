"""A point of many seeds is added up block by block: the same sums in any order of arrival, and little is held."""

from __future__ import annotations

import gc
import json
import math
import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from lockstep.learn.lab.findings import ALWAYS, Check
from lockstep.learn.lab.sweep import run
from lockstep.learn.lab.sweep.cells import Cell, Moments
from lockstep.learn.lab.sweep.results import Results
from lockstep.learn.lab.sweep.summary import Block, joined
from lockstep.learn.lab.sweep.trial import Outcome, Trials

SEEDS, SMALL = 95, 10


def outcome(seed: int) -> Outcome:
    """One of a kind with every sort of cell: numbers, none, lists, words, rows and cells that some runs lack."""
    value = random.Random(seed).gauss(3, 1)
    rows: list[dict[str, Any]] = [
        {"way": "a", "loss": value, "same": 2, "step": None if seed % 3 else seed, "pair": [value, -value]},
        {"way": "b", "rank": 1, "end": "lost" if seed % 4 else "right", "mixed": "none" if seed > 80 else seed},
    ]
    if seed > 50:
        rows[0]["late"] = value
        rows.append({"way": "c", "loss": math.inf if seed == 60 else 2 * value})
    check = Check("x", 3.0, value, standard_error=1.0, tolerance=0.1, runs=seed % 2 + 4, holds=ALWAYS)
    return Outcome((check,), Results(tuple(rows), theory=({"name": "law", "value": 3.0},)))


def test_moments_of_blocks_equal_those_of_all_numbers() -> None:
    values = np.random.default_rng(0).lognormal(3.0, 2.0, 1000)
    cuts = np.split(values, [1, 7, 400, 402, 990])
    several = [Moments.of(one.tolist()) for one in cuts]
    found = sum(several[1:], several[0])
    assert found.count == 1000
    assert found.mean == pytest.approx(values.mean(), rel=1e-13)
    assert found.spread == pytest.approx(((values - values.mean()) ** 2).sum(), rel=1e-12)
    assert (found.low, found.high) == (values.min(), values.max())


def close(one: Any, other: Any) -> bool:
    """Whether two plain data are the same but for rounding."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(close(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    return one == other or (isinstance(one, float) and math.isclose(one, other, rel_tol=1e-12))


@pytest.mark.parametrize("size", [1, 7, 50, SEEDS])
def test_blocks_add_up_to_the_answer_of_all_seeds(size: int) -> None:
    every = [outcome(seed) for seed in range(SEEDS)]
    blocks = [Block.of(every[begin : begin + size]) for begin in range(0, SEEDS, size)]
    found, whole = (one.to_dict() for one in (sum(blocks[1:], blocks[0]).point(()), joined((), every)))
    mixed = [point["results"]["rows"][1].pop("mixed") for point in (found, whole)]
    assert close(found, whole)
    # Numbers of a block of numbers alone are not told apart once words come.
    assert "none (14 of 95)" in mixed[0]
    assert mixed[0] == mixed[1] or "numbers" in mixed[0]


def test_missing_cells_count_as_none() -> None:
    assert (Cell.absent(3) + Cell.of([1.0, 2.0])).shown("x") == Cell.of([None] * 3 + [1.0, 2.0]).shown("x")
    assert (Cell.absent(3) + Cell.of(["a", "b"])).shown("x") == Cell.of([None] * 3 + ["a", "b"]).shown("x")


def arriving(order: list[int], most: list[int]) -> Iterator[tuple[int, Any]]:
    """The plain outcomes in that order; notes how many outcomes are held meanwhile."""
    for place in order:
        yield place, json.loads(json.dumps(asdict(outcome(place))))
        most[0] = max(most[0], sum(type(one) is Outcome for one in gc.get_objects()))


def test_arrival_order_changes_nothing_and_few_outcomes_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BLOCK", SMALL)
    trials = Trials("communication-bound", ((),), SEEDS, 0)
    chance, held = random.Random(1), [[0] for _ in range(3)]
    near = sorted(range(SEEDS), key=lambda place: place + chance.uniform(0, 2 * SMALL))
    orders = [list(range(SEEDS)), near, list(reversed(range(SEEDS)))]
    # What is there before is not walked again with every outcome that arrives, nor by later tests: it stays frozen.
    gc.freeze()
    found = [run._points(arriving(order, most), [()], trials) for order, most in zip(orders, held, strict=True)]
    assert found[0] == found[1] == found[2]
    assert found[0][0].seeds == SEEDS
    assert held[0][0] <= SMALL + 1
    assert held[1][0] <= 4 * SMALL
    part = run._points(arriving(near[:40], [0]), [()], trials)
    assert part[0].seeds == 40
