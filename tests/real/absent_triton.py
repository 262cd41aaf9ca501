"""Lets packages be imported that import Triton, which PyTorch has on GPUs alone; nothing of it may be run.

What PyTorch itself imports of Triton is imported first, so that it goes on without.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any
from unittest.mock import MagicMock

import torch._functorch.partitioners
import torch._inductor.runtime.triton_compat
import torch.nn.attention.flex_attention  # noqa: F401


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for every name of the package."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A module of this loader."""
        named = name.partition(".")[0] == "triton"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if named else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """Anything by any name; what is decorated stays as it is."""
        made = MagicMock(name=spec.name, __path__=[], __all__=[], __version__="0")
        made.jit = lambda function=None, **_: function or (lambda inner: inner)
        return made

    def exec_module(self, module: Any) -> None:
        """Nothing runs."""


if importlib.util.find_spec("triton") is None:
    sys.meta_path.append(Absent())
