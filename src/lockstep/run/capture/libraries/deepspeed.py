"""DeepSpeed: told which accelerator there is, as it would look for a compiler of kernels; ranks agree with one another.

Source: DeepSpeed 0.19.3, accelerator/real_accelerator.py, ops/op_builder, runtime/zero/utils.py.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

AGREE = "deepspeed.runtime.zero.utils", "assert_ints_same_as_other_ranks"
"""Sends numbers of the first rank to the others in the first step, and compares."""


class After(importlib.abc.MetaPathFinder):
    """Changes a module when a program has imported it."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self.name, self.change = name, change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's own, once, with the change behind it."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is not None and found.loader is not None:
            run, change = found.loader.exec_module, self.change

            def executed(module: ModuleType) -> None:
                run(module)
                change(module)

            found.loader.exec_module = executed  # type: ignore[method-assign]
        return found


def prepare(notes: list[str]) -> None:
    """Its own variables, and a comparison less."""
    os.environ |= {"DS_ACCELERATOR": "cuda", "DS_IGNORE_CUDA_DETECTION": "1"}
    name, function = AGREE
    sys.meta_path.insert(0, After(name, lambda module: setattr(module, function, lambda ints: None)))
