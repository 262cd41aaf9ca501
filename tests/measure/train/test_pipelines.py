"""Every pipeline schedule, driven by its own program: the gradient of the whole batch, and the memory it promises."""

from typing import Any

import pytest

from lockstep.run.train import TrainRun
from lockstep.simulate.parallel.pipeline import Placement, get, names

from .many import Spec, runs
from .test_reductions import CLOSE, apart

LAYERS, MICROBATCHES = 8, 8
TASK = {"layers": LAYERS, "steps": 3}


def specs(names: tuple[str, ...]) -> dict[Any, Spec]:
    return {name: Spec("pipeline", {"schedule": name, "microbatches": MICROBATCHES}, TASK) for name in names}


@pytest.fixture(scope="module")
def on_two() -> dict[Any, TrainRun]:
    return runs(2, specs(names()))


@pytest.fixture(scope="module")
def on_four() -> dict[Any, TrainRun]:
    return runs(4, specs(("1f1b", "interleaved", "zb-v", "chimera", "dualpipe")))


@pytest.fixture(scope="module")
def alone() -> TrainRun:
    return runs(1, {"alone": Spec("synchronous", task=TASK)})["alone"]


@pytest.mark.parametrize("name", names())
def test_every_schedule_trains_as_one_process_does(name: str, on_two: dict[Any, TrainRun], alone: TrainRun) -> None:
    assert apart(on_two[name], alone) < CLOSE
    assert on_two[name].loss == pytest.approx(alone.loss, rel=CLOSE)
    assert on_two[name].replicas_equal


@pytest.mark.parametrize("name", names())
def test_a_device_holds_the_micro_batches_of_its_schedule(name: str, on_two: dict[Any, TrainRun]) -> None:
    schedule = get(name)
    chunks = schedule.num_chunks or 2
    units = 1 if schedule.placement is Placement.BOTH_WAYS else chunks
    assert on_two[name].notes["most_live"] / units == schedule.peak_live(2, MICROBATCHES, chunks, 0)


def test_four_stages_train_as_one_process_does(on_four: dict[Any, TrainRun], alone: TrainRun) -> None:
    for name, run in on_four.items():
        assert apart(run, alone) < CLOSE, name


def test_activations_and_gradients_cross_every_cut_once_per_micro_batch(on_four: dict[Any, TrainRun]) -> None:
    """Cuts between devices: p - 1, v p - 1, and 2 p - 2 for a V, whose bottom is one device."""
    for name, crossings in {"1f1b": 3, "interleaved": 7, "zb-v": 6}.items():
        run = on_four[name]
        message_B = run.task.batch // MICROBATCHES * 64 * run.weights.itemsize
        assert set(run.sent_B) == {2 * crossings * MICROBATCHES * message_B}, name
