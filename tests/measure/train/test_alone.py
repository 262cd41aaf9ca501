"""Parts of training methods by themselves, in one process: what they send, to whom, and what they step on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.run.launch.place import Place
from lockstep.run.launch.rank import Host
from lockstep.run.machine import Sites
from lockstep.run.train.method import NoSettings
from lockstep.run.train.methods import parameter_server, zero_1
from lockstep.run.train.task import Descent, Task


class Flat(SimpleNamespace):
    """Weights and gradients of four elements."""

    def __init__(self) -> None:
        super().__init__(weights=np.arange(4.0), gradients=np.zeros(4))

    def __len__(self) -> int:
        return 4


class Steps(list[Any]):
    """An optimizer that writes down what it is given."""

    def step(self, gradients: Any) -> None:
        self.append(gradients.tolist())

    def held(self) -> tuple[()]:
        return ()


def test_every_rank_steps_on_the_mean_of_its_share_and_gathers_the_weights() -> None:
    """Rank 1 of two, whose sums of gradients are 10, 20, 30, 40."""
    said: list[Any] = []
    steps, flat, share = Steps(), Flat(), slice(2, 4)
    wire = SimpleNamespace(
        share=lambda number: share,
        reduce_scatter=lambda gradients: np.array([30.0, 40.0]),
        all_gather=lambda weights: said.append(weights is flat.weights),
    )

    def optimizer(weights: Any, *place: object) -> Steps:
        said.append((weights.tolist(), *place))
        return steps

    worker: Any = SimpleNamespace(
        flat=flat, wire=wire, ranks=2, holds=lambda *arrays: None, gradient=lambda step: 0.5 + step,
        steps=lambda restored: range(2), optimizer=optimizer,
    )  # fmt: skip
    assert list(zero_1.run(worker, NoSettings())) == [0.5, 1.5]
    assert steps == [[15.0, 20.0]] * 2
    (weights, _, start, total), *gathered = said
    assert (weights, start, total) == ([2.0, 3.0], 2, 4)
    assert gathered == [True, True]


def served(arrivals: list[int], workers: int, steps: int, bound: int) -> tuple[list[tuple[int, int]], Any, Steps]:
    """(after how many updates weights went to which rank), notes and steps of a server that these ranks send to."""
    sent: list[tuple[int, int]] = []
    applied = Steps()
    left: Iterator[int] = iter(arrivals)

    def receive(gradients: Any) -> int:
        gradients[:] = 1.0
        return next(left)

    wire = SimpleNamespace(receive=receive, send=lambda weights, to: sent.append((len(applied), to)))
    worker: Any = SimpleNamespace(
        flat=Flat(), wire=wire, workers=workers, task=SimpleNamespace(steps=steps), notes={},
        optimizer=lambda weights: applied,
    )  # fmt: skip
    settings = parameter_server.Settings(bound=bound, weighting="inverse")
    assert list(parameter_server._serve(worker, settings)) == [None] * steps
    assert next(left, None) is None
    return sent, worker.notes, applied


def test_a_server_with_zero_staleness_answers_all_but_the_last_gradient() -> None:
    """All but the last gradient of a worker are answered."""
    sent, notes, applied = served([1, 2, 2, 1, 1, 2], workers=2, steps=3, bound=0)
    assert sent == [(2, 1), (2, 2), (4, 1), (4, 2)]
    assert notes["staleness"] == {"0": 6}
    assert applied == [[0.5] * 4] * 6


def test_a_server_lets_a_fast_worker_lead_by_the_staleness_bound() -> None:
    """The first worker is answered at once, then waits for the second, whose gradient is a round old by then."""
    sent, notes, applied = served([1, 1, 2, 1, 2, 2], workers=2, steps=3, bound=1)
    assert sent == [(1, 1), (3, 1), (3, 2), (5, 2)]
    assert notes["staleness"] == {"0": 5, "1": 1}
    assert applied == [[0.5] * 4, [0.5] * 4, [0.25] * 4, [0.5] * 4, [0.5] * 4, [0.5] * 4]


@pytest.mark.parametrize("rank", [1, 2])
def test_a_worker_sends_every_gradient_and_takes_weights_after_all_but_the_last(rank: int) -> None:
    said: list[str] = []
    flat = Flat()
    wire = SimpleNamespace(
        send=lambda tensor, to: said.append(f"gradients {tensor is flat.gradients} to {to}"),
        receive=lambda tensor, peer: said.append(f"weights {tensor is flat.weights} from {peer}"),
    )
    worker: Any = SimpleNamespace(
        flat=flat, wire=wire, task=SimpleNamespace(steps=3), rank=rank, ranks=3, gradient=lambda step: float(step)
    )
    assert list(parameter_server._work(worker, 0.0)) == [0.0, 1.0, 2.0]
    out, back = "gradients True to 0", "weights True from 0"
    assert said == [out, back, out, back, out]


def test_chunks_on_one_device_pass_their_results_locally() -> None:
    """Two chunks on a device train as the whole model does."""
    import torch

    from lockstep.run.train.device import Chunk, Device, Pass
    from lockstep.run.train.worker import cross_entropy

    torch.manual_seed(0)
    first, last = (torch.nn.Linear(3, 4, dtype=torch.float64), torch.nn.Linear(4, 2, dtype=torch.float64))
    parts = [(torch.randn(5, 3, dtype=torch.float64), torch.randint(0, 2, (5,))) for _ in range(2)]
    whole = torch.nn.Sequential(first, last)
    losses = [cross_entropy(whole(inputs), targets) for inputs, targets in parts]
    want = torch.autograd.grad(sum(losses) / 2, list(whole.parameters()))
    shape = torch.Size((5, 4))
    chunks = [
        Chunk(first, first=True, last=False, made=shape, taken=torch.Size((5, 3))),
        Chunk(last, first=False, last=True, made=torch.Size((5, 2)), taken=shape),
    ]
    lane = [
        one
        for m in range(2)
        for one in (Pass("F", m, 0), Pass("F", m, 1, follows=0), Pass("B", m, 1), Pass("B", m, 0, follows=1))
    ]
    wire: Any = SimpleNamespace()
    device = Device(wire, lane, chunks, torch.float64)
    assert device.step(parts) == pytest.approx(sum(float(loss.detach()) for loss in losses) / 2)
    assert device.most_live == 2
    assert not device.live
    assert not device.results
    found = torch.cat([chunk.flat.gradients for chunk in chunks])
    torch.testing.assert_close(found, torch.cat([one.reshape(-1) for one in want]))


def test_ranks_that_see_the_same_interfaces_need_no_network() -> None:
    together = Sites(("a", "a", "a"), ("a x", "a x", "a x"))
    apart = Sites(("a", "a", "b"), ("a x", "a y", "b x"))
    assert together.loopback
    assert not apart.loopback
    assert together.strangers() == ()
    assert apart.strangers() == (2,)
    assert Sites(("a",), ("a x",)).loopback


def test_shards_hold_a_share_of_every_module_and_gather_back_to_all() -> None:
    """Rank 1 of two; what the other rank sends is its share doubled."""
    import torch

    from lockstep.run.train.shard import shards_of

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    shapes = [parameter.shape for parameter in model.parameters()]
    whole = {
        sum(one.numel() for one in piece.parameters()): torch.cat(
            [one.detach().reshape(-1) for one in piece.parameters()]
        )
        for piece in (model[0], model[2])
    }

    def share(number: int) -> slice:
        return slice((number + 1) // 2, number)

    def all_gather(gathered: Any) -> None:
        own = share(len(gathered)).start
        gathered[:own] = 2 * whole[len(gathered)][:own]

    wire: Any = SimpleNamespace(
        ranks=2, share=share, all_gather=all_gather, reduce_scatter=lambda flat: flat[share(len(flat))]
    )
    shards = shards_of(model, wire)
    assert [(one.num_elems, len(one.weights), one.names) for one in shards] == [
        (9, 4, ["weight", "bias"]),
        (4, 2, ["weight", "bias"]),
    ]
    for shard in shards:
        own = share(shard.num_elems)
        shard.add(torch.arange(float(shard.num_elems)))
        assert shard.gradients.tolist() == [place / 2 for place in range(own.start, own.stop)]
        shard.restore()
        found = torch.cat([parameter.detach().reshape(-1) for parameter in shard.parameters])
        want = whole[shard.num_elems].clone()
        want[: own.start] *= 2
        assert torch.equal(found, want)
    assert [parameter.shape for parameter in model.parameters()] == shapes


@pytest.mark.parametrize(("name", "held"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_held_optimizer_state_is_its_moment_tensors(name: str, held: int) -> None:
    torch = pytest.importorskip("torch")
    descent = Descent(name, torch.ones(5), 0.1)
    descent.step(torch.ones(5))
    assert [tuple(tensor.shape) for tensor in descent.held()] == [(5,)] * held


@pytest.mark.parametrize(
    ("name", "said", "whole"),
    [("c10d._allgather_base_.default", "all-gather", 0), ("c10d._reduce_scatter_base_.default", "reduce-scatter", 1)],
)
def test_torch_collectives_are_counted_by_whole_buffers(name: str, said: str, whole: int) -> None:
    exchanges = pytest.importorskip("lockstep.run.train.exchanges")

    class Operation:
        def __call__(self, *buffers: str) -> tuple[str, ...]:
            return buffers

        def __str__(self) -> str:
            return name

    counted: list[tuple[str, str]] = []
    wire: Any = SimpleNamespace(count_ring=lambda op, buffer: counted.append((op, buffer)))
    buffers = ("whole", "part") if whole == 0 else ("part", "whole")
    assert exchanges.Counting(wire).__torch_dispatch__(Operation(), (), buffers) == buffers
    assert counted == [(said, "whole")]


def test_a_batch_of_one_sample_is_a_batch() -> None:
    assert Task(batch=1).share(1) == 1
    with pytest.raises(BadInput, match="--batch"):
        Task(batch=0)


@pytest.mark.parametrize(
    ("rank", "alone", "served"), [(0, True, False), (1, True, False), (0, True, True), (0, False, False)]
)
def test_ranks_of_one_machine_use_loopback_unless_torchrun_hosts_the_store(
    rank: int, alone: bool, served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 serves, with a socket that listens there, or on every address where there are several machines."""
    distributed = pytest.importorskip("torch.distributed")
    starting, made = import_module("lockstep.run.launch.launch"), dict[str, Any]()
    monkeypatch.setattr(os, "environ", {"TORCHELASTIC_USE_AGENT_STORE": str(served)})
    monkeypatch.setattr(distributed, "TCPStore", lambda address, *_, **words: made.update(words, address=address))
    monkeypatch.setattr(starting, "_listening", lambda address, port: 7)
    starting._store(Place(rank, 2, rank, "node-3", 29500, "torchrun", one_machine=alone), 5.0)
    here = alone and not served
    assert made["address"] == (Host().address if here else "node-3")
    assert made["is_master"] == (rank == 0 and not served)
    assert made.get("master_listen_fd") == (7 if here and rank == 0 else None)
