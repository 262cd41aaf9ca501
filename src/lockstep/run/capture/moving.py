"""Tensors that take the place of others, as those of a module do when it moves to the card."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch._subclasses.fake_tensor import FakeTensor

REMEMBERED = ("known", "known_truth")
"""What this package knows of a tensor's values."""


def set_data(one: torch.Tensor, made: torch.Tensor) -> None:
    """`tensor.data = ...`: one of another device takes its place, as PyTorch's own code lets it on real devices."""
    if one.device == made.device:
        torch.Tensor.data.__set__(one, made)  # type: ignore[attr-defined]
        return
    with torch.no_grad():
        other = made.detach()
        other = torch.nn.Parameter(other, one.requires_grad) if isinstance(one, torch.nn.Parameter) else other
    torch.utils.swap_tensors(one, other)


def swapping(old: Callable[..., None]) -> Callable[..., None]:
    """Tensors that change places are forgotten by the memory of the fake mode.

    Whoever else refers to one, weakly or by a view of it, does not forbid it, as where PyTorch changes its data. What a
    program has marked one with stays.
    """
    vars(torch.utils)["weakref"] = SimpleNamespace(getweakrefs=lambda one: [])
    FakeTensor._use_count = lambda one: 1  # type: ignore[attr-defined]

    def forget(one: torch.Tensor) -> None:
        if not isinstance(one, FakeTensor):
            return
        converter, kept = one.fake_mode.fake_tensor_converter, weakref.getweakrefs(one)
        for known in kept:
            if isinstance(known, weakref.KeyedRef):
                converter.meta_converter.tensor_memo.pop(known.key, None)
        if any(type(known) is weakref.ref for known in kept):
            # One that was made of numbers (`torch.tensor(0.5)`).
            for those in converter.constant_storage_mapping.values():
                those[:] = [known for known in those if known() is not one]

    def swap(one: torch.Tensor, other: torch.Tensor) -> None:
        forget(one)
        forget(other)
        marks = {name: mark for name, mark in vars(one).items() if name not in (*vars(other), *REMEMBERED)}
        old(one, other)
        vars(one).update(marks)

    return swap
