"""`Study`: a published training run as data: what was trained on what, what was printed about it, what is not known.

A run is one or more stretches with one batch, sequence length and layout each: a batch that grows, a second phase with
longer sequences, other numbers of devices. What a source does not print is `None` here and chosen by the planner, or
assumed, and then said in `assumed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockstep.base.records import dataclass
from lockstep.describe.workload import Model
from lockstep.price.layout import Recipe

QUANTITIES = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "mfu_frac",
    "hfu_frac",
    "model_flops_per_gpu_per_s",
    "goodput_frac",
    "days",
    "gpu_hours",
)
CONFIGURATIONS = PUBLIC, PARTLY, PLANNED = ("public", "partly public", "planner's choice")
"""All of it published; something assumed or chosen; no layout known, so the planner's best stands in for it."""
DURATIONS = ("days", "gpu_hours")
"""Quantities of the whole run; the others are of one stretch."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """A batch that grows from `start` by `by` sequences at a time to that of the stretch, in equal shares of tokens."""

    start: int
    by: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run in which nothing but a ramped batch changes."""

    name: str
    recipe: Recipe
    devices: int
    layout: Mapping[str, Any]
    """Words of `Layout` that are published (or assumed)."""
    chosen: tuple[str, ...]
    """Words that are not known, so the planner chooses; all of them when `layout` is empty."""
    tokens: float | None
    """Tokens (images) of the stretch; None where the source does not say."""
    ramp: Ramp | None = None
    apart: bool = False
    """A benchmark beside the run: its step counts, its length is no part of the run."""


@dataclass(frozen=True, slots=True)
class Published:
    """A number that a source prints."""

    quantity: str
    value: float
    source: str
    stretch: str
    """The stretch it is about; "" for the whole run."""
    downtime: bool = False
    """Whether failures and restarts are in it."""
    why: str = ""
    """Why the prediction misses it."""


@dataclass(frozen=True, slots=True)
class Study:
    """A published run."""

    name: str
    title: str
    model: Model
    cluster: str
    stretches: tuple[Stretch, ...]
    published: tuple[Published, ...]
    source: str
    """Where the configuration is published."""
    pace: str = ""
    """A study of the same software and devices: kernels are as much slower than predicted as they were there."""
    unknown: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def configuration(self) -> str:
        """One of CONFIGURATIONS."""
        if any(not stretch.layout for stretch in self.stretches):
            return PLANNED
        chosen = any(stretch.chosen for stretch in self.stretches)
        return PARTLY if chosen or self.assumed else PUBLIC
