"""torch.compile: its functions run as they are written, which is said; what is nothing without it is refused.

Source: pytorch v2.13.0, torch/nn/attention/flex_attention.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from lockstep.run.capture.libraries.deepspeed import After

FLEX = "torch.nn.attention.flex_attention"


class Uncompiled(Exception):
    """What is asked for is made by a compiler."""


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
    sys.meta_path.insert(0, After(FLEX, _refused))
    if FLEX in sys.modules:
        _refused(sys.modules[FLEX])
    torch.nn.Module.compile = module_compiled  # type: ignore[method-assign]


def _refused(module: ModuleType) -> None:
    def flex(*args: Any, **words: Any) -> Any:
        raise Uncompiled("flex_attention is a kernel that torch.compile writes: use scaled_dot_product_attention")

    vars(module)["flex_attention"] = flex
