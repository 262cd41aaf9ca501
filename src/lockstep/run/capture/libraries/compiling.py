"""torch.compile: its functions run as they are written, which is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

NOTE = "torch.compile: captured as eager operations; what a compiler fuses is not held in memory"


def prepare(notes: list[str]) -> None:
    """Functions that are compiled stay what they are."""

    def compiled(model: Any = None, **words: Any) -> Any:
        if NOTE not in notes:
            notes.append(NOTE)
        if model is None:
            return lambda function: function
        return model

    def module_compiled(self: Any, *args: Any, **words: Any) -> None:
        compiled(self)

    replaced: Callable[..., Any] = compiled
    torch.compile = replaced
    torch.nn.Module.compile = module_compiled  # type: ignore[method-assign]
