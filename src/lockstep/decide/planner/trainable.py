"""`Trainable`: the largest models that a machine trains, and what the next larger ones need."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.decide.planner.uncounted import ALWAYS
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Transformer
from lockstep.price.layout import Layout, Recipe
from lockstep.price.layout.risk import SAFE_RISK_FRAC


@dataclass(frozen=True, slots=True)
class Method:
    """A way of training."""

    name: str
    words: Mapping[str, str]
    """Keywords of the command line that select it."""
    recipe: Recipe

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """What it needs or does that is not counted."""
        asked = self.recipe
        return asked.objective.elsewhere

    def takes(self, model: Transformer) -> bool:
        """Whether its adapters can be put on a model."""
        asked = self.recipe
        try:
            asked.adapters_on(model)
        except BadInput:
            return False
        return True

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return {"name": self.name, **self.words, "not_counted": [*self.elsewhere, *ALWAYS]}


@dataclass(frozen=True, slots=True)
class Fit:
    """The largest model of a family that a method trains, with its fastest layout that has memory to spare."""

    model: str
    parameters: int
    layout: Layout
    memory_B: float
    out_of_memory_frac: float
    """Probability of running out of memory."""
    step_time_s: float
    tokens_per_s: float
    time_s: float
    """Of all epochs of the data set."""
    cost_usd: float | None
    words: Json
    """Keywords of `memory` that ask for this alone."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, without="words") | {"command": self.command}

    @property
    def command(self) -> str:
        """The command line that asks for this alone."""
        return command(self.words)


@dataclass(frozen=True, slots=True)
class Larger:
    """The next larger model of a family, which does not fit, and what would let it fit."""

    model: str
    parameters: int
    memory_B: float
    """Of the layout that needs least."""
    tight: bool
    """Whether it fits as long as it needs no more than predicted."""
    changes: tuple[str, ...]
    """The fewest that let it fit, as on the command line; none where those that are tried do not."""
    machine: str | None
    """The cheapest machine of the catalog with as many devices on which it fits without changes."""
    words: Json | None
    """Keywords of `memory` with these changes."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, without="words") | {"command": None if self.words is None else command(self.words)}


@dataclass(frozen=True, slots=True)
class Row:
    """What is trained of a family by a method."""

    family: str
    method: str
    fit: Fit | None
    """None where no model of the family fits."""
    larger: Larger | None
    """None where the largest of the family fits, or no layout is possible."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@dataclass(frozen=True, slots=True, repr=False)
class Trainable(Shown):
    """What a machine trains."""

    cluster: Cluster
    methods: tuple[Method, ...]
    data: Json
    """The data set: `samples` and `epochs`, and `sample_tokens`, their mean length."""
    rows: tuple[Row, ...]
    """Methods in order, and within each families by name."""

    @property
    def fits(self) -> bool:
        """Whether any model does."""
        return any(row.fit is not None for row in self.rows)

    @property
    def most_risk_frac(self) -> float:
        """Probability of running out of memory up to which a model fits."""
        return SAFE_RISK_FRAC

    def of(self, method: Method) -> list[Row]:
        """The rows of one method, the largest model first, those without a model last."""
        rows = [row for row in self.rows if row.method == method.name]
        return sorted(rows, key=lambda row: (-row.fit.parameters if row.fit else 1, row.family))

    def to_dict(self) -> Json:
        """Plain JSON form."""
        first = self.methods[0].recipe
        return {
            "cluster": self.cluster.name,
            "gpus": self.cluster.num_devices,
            "capacity_B": self.cluster.device.memory_B,
            "most_risk_frac": self.most_risk_frac,
            "stack": first.software.name,
            "seq": first.seq,
            "batch": first.batch,
            **self.data,
            "largest": {one.name: None if (fit := self.of(one)[0].fit) is None else fit.model for one in self.methods},
            "rows": [row.to_dict() for row in self.rows],
            "methods": [one.to_dict() for one in self.methods],
        }


def command(words: Json) -> str:
    """The command line of `memory` that asks for `words`."""
    parts = ["lockstep", "memory", str(words["model"])]
    for name, value in words.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping):  # A stack from a file, or ways.
            pairs = ",".join(f"{key}={one}" for key, one in value.items())
            parts += [flag, f"{value['name']}.toml" if "name" in value else pairs]
        elif isinstance(value, bool):
            parts.append(flag if value else flag.replace("--", "--no-", 1))
        elif name != "model":
            parts += [flag, str(value)]
    return shlex.join(parts)
