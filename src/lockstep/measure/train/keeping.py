"""`Kept`: something a rank must remember to go on as if it had never stopped, to and from the parts of a checkpoint.

What is read and written is nested: tuples, lists and dicts of tensors and plain values. The tensors become arrays
NAME.0, NAME.1, ...; the nest around them, with the plain values, a line of JSON in an array NAME.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.measure.checkpoint import OWN, REPLICATED, SHARDED, Checkpoint, Part
from lockstep.store.files import canonical

if TYPE_CHECKING:
    from torch import Tensor


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


def _together(nest: Any, tensor: Callable[[int], Tensor]) -> Any:
    """The nest with its tensors."""
    if isinstance(nest, list):
        parts = [_together(part, tensor) for part in nest[1:]]
        return tuple(parts) if nest[0] == "tuple" else parts
    if isinstance(nest, dict):
        if "tensor" in nest:
            return tensor(nest["tensor"])
        return {name: _together(part, tensor) for name, part in nest["dict"].items()}
    return nest
