"""P11: every method at its neutral setting is synchronous SGD, and n workers do what one does with the same batch."""

from typing import Any

import numpy as np
import pytest

from effort import share
from lockstep.run.train import TrainRun, all_methods

from .many import Spec, runs

METHODS = {one.name: one for one in all_methods()}
NEUTRAL = {one.name: one.neutral for one in all_methods() if one.neutral is not None}
MODELS = ("mlp", "cnn", "gpt", "moe")
STRUCTURAL = ("data parallel", "sharded data parallel", "model parallel")
CASES = [
    (name, model)
    for place, name in enumerate(NEUTRAL)
    for first, *others in [METHODS[name].models]
    for model in (first, *(share(others, 3, place) if METHODS[name].family in STRUCTURAL else ()))
]
"""Methods that see only flat vectors do the same whatever the model is, so one model is enough for them."""
SAME_ORDER = ("accumulation", "zero-1", "zero-2", "zero-3", "torch-ddp", "top-k", "threshold", "mixed-precision")
"""Methods that add what synchronous SGD adds, in its order."""
CLOSE = 1e-12


@pytest.fixture(scope="module")
def on_two() -> dict[Any, TrainRun]:
    """Every method at its neutral setting with every model, and synchronous SGD."""
    asked = dict.fromkeys([*CASES, *(("synchronous", model) for model in MODELS)])
    specs = {(name, model): Spec(name, dict(NEUTRAL[name]), {"model": model, "steps": 3}) for name, model in asked}
    specs |= {
        (name, "same order"): Spec(name, dict(NEUTRAL[name]), {"dtype": "float32", "optimizer": "adam"})
        for name in ("synchronous", *SAME_ORDER)
    }
    return runs(2, specs)


@pytest.fixture(scope="module")
def alone() -> dict[Any, TrainRun]:
    """One process with the whole batch."""
    return runs(1, {model: Spec("synchronous", task={"model": model, "steps": 3}) for model in MODELS})


def apart(one: TrainRun, other: TrainRun) -> float:
    """Largest difference of a weight."""
    return float(np.abs(one.weights - other.weights).max())


@pytest.mark.parametrize("model", MODELS)
def test_two_workers_equal_one_process(model: str, alone: dict[Any, TrainRun], on_two: dict[Any, TrainRun]) -> None:
    assert 0 < apart(alone[model], on_two["synchronous", model]) < CLOSE
    assert on_two["synchronous", model].loss == pytest.approx(alone[model].loss, rel=CLOSE)
    assert on_two["synchronous", model].test_loss == pytest.approx(alone[model].test_loss, rel=CLOSE)


@pytest.mark.parametrize(("name", "model"), CASES)
def test_every_method_reduces_to_synchronous_sgd(name: str, model: str, on_two: dict[Any, TrainRun]) -> None:
    run, synchronous = on_two[name, model], on_two["synchronous", model]
    assert apart(run, synchronous) < CLOSE
    assert run.loss == pytest.approx(synchronous.loss, rel=CLOSE)
    assert run.accuracy_frac == synchronous.accuracy_frac
    assert run.replicas_equal


@pytest.mark.parametrize("name", SAME_ORDER)
def test_equal_sums_in_equal_order_are_bit_identical(name: str, on_two: dict[Any, TrainRun]) -> None:
    run, synchronous = on_two[name, "same order"], on_two["synchronous", "same order"]
    assert run.weights.dtype == np.float32
    assert run.weights.tobytes() == synchronous.weights.tobytes()
    assert run.loss == synchronous.loss


def test_only_inherently_lossy_methods_have_no_neutral_setting() -> None:
    assert set(METHODS) - set(NEUTRAL) == {"batch-norm", "fp16", "int8", "qsgd", "sign", "one-bit"}


def test_on_four_ranks_with_uneven_shares() -> None:
    """The weights of the MLP do not divide by four, and rings of four add in other orders than one process does."""
    names = ("synchronous", "zero-1", "zero-2", "zero-3", "tensor-parallel", "diloco", "hogwild", "top-k", "power-sgd")
    four = runs(4, {name: Spec(name, dict(NEUTRAL[name])) for name in names})
    one = runs(1, {"alone": Spec("synchronous")})["alone"]
    for name, run in four.items():
        assert apart(run, one) < CLOSE, name
        assert run.replicas_equal, name
    assert len(one.weights) % 4
    assert apart(four["synchronous"], one) > 0
    assert four["zero-1"].weights.tobytes() == four["synchronous"].weights.tobytes()


def test_a_server_with_two_synchronous_workers_equals_synchronous_sgd() -> None:
    server = runs(3, {"server": Spec("parameter-server", {"bound": 0})})["server"]
    assert apart(server, runs(2, {"two": Spec("synchronous")})["two"]) < CLOSE
    assert server.notes["staleness"] == {"0": 2 * server.task.steps}
