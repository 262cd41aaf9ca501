"""Values that the program asks for and that do not exist: what it is told, and where it asked.

Numbers are 1 and truths are true, but once in OFTEN at one place, so that loops which wait for a false one end, and
where a program or a library looks for a number that is not finite (`truths.py`, OVERFLOWS), as with it they would leave
the update out. Which way a program goes may depend on it, so every place is kept and shown, and
`--answer train.py:120=0` overrides.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

import lockstep
from lockstep.run.capture.known import value
from lockstep.run.capture.truths import truth

OFTEN = 64
ASKED = ("aten._local_scalar_dense.default", "aten.is_nonzero.default", "aten.equal.default")
OVERFLOWS = ("_maybe_opt_step", "has_overflow", "has_overflow_serial")
"""Functions of torch.amp.GradScaler and DeepSpeed."""
LIBRARIES = tuple(f"{Path(one.__file__ or '').parent}/" for one in (torch, lockstep))
"""Where PyTorch's own code is, and this."""


@dataclass
class Values:
    """The answers of a run."""

    given: Mapping[str, str] = field(default_factory=dict)
    """Answers by place, `file.py:120`, that the user gives."""
    asked: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often each place, kind and answer."""

    def __call__(self, function: Any, args: tuple[Any, ...]) -> Any:
        """The answer to an operation that asks for a value; NotImplemented for others."""
        if str(function) not in ASKED:
            return NotImplemented
        one = args[0]
        if len(args) == 1 and truth(one) is None and (known := value(one)) is not None:
            with no_dispatch():
                return known.item()
        asks_truth = str(function) != ASKED[0] or one.dtype == torch.bool
        kind = bool if asks_truth else float if one.dtype.is_floating_point else int
        return self.told(kind, truth(one) if len(args) == 1 else None)

    def told(self, kind: type, known: bool | None = None) -> Any:
        """The answer of a kind at the place that asks, where it is not known."""
        where = place()
        times = sum(count for (at, _, _), count in self.asked.items() if at == where)
        often = kind(1) if kind is not bool else (times + 1) % OFTEN != 0
        answer = kind(known) if known is not None else kind(0) if _overflows() else often
        if where in self.given:
            text = self.given[where]
            answer = text.lower() in ("true", "1", "yes") if kind is bool else kind(float(text))
        self.asked[where, kind.__name__, str(answer)] += 1
        return answer

    def array(self, one: torch.Tensor, **words: Any) -> Any:
        """A tensor's values as an array: ones where there are none."""
        known = value(one) if isinstance(one, FakeTensor) else one
        if known is not None:
            with no_dispatch():
                return torch.Tensor.numpy(known, **words)
        self.asked[place(), "array", "1"] += 1
        kind = {torch.bool: np.bool_, torch.float32: np.float32, torch.float64: np.float64}.get(one.dtype)
        return np.ones(tuple(one.shape), np.int64 if kind is None else kind)

    def list(self, one: torch.Tensor) -> Any:
        """The same as a list."""
        return self.array(one.detach()).tolist()


def _overflows() -> bool:
    """Whether PyTorch or the caller at the place that asks looks for gradients that are not finite: there are none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in OVERFLOWS:
            return True
        if is_program(frame.f_code.co_filename):
            return False
        frame = frame.f_back
    return False


def is_program(file: str) -> bool:
    """Whether a file of code is the program's, or of a library that it uses."""
    return not file.startswith((*LIBRARIES, "<"))


def place() -> str:
    """File and line of the program that the current call comes from: outside PyTorch."""
    frame: FrameType | None = sys._getframe(1)
    last = ""
    while frame is not None:
        file = frame.f_code.co_filename
        last = f"{Path(file).name}:{frame.f_lineno}"
        if is_program(file):
            return last
        frame = frame.f_back
    return last
