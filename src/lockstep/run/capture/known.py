"""Values of data: whole numbers that are not too many, a few others, and what is computed from them alone.

They are kept on the card too. Sizes come from them: how many tokens a mask leaves, whether a batch has padding, where
packed sequences begin.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

from lockstep.run.capture.truths import truth

MOST, FEW = 1 << 18, 1 << 6
"""Elements of a tensor up to which its values are kept: of whole numbers, and of others."""
DRAWS = frozenset(("rand", "randn", "randint", "randperm", "arange", "zeros", "ones", "full", "scalar_tensor"))
"""What makes tensors of nothing."""
LIKE = frozenset(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"))
"""What makes them of the shape or the format of another one, whatever is in it."""
SIZED = frozenset(
    ("nonzero", "_unique2", "unique_dim", "unique_consecutive", "bincount", "repeat_interleave", "masked_select")
)
"""What gives tensors whose size depends on values."""
ANSWERED = SIZED - {"unique_dim", "unique_consecutive"}
"""Of these, what has as many rows as an answer says."""
INDEXED = frozenset(("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"))


def value(one: torch.Tensor) -> torch.Tensor | None:
    """The values of a tensor, on the processor, where they are known."""
    if not isinstance(one, FakeTensor):
        return one if type(one) is torch.Tensor and one.device.type == "cpu" and one.numel() <= MOST else None
    found, count = getattr(one, "known", (None, [0]))
    if found is not None and count[0] == _version(one):
        return found  # type: ignore[no-any-return]
    if one.constant is not None:
        return one.constant
    same = truth(one) if one.dtype == torch.bool and one.numel() <= MOST and not _version(one) else None
    if same is None:
        return None
    with no_dispatch():
        return torch.full(tuple(one.shape), same)


def know(one: torch.Tensor, found: torch.Tensor, count: list[int] | None = None) -> None:
    """Keeps the values of a tensor as of a count of its changes, which it shares with its views as PyTorch's own."""
    one.known = found, [_version(one)] if count is None else count  # type: ignore[attr-defined]


def _own(one: Any, found: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The values that views of a tensor share with it, and their count."""
    if getattr(one, "known", (None,))[0] is not found:
        know(one, _copy(found))
    return one.known  # type: ignore[no-any-return]


def _copy(real: torch.Tensor) -> torch.Tensor:
    with no_dispatch():
        return real.clone()


def forget(one: torch.Tensor) -> None:
    """Of a tensor that other ranks change."""
    if isinstance(one, FakeTensor):
        one.constant = None
        _doubt(one)


def _doubt(one: torch.Tensor) -> None:
    """The values of a tensor, and of its views, are not known any more."""
    getattr(one, "known", (None, [0]))[1][0] = -1
    one.known = None, [0]  # type: ignore[attr-defined]


def _version(one: torch.Tensor) -> int:
    return 0 if one.is_inference() else one._version


def _kept(one: Any) -> bool:
    return isinstance(one, FakeTensor) and one.numel() <= (FEW if one.is_floating_point() else MOST)


class Unknown(Exception):
    """Of a value."""


def _value(one: Any) -> Any:
    """What a kernel of the processor is called with. Raises Unknown."""
    if isinstance(one, torch.Tensor):
        found = value(one)
        if found is None:
            raise Unknown
        return found
    return torch.device("cpu") if isinstance(one, torch.device) else one


def computed(function: Any, args: Any, words: Any) -> Any:
    """What an operation gives, by the processor; None where what it reads is not known."""
    try:
        args, words = tree_map(_value, args), tree_map(_value, words)
        with no_dispatch():
            return function(*args, **words)
    except (Unknown, RuntimeError, NotImplementedError):
        return None


@cache
def _written(function: Any) -> tuple[int, ...]:
    """Which arguments an operation changes."""
    said = enumerate(function._schema.arguments)
    return tuple(at for at, one in said if one.alias_info is not None and one.alias_info.is_write)


def changes(function: Any, args: Any, words: Any) -> list[int] | None:
    """Changes the values of a tensor as an operation will; their count, or None where they are not known."""
    at = _written(function) if function._schema.is_mutable else ()
    first = args[at[0]] if len(at) == 1 and at[0] < len(args) else None
    known = value(first) if isinstance(first, FakeTensor) else None
    if known is None:
        return None
    real, count = _own(first, known)
    given = computed(function, (*args[: at[0]], real, *args[at[0] + 1 :]), words)
    return None if given is None else count


def remember(function: Any, args: Any, words: Any, given: Any, count: list[int] | None = None) -> None:
    """Keeps the values of what an operation gave; those of what it changed are known where these have a count."""
    if function._schema.is_mutable:
        for at in _written(function):
            for one in args[at] if at < len(args) and isinstance(args[at], list | tuple) else args[at : at + 1]:
                if not isinstance(one, FakeTensor):
                    continue
                if count is None:
                    _doubt(one)
                else:  # PyTorch counts the change when this has ended.
                    count[0] = _version(one) + 1
        return
    makes = [one for one in (given if isinstance(given, tuple | list) else (given,)) if _kept(one)]
    if makes and function._opname in LIKE and isinstance(args[0], FakeTensor):
        with no_dispatch():
            like = torch.empty(tuple(args[0].shape) if args[0].shape == makes[0].shape else 0, dtype=args[0].dtype)
        args = (like, *args[1:])
    first = args[0] if args else None
    draws = function._opname in DRAWS
    if not makes or not (draws or isinstance(first, torch.Tensor | tuple | list)):
        return
    known = value(first) if isinstance(first, torch.Tensor) else None
    if isinstance(first, FakeTensor) and known is None:
        return
    shared = _own(first, known)[1] if known is not None and _is_view(function) and first is not known else None
    found = computed(function, args, words)
    values = found if isinstance(found, tuple | list) else (found,)
    for one, real in zip(given if isinstance(given, tuple | list) else (given,), values, strict=False):
        if _kept(one) and isinstance(real, torch.Tensor) and real.shape == one.shape:
            know(one, _copy(real) if first is known and _is_view(function) else real, shared)


@cache
def _is_view(function: Any) -> bool:
    """Whether an operation gives its first argument's bytes."""
    said = function._schema
    return bool(said.returns and said.arguments and said.returns[0].alias_info and said.arguments[0].alias_info)


def sized(function: Any, args: Any, words: Any, rows: Callable[[], int | None]) -> Any:
    """What an operation gives whose size depends on values: those that are known, or `rows`; None of others."""
    if function._opname not in SIZED:
        return None
    found = computed(function, args, words)
    if found is not None:
        return tree_map(lambda one: _like(one, args[0]), found)
    least = args[2] if function._opname == "bincount" and len(args) > 2 else 0
    count = rows() or least  # What is counted in so many classes is of one of these.
    return _of_rows(function._opname, args[0], count) if count else None


def _of_rows(name: str, one: torch.Tensor, count: int) -> Any:
    """What an operation gives, of so many rows and without values; None of operations that have no such rule."""
    shapes = {"nonzero": (count, one.dim()), "bincount": (count,), "repeat_interleave": (count,)}
    if name == "masked_select":
        return one.new_empty(count)
    if name == "_unique2":
        return one.new_empty(count), *(one.new_empty(size, dtype=torch.int64) for size in (one.shape, (count,)))
    return one.new_empty(shapes[name], dtype=torch.int64) if name in shapes else None


def _like(real: Any, read: torch.Tensor) -> Any:
    """A tensor where another one is, with values that are known."""
    if not isinstance(real, torch.Tensor):
        return real
    made = torch.empty(real.shape, dtype=real.dtype, device=getattr(read, "fake_device", read.device))
    know(made, real)
    return made


def indexed(function: Any, args: Any, rows: Callable[[], int | None]) -> Any:
    """Arguments of an operation with indices for masks that are known or have `rows`, as a GPU makes them."""
    if function._opname not in INDEXED:
        return args
    indices: list[Any] = []
    for one in args[1]:
        mask = isinstance(one, torch.Tensor) and one.dtype == torch.bool
        found = sized(torch.ops.aten.nonzero.default, (one,), {}, partial(_rows, one, rows)) if mask else None
        indices += [one] if found is None else found.unbind(1)
    return (args[0], indices, *args[2:])


def _rows(mask: Any, rows: Callable[[], int | None]) -> int | None:
    """Of a mask, as was said where it was used first, as the backward pass has no line that says it."""
    mask.rows = getattr(mask, "rows", None) or rows()
    return mask.rows  # type: ignore[no-any-return]
