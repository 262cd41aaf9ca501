"""safetensors: of weights in files there are shapes, and no bytes are read; its own reader is code on real bytes.

Source: safetensors 0.8.0, py_src/safetensors/__init__.pyi (safe_open, PySafeSlice).
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

OTHERS = {"BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
KINDS = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint"}
"""Formats by their letters, before their bits."""


def format_of(name: str) -> torch.dtype:
    """PyTorch's format of that name in a file."""
    letters = name.rstrip("0123456789")
    found: torch.dtype = OTHERS[name] if name in OTHERS else getattr(torch, KINDS[letters] + name[len(letters) :])
    return found


class Part:
    """A tensor in a file, which may be read in parts."""

    def __init__(self, found: Any, device: Any) -> None:
        self.found, self.device = found, device
        self.get_shape, self.get_dtype = found.get_shape, found.get_dtype

    def __getitem__(self, index: Any) -> torch.Tensor:
        return torch.empty(self.get_shape(), dtype=format_of(self.get_dtype()), device=self.device)[index]


def prepare(notes: list[str]) -> None:
    """Files are opened, and what is read of them has no bytes."""
    if importlib.util.find_spec("safetensors") is None:
        return
    module = importlib.import_module("safetensors")
    reader = module.safe_open

    class Opened:
        """An open file."""

        def __init__(self, path: Any, framework: str = "pt", device: Any = "cpu", **words: Any) -> None:
            self.file, self.device = reader(path, framework, "cpu", **words), device

        def __enter__(self) -> Opened:
            self.file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self.file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def get_slice(self, name: str) -> Part:
            """A tensor, of which parts may be read."""
            return Part(self.file.get_slice(name), self.device)

        def get_tensor(self, name: str) -> torch.Tensor:
            """A tensor."""
            return self.get_slice(name)[...]

    vars(module)["safe_open"] = Opened
