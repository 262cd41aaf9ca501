"""Methods at their neutral setting do what one process does, on ranks that are threads and start in a moment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from effort import share
from lockstep.run.train import Task, all_methods

from .thread_wire import Ran, ran

PROCESSES = {"hogwild", "parameter-server", "torch-ddp", "torch-fsdp2"}
"""Methods whose ranks share memory or talk past the wire."""
NEUTRAL = {one.name: dict(one.neutral) for one in all_methods() if one.neutral is not None}
CASES = [
    (one.name, model, ranks)
    for place, one in enumerate(all_methods())
    if one.name in NEUTRAL and one.name not in PROCESSES
    for model, ranks in [
        (one.models[0], 2),
        *share([(one.models[0], 4), *((name, 2) for name in one.models[1:])], 3, place),
    ]
]
"""Every method on two ranks with its first model; a share of other models and of four ranks."""
CLOSE = 1e-9


def task(model: str, **words: Any) -> Task:
    return Task(model=model, **{"steps": 3, "batch": 16, "dtype": "float64", "learning_rate": 0.1, **words})


@pytest.fixture(scope="module")
def alone() -> dict[str, Ran]:
    """Synchronous SGD in one process, of every model."""
    with pytest.MonkeyPatch.context() as patch:
        return {model: ran(1, "synchronous", task(model), {}, patch)[0] for model in ("mlp", "cnn", "gpt", "moe")}


def seen(ranks: list[Ran]) -> list[float]:
    """The mean of the losses that are seen in each step."""
    steps = zip(*(one.losses for one in ranks), strict=True)
    return [float(np.mean([loss for loss in losses if loss is not None])) for losses in steps]


@pytest.mark.parametrize(("name", "model", "ranks"), CASES)
def test_a_neutral_method_equals_one_process(
    name: str, model: str, ranks: int, alone: dict[str, Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(ranks, name, task(model), NEUTRAL[name], monkeypatch)
    for one in found:
        assert np.abs(one.weights - alone[model].weights).max() < CLOSE
    assert seen(found) == pytest.approx(alone[model].losses, rel=CLOSE)


@pytest.mark.parametrize("name", ["zero-1", "zero-2", "zero-3", "accumulation", "pipeline", "tensor-parallel"])
def test_moments_are_those_of_one_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = task("mlp", optimizer="adam", learning_rate=0.01, steps=4)
    (one,) = ran(1, "synchronous", asked, {}, monkeypatch)
    for two in ran(2, name, asked, NEUTRAL[name], monkeypatch):
        assert np.abs(two.weights - one.weights).max() < CLOSE


@pytest.mark.parametrize("name", ["zero-2", "zero-3"])
def test_a_sharded_model_leaves_the_gradients_of_the_model_as_before(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = ran(1, "synchronous", task("mlp"), {}, monkeypatch)
    assert one.own_gradients > 0
    for two in ran(2, name, task("mlp"), NEUTRAL[name], monkeypatch):
        assert two.own_gradients == one.own_gradients
