"""Values that the program asks for and that do not exist: what it is told, and where it asked.

Numbers are 1 and truths are true, but once in OFTEN at one place, so that loops which wait for a false one end, and
where a program or a library looks for a number that is not finite (`truths.py`, OVERFLOWS), as with it they would leave
the update out. Which way a program goes may depend on it, so every place is kept and shown, and
`--answer train.py:120=0` overrides.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

import lockstep
from lockstep.base.records import dataclass, field
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
        said = self.given.get(place(), "1")
        self.asked[place(), "array", said] += 1
        kind = {torch.bool: np.bool_, torch.float32: np.float32, torch.float64: np.float64}.get(one.dtype)
        return np.full(tuple(one.shape), float(said), np.int64 if kind is None else kind)

    def size(self) -> int | None:
        """How many rows an operation of the program gives, whose number depends on weights, where the user says it."""
        where = place()
        if where not in self.given:
            return None
        self.asked[where, "size", self.given[where]] += 1
        return int(self.given[where])

    def list(self, one: torch.Tensor) -> Any:
        """The same as a list."""
        return self.noticed(one, lambda: self.array(one.detach()).tolist())

    def item(self, one: torch.Tensor) -> Any:
        """The value of a tensor of one element."""
        return self.noticed(one, one.item)

    def noticed(self, one: torch.Tensor, ask: Callable[[], Any]) -> Any:
        """What is asked for; whole numbers that were told know where."""
        before = self.asked.total()
        found = ask()
        told = self.asked.total() > before and not one.is_floating_point() and one.dtype != torch.bool
        return _marked(found, place()) if told and place() not in self.given else found


class Told(int):
    """A whole number that depends on weights and that the program was told, also after sums and products."""

    place = ""
    """Where it was asked for."""


def _marked(one: Any, where: str) -> Any:
    if isinstance(one, list):
        return [_marked(each, where) for each in one]
    made = Told(one)
    made.place = where
    return made


def _follows(name: str) -> Callable[..., Any]:
    operation = getattr(int, name)

    def run(self: Told, *others: Any) -> Any:
        found = operation(self, *others)
        return _marked(found, self.place) if type(found) is int else found

    return run


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "neg"):
    setattr(Told, f"__{_name}__", _follows(f"__{_name}__"))

_SIZED = """
zeros ones empty rand randn arange eye new_zeros new_ones new_empty view reshape expand repeat repeat_interleave tile
narrow split chunk unflatten topk pad one_hot interpolate
"""
SIZED = frozenset(_SIZED.split())
LISTED = SIZED | {"full", "new_full", "randint"}
"""Functions of PyTorch whose whole numbers are sizes, and whose lists of them are."""


class SizeTold(Exception):
    """A size that depends on weights."""


def no_told_size(name: str, args: Any) -> None:
    """Looks at what a function of PyTorch is called with. Raises SizeTold for a size that the program was told."""
    for one in args:
        kind = type(one)
        if kind is slice:
            no_told_size("arange", (one.start, one.stop))
        elif kind is Told and name in SIZED:
            raise SizeTold(
                f"what was asked for at {one.place} depends on weights and is used as a size: give a fixed one, or say "
                f"which it is with --answer {one.place}=NUMBER"
            )
        elif kind is tuple or (kind is list and name in LISTED):
            no_told_size("arange" if name in LISTED else name, one)


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
