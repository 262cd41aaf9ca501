"""`Worker`: what a training method has in hand on one rank: the model, its share of every batch, the wire.

Ranks that do not train (a parameter server) come first: `number` counts the workers from 0, and is negative for them.

`Kept`: something a rank must remember to go on as if it had never stopped, to and from the parts of a checkpoint. What
is read and written is nested: tuples, lists and dicts of tensors and plain values. The tensors become arrays NAME.0,
NAME.1, ...; the nest around them, with the plain values, a line of JSON in an array NAME."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.store.files import canonical
from lockstep.base.types.plain import Json
from lockstep.run.checkpoint import OWN, REPLICATED, SHARDED, Checkpoint, Part
from lockstep.run.launch import Rank
from lockstep.run.launch.points import point
from lockstep.run.train.models import get_model
from lockstep.run.train.shard import Flat
from lockstep.run.train.task import Descent, Task, batch_indices, dropped
from lockstep.run.train.wire import Wire

if TYPE_CHECKING:
    from torch import Tensor, nn

Batch: TypeAlias = "tuple[Tensor, Tensor]"


@dataclass(frozen=True, slots=True)
class Kept:
    """A name, how to read and to write what it stands for, and how the ranks share its tensors."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], None]
    kind: str = OWN
    start: int = 0
    stop: int = 0
    total: int = 0
    """Of sharded ones: which elements of how many this rank holds."""

    def parts(self) -> list[Part]:
        """What it holds now."""
        tensors: list[Tensor] = []
        nest = canonical(_apart(self.read(), tensors)).encode()
        around = REPLICATED if self.kind == SHARDED else self.kind
        return [
            Part(self.name, np.frombuffer(nest, np.uint8), around),
            *(
                Part(f"{self.name}.{place}", tensor.numpy(), self.kind, self.start, self.total)
                for place, tensor in enumerate(tensors)
            ),
        ]

    def restore(self, checkpoint: Checkpoint, rank: int, ranks: int) -> None:
        """Writes what the checkpoint holds. Raises BadInput where this rank cannot use it."""
        import torch

        nest = json.loads(checkpoint.array(self.name, rank, ranks).tobytes())

        def tensor(place: int) -> Tensor:
            array = checkpoint.array(f"{self.name}.{place}", rank, ranks)
            return torch.from_numpy((array[self.start : self.stop] if self.kind == SHARDED else array).copy())

        self.write(_together(nest, tensor))


def _apart(value: Any, tensors: list[Tensor]) -> Any:
    """The nest as plain JSON; tensors are collected, their places stand for them."""
    if hasattr(value, "numel"):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    if isinstance(value, tuple | list):
        return [type(value).__name__, *(_apart(part, tensors) for part in value)]
    if isinstance(value, dict):
        return {"dict": {name: _apart(part, tensors) for name, part in value.items()}}
    return value


def _together(nest: object, tensor: Callable[[int], Tensor]) -> Any:
    """The nest with its tensors."""
    if isinstance(nest, list):
        parts = [_together(part, tensor) for part in nest[1:]]
        return tuple(parts) if nest[0] == "tuple" else parts
    if isinstance(nest, dict):
        if "tensor" in nest:
            return tensor(nest["tensor"])
        return {name: _together(part, tensor) for name, part in nest["dict"].items()}
    return nest


class Worker:
    """One rank's part in a run; every rank builds the same model from the task's seed."""

    def __init__(self, task: Task, rank: Rank, *, helpers: int = 0, splits_batch: bool = True) -> None:
        self.task = task
        self.rank = rank.number
        self.ranks = rank.ranks
        self.wire = Wire(rank)
        self.workers = rank.ranks - helpers
        self.number = rank.number - helpers if splits_batch else 0
        self.share = task.share(self.workers) if splits_batch else task.batch
        self.model = self.new_model()
        self.notes: Json = {}
        """What the method wants to say beside losses and bytes."""
        self.scalars: dict[str, float] = {}
        """What the method says of the step under way, beside its loss, such as the loss scale."""
        self.kept: list[Kept] = []
        """What the method must remember from step to step."""
        self.resumed: Checkpoint | None = None
        """Where to go on from."""

    def new_model(self) -> nn.Sequential:
        """A model as it is before the first step."""
        import torch

        torch.manual_seed(self.task.seed)
        return get_model(self.task.model).build(self.task.layers, self.data.classes).to(self.dtype)

    @cached_property
    def dtype(self) -> Any:
        """The task's type of weights, as torch's."""
        import torch

        return getattr(torch, self.task.dtype)

    @cached_property
    def data(self) -> Any:
        """The model's data."""
        return get_model(self.task.model).data()

    @cached_property
    def flat(self) -> Flat:
        """All weights and gradients as flat vectors; the model's parameters become views of them."""
        return Flat(self.model.parameters())

    def optimizer(self, weights: Tensor, kind: str = OWN, start: int = 0, total: int = 0) -> Descent:
        """The task's optimizer for a flat vector of weights, changed in place and kept in checkpoints.

        `kind` as in `Part`: the rank's own, replicated, or sharded from element `start` of `total`.
        """
        made = Descent(self.task.optimizer, weights, self.task.learning_rate)
        name = f"weights-and-moments-{len(self.kept)}"
        self.kept.append(Kept(name, made.remembered, made.remember, kind, start, start + len(weights), total))
        return made

    def keep(self, name: str, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        """Keeps something else of this rank's own in checkpoints: nested tensors and plain values."""
        self.kept.append(Kept(name, read, write))

    def parts(self) -> list[Part]:
        """Everything kept, as it is now."""
        return [part for kept in self.kept for part in kept.parts()]

    @property
    def first_step(self) -> int:
        """Steps that were done before."""
        return self.resumed.step if self.resumed else 0

    def steps(self, restored: Callable[[], None] | None = None) -> Iterator[int]:
        """The steps to do. In a resumed run everything kept is restored before the first; then `restored` is called."""
        if self.resumed is not None:
            for kept in self.kept:
                kept.restore(self.resumed, self.rank, self.ranks)
            if restored is not None:
                restored()
        for step in range(self.first_step, self.task.steps):
            point(f"before_step:{step}")
            yield step

    def global_batch(self, step: int) -> Batch:
        """Inputs and targets of all workers."""
        indices = batch_indices(self.task, step, len(self.data.inputs))
        inputs = dropped(self.task, step, self.data.inputs[indices])
        return self._tensors(inputs, self.data.targets[indices])

    def batch(self, step: int) -> Batch:
        """Inputs and targets of this worker's share."""
        inputs, targets = self.global_batch(step)
        place = self.workers - 1 - self.number if self.task.reversed_ranks else self.number
        own = slice(place * self.share, (place + 1) * self.share)
        return inputs[own], targets[own]

    def loss(self, batch: Batch, model: nn.Module | None = None) -> Tensor:
        """Mean cross-entropy of a batch."""
        inputs, targets = batch
        return cross_entropy((model or self.model)(inputs), targets)

    def gradient(self, step: int) -> float:
        """Fills `flat.gradients` with the mean gradient of the worker's share; returns its loss."""
        self.flat.gradients.zero_()
        loss = self.loss(self.batch(step))
        loss.backward()
        return float(loss.detach())

    def holds(self, *tensors: Tensor) -> None:
        """Notes how many bytes of weights, gradients and optimizer state the rank keeps from step to step."""
        self.notes["state_B"] = sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def evaluate(self) -> tuple[float, float]:
        """(mean loss, share of right answers) of the model on the test data."""
        import torch

        inputs, targets = self._tensors(self.data.test_inputs, self.data.test_targets)
        self.model.eval()
        with torch.no_grad():
            scores = self.model(inputs)
            right = (scores.argmax(-1) == targets).double().mean()
            return float(cross_entropy(scores, targets)), float(right)

    def _tensors(self, inputs: object, targets: object) -> Batch:
        import torch

        given = torch.from_numpy(inputs)
        return given.to(self.dtype) if given.is_floating_point() else given, torch.from_numpy(targets)


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean over all samples, or all characters of all samples, in nats."""
    from torch.nn import functional

    return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))
