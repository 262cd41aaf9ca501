"""What runs on the processor as it is, with values: data, files of weights, meshes of ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map

from lockstep.run.capture.cuda import SEEN
from lockstep.run.capture.known import value


class Real:
    """How deep the program is in what runs so."""

    depth = 0


def really(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs on the processor as it is, with values."""

    @wraps(function)
    def run(*args: Any, **words: Any) -> Any:
        Real.depth += 1
        try:
            with _disable_current_modes(), unset_fake_temporarily():
                return function(*args, **words)
        finally:
            Real.depth -= 1

    return run


def with_values(one: Any) -> Any:
    """An argument of what runs so: data that was made before as it is, where its values are known."""
    found = value(one) if isinstance(one, FakeTensor) and one.fake_device.type == "cpu" else None
    return one if found is None else found


def is_without(one: Any) -> bool:
    """Whether an argument has no values, or is the card."""
    return isinstance(one, FakeTensor) or (isinstance(one, torch.device) and one.type not in ("cpu", "meta"))


def loading(old: Callable[..., Any], name: str, moved: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    """Files are read on the processor, and what is asked for on the card, or was saved there, is moved."""
    read = really(old)

    def load(file: Any, map_location: Any = None, *args: Any, **words: Any) -> Any:
        places = [] if map_location is None else [str(map_location)]

        def kept(storage: Any, place: str) -> Any:
            places.append(place)
            return storage

        loaded = read(file, kept, *args, **words)
        if callable(map_location) or not places or not places[0].startswith((SEEN, name)):
            return loaded
        return tree_map(lambda one: moved(one) if isinstance(one, torch.Tensor) else one, loaded)

    return load


def listed(one: torch.Tensor, at: Any) -> Any:
    """An index with tensors in place of lists, which PyTorch would make on the card by itself."""
    if type(at) is tuple:
        return tuple(listed(one, each) for each in at)
    if type(at) is not list or not isinstance(one, FakeTensor):
        return at
    return torch.tensor(at, device="cpu").to(one.fake_device)


def data_is_real() -> None:
    """Data is read, shuffled and put together on the processor as it is."""
    from torch.utils.data import DataLoader, dataloader

    made, following = DataLoader.__init__, dataloader._BaseDataLoaderIter.__next__

    @wraps(made)  # Lightning makes loaders again, by the names of their arguments.
    def alone(self: Any, *args: Any, **words: Any) -> None:
        words |= {"num_workers": 0, "pin_memory": False}
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            words.pop(name, None)
        made(self, *args, **words)

    DataLoader.__init__, DataLoader.__iter__ = alone, really(DataLoader.__iter__)  # type: ignore[method-assign]
    dataloader._BaseDataLoaderIter.__next__ = really(following)  # type: ignore[method-assign]
