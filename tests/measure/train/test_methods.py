"""Methods away from their neutral setting, against the same algorithm on all workers in one process, without wires."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import PCG64, Generator, SeedSequence

from lockstep.learn.methods.compression import COMPRESSORS, Compressor, compressor, exchange
from lockstep.learn.methods.loss_scaling import GROWTH_INTERVAL
from lockstep.run.launch import Rank
from lockstep.run.train import TrainRun
from lockstep.run.train.worker import Worker
from lockstep.simulate.collectives import PlainLink, get

from .many import STEPS, Spec, runs
from .test_reductions import CLOSE, apart

PERIOD = 3
HUGE = 2.0**40
COMPRESSED = {"top-k": {"keep_frac": 0.1}, "one-bit": {}, "qsgd": {}, "shared-random-k": {"keep_frac": 0.2}}
COMPRESSED |= {"power-sgd": {"rank": 1}, "int8": {}}


@pytest.fixture(scope="module")
def on_two() -> dict[Any, TrainRun]:
    rounds = {"period": PERIOD}
    specs: dict[Any, Spec] = {
        "local": Spec("local-sgd", rounds, {"optimizer": "momentum"}),
        "reset": Spec("local-sgd", rounds | {"buffers": "reset"}, {"optimizer": "momentum"}),
        "average": Spec("local-sgd", rounds | {"buffers": "average"}, {"optimizer": "momentum"}),
        "post-local": Spec("post-local-sgd", rounds | {"switch_frac": 0.5}),
        "diloco": Spec("diloco", rounds),
        "hogwild": Spec("hogwild", task={"steps": 40, "learning_rate": 0.3}),
        "bf16": Spec("mixed-precision", task={"dtype": "float32"}),
        "overflows": Spec("mixed-precision", {"compute": "float16", "scaling": "static", "scale": HUGE}),
        "recovers": Spec("mixed-precision", {"compute": "float16", "scale": HUGE}, {"steps": 40}),
        "whole batch": Spec("batch-norm", task={"model": "cnn"}),
        "shares": Spec("batch-norm", {"statistics": "local"}, {"model": "cnn"}),
        "plain": Spec("synchronous"),
    }
    specs |= {("sent", name): Spec(name, settings) for name, settings in COMPRESSED.items()}
    return runs(2, specs)


@pytest.fixture(scope="module")
def on_four() -> dict[Any, TrainRun]:
    return runs(4, {graph: Spec("gossip", {"topology": graph}) for graph in ("ring", "exponential")})


def workers(count: int, spec: Spec) -> list[Worker]:
    """All workers of a run, in this process."""
    return [Worker(spec.full(), Rank(number, count, number, None, timeout_s=1)) for number in range(count)]


def simulated(count: int, spec: Spec, after: Callable[[int, list[Any]], list[Any]]) -> np.ndarray:
    """Mean weights when every worker takes its own steps and `after(step, weights)` is what they do together."""
    everyone = workers(count, spec)
    optimizers = [worker.optimizer(worker.flat.weights) for worker in everyone]
    for step in range(everyone[0].task.steps):
        for worker, optimizer in zip(everyone, optimizers, strict=True):
            worker.gradient(step)
            optimizer.step(worker.flat.gradients)
        mixed = after(step, [worker.flat.weights.clone() for worker in everyone])
        for worker, weights in zip(everyone, mixed, strict=True):
            worker.flat.load(weights)
    mean: np.ndarray = torch.stack([worker.flat.weights for worker in everyone]).mean(0).numpy()
    return mean


def averaged(weights: list[Any]) -> list[Any]:
    return [torch.stack(weights).mean(0)] * len(weights)


def test_local_sgd_averages_after_every_period(on_two: dict[Any, TrainRun]) -> None:
    spec = Spec("local-sgd", task={"optimizer": "momentum"})
    wanted = simulated(2, spec, lambda step, w: averaged(w) if (step + 1) % PERIOD == 0 else w)
    assert on_two["local"].weights == pytest.approx(wanted, abs=CLOSE)
    assert len({on_two[name].weights.tobytes() for name in ("local", "reset", "average")}) == 3
    spec = Spec("local-sgd")
    wanted = simulated(2, spec, lambda step, w: averaged(w) if step < STEPS // 2 or (step + 1) % PERIOD == 0 else w)
    assert on_two["post-local"].weights == pytest.approx(wanted, abs=CLOSE)


def test_diloco_takes_a_nesterov_step_along_the_mean_movement(on_two: dict[Any, TrainRun]) -> None:
    """Sutskever's form, with a look-ahead: torch's SGD with nesterov=True, fed with start minus mean."""
    (first, _) = workers(2, Spec("diloco"))
    outer = torch.nn.Parameter(first.flat.weights.clone())
    nesterov = torch.optim.SGD([outer], lr=0.7, momentum=0.9, nesterov=True)

    def after(step: int, weights: list[Any]) -> list[Any]:
        if (step + 1) % PERIOD:
            return weights
        outer.grad = outer.detach() - averaged(weights)[0]
        nesterov.step()
        return [outer.detach().clone() for _ in weights]

    assert on_two["diloco"].weights == pytest.approx(simulated(2, Spec("diloco"), after), abs=CLOSE)


def test_local_methods_send_once_per_round(on_two: dict[Any, TrainRun]) -> None:
    ring = get("all-reduce", "ring").price(2, on_two["local"].weights.nbytes, PlainLink(0.0, 1.0)).total_B
    assert on_two["local"].sent_B == on_two["diloco"].sent_B == (0, 0, ring) * (STEPS // PERIOD)
    assert on_two["average"].sent_B == (0, 0, 2 * ring) * (STEPS // PERIOD)
    assert on_two["post-local"].sent_B == (ring, ring, ring, 0, 0, ring)


def test_gossip_mixes_by_its_matrix(on_four: dict[Any, TrainRun]) -> None:
    ring = torch.tensor([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]], dtype=torch.float64) / 3

    def exponential(step: int) -> Any:
        behind = torch.eye(4, dtype=torch.float64).roll(-(1 << step % 2), 1)
        return (torch.eye(4, dtype=torch.float64) + behind) / 2

    for name, matrix in {"ring": lambda step: ring, "exponential": exponential}.items():
        wanted = simulated(4, Spec("gossip"), lambda step, w, m=matrix: list(m(step) @ torch.stack(w)))  # type: ignore[misc]
        assert on_four[name].weights == pytest.approx(wanted, abs=CLOSE)
        assert on_four[name].notes["disagreement"] > 1e-6
        assert on_four[name].replicas_equal
    sent = on_four["ring"].weights.nbytes
    assert set(on_four["ring"].sent_B) == {4 * 2 * sent}
    assert set(on_four["exponential"].sent_B) == {4 * sent}


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_staleness_is_bounded_by_a_theorem(bound: int) -> None:
    """While a worker computes, each other one sends at most 2 bound + 1 gradients (Ho et al. 2013, section 3)."""
    settings = {"bound": bound, "straggler_s": "2ms", "weighting": "none"}
    run = runs(3, {"server": Spec("parameter-server", settings, {"steps": 20})})["server"]
    seen = {int(rounds): count for rounds, count in run.notes["staleness"].items()}
    assert sum(seen.values()) == 2 * 20
    assert max(seen) <= (2 * bound + 1) // 2
    assert run.replicas_equal
    gradients = 2 * 20 * run.weights.nbytes
    assert 2 * gradients - 2 * run.weights.nbytes <= sum(run.sent_B) <= 2 * gradients


def test_hogwild_learns_without_sending(on_two: dict[Any, TrainRun]) -> None:
    run = on_two["hogwild"]
    assert set(run.sent_B) == {0}
    # A late write of the other process may undo the last steps.
    assert min(run.loss) < run.loss[0] - 0.1
    assert run.replicas_equal


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_training_is_the_exchange_in_one_process(name: str, on_two: dict[Any, TrainRun]) -> None:
    """With error feedback, tensor by tensor, draws as the method seeds them."""
    given = dict(COMPRESSED[name]) | ({"scaled": False} if name == "shared-random-k" else {})
    kind: Compressor = compressor(name, error_feedback=True, **given)
    everyone = workers(2, Spec(name))
    optimizers = [worker.optimizer(worker.flat.weights) for worker in everyone]
    draws = [Generator(PCG64(SeedSequence([0, 0 if kind.summable else rank]))) for rank in range(2)]
    tensors = [[p.grad for p in worker.flat.parameters if p.grad is not None] for worker in everyone]
    states = [[kind.start(tensor) for tensor in column] for column in zip(*tensors, strict=True)]
    for step in range(STEPS):
        for worker in everyone:
            worker.gradient(step)
        means = []
        for place, column in enumerate(zip(*tensors, strict=True)):
            found = exchange(kind, column, states[place], draws)
            states[place] = list(found.states)
            means.append(found.mean)
        for optimizer in optimizers:
            optimizer.step(torch.cat(means))
    run = on_two["sent", name]
    assert run.weights == pytest.approx(everyone[0].flat.weights.numpy(), abs=1e-9)
    assert apart(run, on_two["plain"]) > 1e-6


@pytest.mark.parametrize("name", ["top-k", "one-bit", "qsgd", "int8"])
def test_payloads_and_their_lengths_are_what_travels(name: str, on_two: dict[Any, TrainRun]) -> None:
    run, kind = on_two["sent", name], COMPRESSORS[name](**COMPRESSED[name])
    (worker,) = workers(1, Spec(name))
    tensors = worker.flat.parameters
    arrays = sum(len(kind.compress(t.detach(), None, Generator(PCG64(0)))[0].arrays) for t in tensors)
    payloads = sum(kind.size_B(tensor.numel(), value_B=8) for tensor in tensors)
    assert set(run.sent_B) == {2 * (payloads + 8 * arrays)}


def test_16_bits_halve_the_bytes_and_stay_near(on_two: dict[Any, TrainRun]) -> None:
    run, plain = on_two["bf16"], on_two["plain"]
    assert set(run.sent_B) == {plain.sent_B[0] / 4}
    assert 0 < apart(run, plain) < 0.01
    assert run.notes["skipped_steps"] == 0


def test_an_overflowing_scale_skips_forever_or_adapts(on_two: dict[Any, TrainRun]) -> None:
    stuck, found = on_two["overflows"], on_two["recovers"]
    (start,) = workers(1, Spec("mixed-precision"))
    assert stuck.notes == {"skipped_steps": STEPS, "last_scale": HUGE}
    assert stuck.weights.tobytes() == start.flat.weights.numpy().tobytes()
    skipped = found.notes["skipped_steps"]
    assert 0 < skipped < found.task.steps <= GROWTH_INTERVAL
    assert found.notes["last_scale"] == HUGE / 2**skipped
    assert found.loss[-1] < found.loss[0]


def test_only_synchronised_batch_norm_equals_one_process(on_two: dict[Any, TrainRun]) -> None:
    """One process runs torch's own batch norm."""
    alone = runs(1, {"alone": Spec("batch-norm", {"statistics": "local"}, {"model": "cnn"})})["alone"]
    assert apart(on_two["whole batch"], alone) < CLOSE
    assert on_two["whole batch"].test_loss == pytest.approx(alone.test_loss, rel=CLOSE)
    assert apart(on_two["shares"], alone) > 1e-4
