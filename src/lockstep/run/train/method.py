"""`Method`: one way to train, as a record; and the table of all of them.

A method is a generator `run(worker, settings)`. It does one step, yields that step's loss on this rank (None where the
rank sees none), and so on; when it ends, `worker.flat.weights` holds the trained weights of the whole model on every
rank. So the body of a method reads like its paper, and whoever drives it takes the time and counts the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, fields
from lockstep.base.registry import Registry
from lockstep.base.settings import described
from lockstep.base.types.plain import Json, picked

if TYPE_CHECKING:
    from lockstep.run.train.task import Task

Losses = Iterator[float | None]


@dataclass(frozen=True, slots=True)
class NoSettings:
    """For a method that has none."""


def _anything(task: Task, ranks: int, settings: object) -> None:
    """No condition of the method's own."""


@dataclass(frozen=True, slots=True)
class Method:
    """One way to train. `run` is described above."""

    name: str
    family: str
    summary: str
    source: str
    run: Callable[..., Losses] = field(repr=False)
    settings: type[Any] = NoSettings
    """A dataclass of `lockstep.base.settings`."""
    neutral: Mapping[str, object] | None = field(default_factory=dict)
    """The settings at which it is synchronous SGD; None where there are none."""
    models: tuple[str, ...] = ("mlp", "cnn", "gpt", "moe")
    helpers: int = 0
    """Ranks that do not train."""
    splits_batch: bool = True
    """Whether every worker takes its share of the batch, and not all of them the whole of it."""
    resumable: bool = True
    """Whether its state between two steps can be saved: not while messages or other processes carry it."""
    losses_everywhere: bool = True
    """Whether every rank that trains sees a loss, and not only those at the end of a pipeline."""
    replicas: bool = True
    """Whether all ranks end with the same bits."""
    check: Callable[[Task, int, Any], None] = field(default=_anything, repr=False)
    """Raises BadInput where the method cannot run the task on so many ranks."""
    assumptions: tuple[str, ...] = ()

    @property
    def rank_0_sees_losses(self) -> bool:
        """Whether rank 0 does, whatever the settings."""
        return self.losses_everywhere and not self.helpers

    @property
    def setting_names(self) -> tuple[str, ...]:
        """Names of its settings."""
        return tuple(one.name for one in fields(self.settings))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {
            **picked(self, "name family summary source"),
            "settings": described(self.settings),
            **picked(self, "neutral models"),
        }

    def refuse_saving(self) -> None:
        """Raises BadInput where a run cannot be saved."""
        if not self.resumable:
            raise BadInput(f"{self.name} has no state between two steps that could be saved", "--checkpoint")

    def refuse(self, task: Task, ranks: int, settings: object) -> None:
        """Raises BadInput where the method cannot run the task."""
        if task.model not in self.models:
            raise BadInput(f"{self.name} trains {', '.join(self.models)}, not {task.model}", "--model")
        if ranks <= self.helpers:
            raise BadInput(f"{self.name} needs at least {self.helpers + 1} ranks, got {ranks}", "--ranks")
        if self.splits_batch:
            task.share(ranks - self.helpers)
        self.check(task, ranks, settings)


METHODS = Registry("training method", "lockstep.methods", Method)
register = METHODS.register


def all_methods() -> tuple[Method, ...]:
    """All methods, in the order of registration, then those of other packages."""
    return METHODS.every()


def find_method(name: str, where: str | None = "METHOD") -> Method:
    """The method called `name`. Raises UnknownName, and BadInput for one that its package cannot give."""
    return METHODS.get(name, where)
