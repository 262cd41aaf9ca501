"""`Task`: what is trained, with which optimizer and on which batches; the same for every method.

A step takes a global batch of `batch` samples from a shuffle of the data, one shuffle per epoch, incomplete batches
left out. Worker k of n takes the k-th of n equal parts of it, so that n workers see together what one would see.

`Descent`: an optimizer of `lockstep.learn.methods` at work on a flat vector of weights, or on a shard of it. Only
optimizers that treat every entry alike are allowed, so that a shard steps as the whole would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array, Ints
from lockstep.learn.methods.optimizers import optimizer

if TYPE_CHECKING:
    from torch import Tensor

ENTRYWISE = ("sgd", "momentum", "adam")
DTYPES = ("float32", "float64")


class Descent:
    """Weights, an optimizer's state for them, and a learning rate."""

    def __init__(self, name: str, weights: Tensor, learning_rate: float) -> None:
        self.rule = optimizer(name)
        self.weights = weights
        self.learning_rate = learning_rate
        self.state = self.rule.start((weights,))

    def step(self, gradients: Tensor) -> None:
        """Takes one step, in place."""
        (direction,), self.state = self.rule.direction((gradients,), self.state, (self.weights,))
        self.weights.sub_(direction, alpha=self.learning_rate)

    def remembered(self) -> Any:
        """Weights and state, nested."""
        return self.weights, self.state

    def remember(self, nested: Any) -> None:
        """Takes on what `remembered` gave; the weights in place."""
        weights, self.state = nested
        self.weights.copy_(weights)

    def held(self) -> tuple[Tensor, ...]:
        """What it remembers from step to step."""
        return tuple(_tensors(self.state))


def _tensors(state: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples."""
    if isinstance(state, tuple):
        for part in state:
            yield from _tensors(part)
    elif hasattr(state, "numel"):
        yield state


@dataclass(frozen=True, slots=True)
class Task:
    """Model, data and optimizer of a run. Raises BadInput for numbers that make no run."""

    model: str = "mlp"
    layers: int = 4
    """Pieces of the model: where a pipeline can be cut and what ZeRO-3 gathers at once."""
    steps: int = 100
    batch: int = 64
    """Samples per step, all workers together; a sample of the text is one window of characters."""
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    seed: int = 0
    dtype: str = "float32"
    data_seed: int | None = None
    """Of the shuffles; by default the seed."""
    dropout_frac: float = 0.0
    """Share of the inputs that is dropped at random, where inputs are no characters."""
    dropout_seed: int = 0
    reversed_ranks: bool = False
    """Whether the last worker takes the first share of a batch, and so on."""

    def __post_init__(self) -> None:
        for flag, number, least in (
            ("--layers", self.layers, 2),
            ("--steps", self.steps, 1),
            ("--batch", self.batch, 1),
        ):
            if number < least:
                raise BadInput(f"must be at least {least}, got {number}", flag)
        if not 0 < self.learning_rate <= 100:
            raise BadInput(f"must be above 0 and at most 100, got {self.learning_rate:g}", "--learning-rate")
        if not 0 <= self.dropout_frac < 1:
            raise BadInput(f"must be from 0 to below 1, got {self.dropout_frac:g}", "--dropout")
        for flag, name, allowed in (("--optimizer", self.optimizer, ENTRYWISE), ("--dtype", self.dtype, DTYPES)):
            if name not in allowed:
                raise UnknownName(flag.strip("-"), name, allowed, flag)

    @property
    def shuffle_seed(self) -> int:
        """Of the order of the samples."""
        return self.seed if self.data_seed is None else self.data_seed

    def share(self, workers: int) -> int:
        """Samples of one of `workers` equal parts of the batch; raises BadInput when they cannot be equal."""
        if self.batch % workers:
            below, above = self.batch - self.batch % workers, self.batch + workers - self.batch % workers
            near = f"{below} or {above}" if below else str(above)
            raise BadInput(f"{self.batch} samples do not split into {workers} equal parts; try {near}", "--batch")
        return self.batch // workers


def batch_indices(task: Task, step: int, num_samples: int) -> Ints:
    """Indices of the samples of one step, shape (batch,)."""
    per_epoch = num_samples // task.batch
    if not per_epoch:
        raise BadInput(f"a batch of {task.batch} is more than the {num_samples} samples there are", "--batch")
    epoch, place = divmod(step, per_epoch)
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([task.shuffle_seed, epoch])))
    return random.permutation(num_samples)[place * task.batch : (place + 1) * task.batch]


def dropped(task: Task, step: int, inputs: Array) -> Array:
    """Inputs with a share of them set to 0 and the rest scaled up to the same mean (inverted dropout)."""
    if not task.dropout_frac or not np.issubdtype(inputs.dtype, np.floating):
        return inputs
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([task.dropout_seed, step])))
    stays = random.random(inputs.shape) >= task.dropout_frac
    return np.asarray(inputs * stays / (1 - task.dropout_frac), dtype=inputs.dtype)
