"""torch.compile: its functions run as they are written, which is said of those that run; what is nothing without it is
refused.

Source: pytorch v2.13.0, torch/nn/attention/flex_attention.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from lockstep.run.capture.libraries.after import After

FLEX = "torch.nn.attention.flex_attention"
NOTE = "torch.compile: captured as eager operations; what a compiler fuses is not held in memory"


class Uncompiled(Exception):
    """What is asked for is made by a compiler."""


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
            vars(model)["_orig_mod"] = model  # Not one of its modules.
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
    sys.meta_path.insert(0, After(FLEX, _refused))
    if FLEX in sys.modules:
        _refused(sys.modules[FLEX])


def _refused(module: ModuleType) -> None:
    def flex(*args: Any, **words: Any) -> Any:
        raise Uncompiled("flex_attention is a kernel that torch.compile writes: use scaled_dot_product_attention")

    vars(module).update(flex_attention=flex, create_block_mask=flex)
