"""Recipes by their options and the habits of their software, in one list of words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lockstep.describe.stacks import DEFAULT, Habits, Stack, find_way, stack
from lockstep.describe.stacks.ways import usual_ways
from lockstep.price.layout import Recipe

PLAIN = replace(stack(DEFAULT), habits=Habits(), ways=usual_ways(), switches={})
"""A software without habits of its own."""
WRITTEN = {"norm": "written", "norm_weight": "written", "rotary": "written"}
"""Slots of transformers' models in PyTorch's operations."""


def counted(slot: str, name: str) -> tuple[float, float, float, float]:
    """Passes of a way forward and backward, and kernels of either."""
    found = find_way(slot, name)
    return *found.passes, *found.kernels


def norm_written() -> tuple[float, float, float, float]:
    """The same of a norm in PyTorch's operations, its weight's gradient included."""
    both = zip(counted("norm", "written"), counted("norm_weight", "written"), strict=True)
    forward, backward, there, back = (one + other for one, other in both)
    return forward, backward, there, back


def head_passes(name: str, samples: int) -> tuple[float, float]:
    """Passes over queries of copies around attention, with keys and values as wide, forward and backward."""
    found = find_way("heads", name)
    several = ["queries_together", "keys_together"] if samples > 1 else []
    parts = [(found.parts[part], 2 if "keys" in part else 1) for part in ("keys", *several) if part in found.parts]
    forward, backward = (found.passes[side] + sum(one.passes[side] * wide for one, wide in parts) for side in (0, 1))
    return forward, backward


def recipe_by(software: str | Stack = PLAIN, **words: Any) -> Recipe:
    """The recipe of a software, with other options, ways and habits."""
    return Recipe.by(words.pop("stack", software), **words)
