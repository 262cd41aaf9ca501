"""Models for real training: each is an `nn.Sequential` of pieces, so that a pipeline can be cut between any two.

A model is a file with `build(layers, classes) -> Sequential`; torch is needed to build it, not to list it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockstep.errors import UnknownName
from lockstep.measure.train.data import Data, characters, digits

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Model:
    """A model and the data it learns."""

    name: str
    summary: str
    data: Callable[[], Data]
    module: str
    learning_rate: float
    """Default for the default optimizer: assumed, found by trying."""

    def build(self, layers: int, classes: int) -> nn.Sequential:
        """The model with torch's current random numbers as weights."""
        made: nn.Sequential = import_module(f"{__name__}.{self.module}").build(layers, classes)
        return made


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("mlp", "residual MLP on digits", digits, "mlp", 0.1),
        Model("cnn", "small CNN on digits", digits, "cnn", 0.1),
        Model("gpt", "tiny GPT on the characters of a book", characters, "gpt", 0.5),
        Model("moe", "MLP with a layer of experts on digits", digits, "moe", 0.1),
    )
}


def get_model(name: str, where: str | None = "--model") -> Model:
    """The model called `name`. Raises UnknownName."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS, where)
    return MODELS[name]


def split_linears(piece: Any) -> dict[str, str]:
    """Submodules of a piece where tensor parallelism acts; empty where it does not.

    `column` and `row` are linear layers to split; behind `enter` lies a region where every rank computes its part.
    """
    found: dict[str, str] = getattr(piece, "SPLIT", {})
    return found
