"""Bytes and memory of the methods against their formulas: counted messages equal the integers of the papers."""

from typing import Any

import pytest

from lockstep.run.train import TrainRun
from lockstep.simulate.collectives import PlainLink, among_ranks, get

from .many import Spec, runs

WEIGHT_B = 4
FREE = PlainLink(0.0, 1.0)
TASK = {"dtype": "float32", "optimizer": "adam", "learning_rate": 0.003, "steps": 2}


@pytest.fixture(scope="module")
def on_two() -> dict[Any, TrainRun]:
    specs: dict[Any, Spec] = {name: Spec(name, task=TASK) for name in ("zero-1", "zero-3", "torch-ddp", "torch-fsdp2")}
    specs["many buckets"] = Spec("synchronous", {"bucket_B": "10kB"}, TASK)
    specs |= {
        ("all-reduce", name): Spec("synchronous", {"algorithm": name}, {"steps": 2})
        for name in among_ranks("all-reduce")
    }
    specs |= {m: Spec("zero-2", {"microbatches": m}, TASK) for m in (1, 4)}
    specs["tensor"] = Spec("tensor-parallel", task={"model": "gpt", "steps": 2})
    specs["experts"] = Spec("expert-parallel", task={"model": "moe", "steps": 2})
    return runs(2, specs)


def weights_B(run: TrainRun) -> int:
    return run.weights.nbytes


@pytest.mark.parametrize("name", ["many buckets", "zero-1", 1, "torch-ddp"])
def test_one_exchange_of_all_gradients_per_step(name: Any, on_two: dict[Any, TrainRun]) -> None:
    run = on_two[name]
    ring = get("all-reduce", "ring").price(2, weights_B(run), FREE).total_B
    assert set(run.sent_B) == {ring}


@pytest.mark.parametrize("name", among_ranks("all-reduce"))
def test_every_all_reduce_sends_its_priced_bytes(name: str, on_two: dict[Any, TrainRun]) -> None:
    run = on_two["all-reduce", name]
    priced = get("all-reduce", name).price(2, weights_B(run), FREE, element_B=run.weights.itemsize).total_B
    assert set(run.sent_B) == {float(priced)}
    assert run.weights == pytest.approx(on_two["all-reduce", "ring"].weights, abs=1e-12)


def test_zero_2_sends_gradients_once_per_micro_batch(on_two: dict[Any, TrainRun]) -> None:
    whole = on_two["zero-1"].sent_B[0]
    assert set(on_two[4].sent_B) == {whole * (4 + 1) / 2}


def test_zero_3_gathers_weights_twice_but_for_the_first_layer(on_two: dict[Any, TrainRun]) -> None:
    """The gradient of the data is not asked for, so the backward pass of the first layer needs no weights."""
    whole, first = on_two["zero-1"].sent_B[0], (64 * 64 + 64) * WEIGHT_B
    assert set(on_two["zero-3"].sent_B) == {1.5 * whole - first}
    assert set(on_two["torch-fsdp2"].sent_B) == {1.5 * whole}


def test_tensor_parallel_all_reduces_four_times_per_block(on_two: dict[Any, TrainRun]) -> None:
    run = on_two["tensor"]
    blocks, activations_B = run.task.layers - 2, run.task.batch * 32 * 32 * run.weights.itemsize
    assert set(run.sent_B) == {get("all-reduce", "ring").price(2, activations_B, FREE).total_B * 4 * blocks}


def test_expert_parallel_exchanges_the_capacity_of_all_experts_four_times_per_layer(
    on_two: dict[Any, TrainRun],
) -> None:
    run = on_two["experts"]
    layers, experts, width, per_rank = run.task.layers - 2, 4, 64, run.task.batch // 2
    room_B = experts * per_rank * width * run.weights.itemsize
    experts_B = layers * experts * 2 * width * width * run.weights.itemsize
    shared = get("all-reduce", "ring").price(2, weights_B(run) - experts_B, FREE).total_B
    swaps = get("all-to-all", "direct").price(2, room_B, FREE).total_B
    assert set(run.sent_B) == {shared + 4 * layers * swaps}


@pytest.mark.parametrize(
    ("name", "whole", "sharded"),
    [("many buckets", 16, 0), ("zero-1", 8, 8), (1, 4, 12), ("zero-3", 0, 16)],
    ids=["zero-0", "zero-1", "zero-2", "zero-3"],
)
def test_state_of_a_rank(name: Any, whole: int, sharded: int, on_two: dict[Any, TrainRun]) -> None:
    """4 B of weight, 4 B of gradient, 8 B of Adam's moments each: Rajbhandari et al. 2020, figure 1, in 32 bits."""
    run = on_two[name]
    assert run.notes["state_B"] == len(run.weights) * (whole + sharded / 2)
