"""torch.compile: its functions run as they are written, which is said of those that run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

NOTE = "torch.compile: captured as eager operations; what a compiler fuses is not held in memory"


def prepare(notes: list[str]) -> None:
    """Functions and modules that are compiled stay what they are."""

    def said() -> None:
        if NOTE not in notes:
            notes.append(NOTE)

    def compiled(model: Any = None, **words: Any) -> Any:
        if model is None:
            return lambda function: compiled(function)
        if isinstance(model, torch.nn.Module):
            said()
            return model

        @wraps(model)
        def run(*args: Any, **words: Any) -> Any:
            said()
            return model(*args, **words)

        return run

    def module_compiled(self: Any, *args: Any, **words: Any) -> None:
        said()

    replaced: Callable[..., Any] = compiled
    torch.compile = replaced
    torch.nn.Module.compile = module_compiled  # type: ignore[method-assign]
