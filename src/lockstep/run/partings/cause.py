"""What the first difference between two runs looks like: rounding, other data, other draws, another start.

The same mathematics in another order of additions differs by rounding, some units of the last place of what was added.
Other samples, or other inputs dropped, change a gradient by about its size, and so the update of a weight by about the
update. Other initial weights differ by their size before anything is learned. Between these lie decades, so a ratio
tells them apart; what lies between the bounds below is said to be unclear.

Source: D. Goldberg, "What every computer scientist should know about floating-point arithmetic", ACM Computing Surveys
23 (1991), section 1.4; for the sizes `tests/measure/reproduce/test_partings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.run.partings.record import DATA, SETTING, STATE, Record, kind_of

ROUNDED_UNITS = 256.0
"""Units of the last place up to which a loss or a gradient differs by rounding; a weight that was stored by one."""
ROUNDED_FRAC, OTHER_FRAC = 0.02, 0.1
"""Of the update: up to the first a difference is rounding, from the second on another gradient."""
LOGGED_FRAC = 1e-3
"""Of a loss: from here on other samples, where no update is kept."""
START_FRAC = 0.3
"""Of the weights: from here on another start."""
CAUSES = {
    "none": "the same bits throughout",
    "dtype": "another number format",
    "data-order": "the order of the data: the same samples, at other steps",
    "data": "other data",
    "setting": "another setting",
    "seed": "the seed of the weights: they differ by their own size before anything was learned",
    "summation": "the order of summation: a difference of the size of rounding, as from another number of ranks, "
    "another collective or kernel, or atomic additions",
    "dropout": "random draws of the model, such as dropout: data and weights were the same",
    "model-seed": "a seed of the model, of its first weights or of dropout: the data are the same",
    "draws": "other samples or other random draws: the order of the data, or a seed; digests of batches beside the "
    "losses, and the weights before the first step, would tell which",
    "unclear": "unclear: larger than rounding and smaller than other samples make it, as after some steps between the "
    "first different bit and the first record",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an array of one run is from that of the other."""

    name: str
    kind: str
    largest: float
    of_size_frac: float
    """Root mean square of the difference over that of the first run's array."""
    differing_frac: float
    """Share of entries that differ."""


def rms(array: Array) -> float:
    """Root of the mean square; 0 of nothing."""
    return float(np.sqrt(np.mean(np.square(array.astype(np.float64))))) if array.size else 0.0


def difference(name: str, kind: str, one: Array, other: Array) -> Difference | None:
    """None for the same bits; a shape or type that differs is one in all entries."""
    if one.shape != other.shape:
        return Difference(name, kind, float("inf"), float("inf"), 1.0)
    unlike = (one != other) & ~((one != one) & (other != other))
    if not unlike.any() and one.dtype == other.dtype:
        return None
    with np.errstate(invalid="ignore"):
        apart = one.astype(np.float64) - other.astype(np.float64)
    size, largest = rms(one), float(np.abs(apart).max(initial=0.0))
    differing = float(unlike.mean()) if one.size else 0.0
    return Difference(name, kind, largest, rms(apart) / size if size else float("inf"), differing)


def cause_of(step: int, differences: Sequence[Difference], one: Record, other: Record) -> str:
    """One of CAUSES, by the differences of the first step that has any, the first in the order of a step first."""
    first = differences[0]
    mine, yours = one.steps[step][first.name], other.steps[step][first.name]
    if mine.dtype != yours.dtype:
        return "dtype"
    if first.kind == DATA:
        return "data-order" if _same_samples(one, other, first.name) else "data"
    if first.kind == SETTING:
        return "setting"
    return _by_size(step, first, one, other)


def _by_size(step: int, first: Difference, one: Record, other: Record) -> str:
    """By the update where it is kept, as the rounding of a weight may be as large as a small update; else by size."""
    array, steps = one.steps[step][first.name], sorted(one.steps)
    before = one.steps[steps[steps.index(step) - 1]] if step != steps[0] else {}
    if first.kind == STATE and not before and first.of_size_frac >= START_FRAC:
        return "seed"
    moved = rms(array - before[first.name]) if first.kind == STATE and first.name in before else 0.0
    if moved:
        frac, least = first.of_size_frac * rms(array) / moved, OTHER_FRAC
        rounded = frac if first.of_size_frac <= _unit(array) else ROUNDED_FRAC
    else:
        printed = (10.0 ** (1 - run.digits[first.name]) for run in (one, other) if first.name in run.digits)
        frac, rounded, least = first.of_size_frac, max([ROUNDED_UNITS * _unit(array), *printed]), LOGGED_FRAC
    if frac <= rounded:
        return "summation"
    if frac < least:
        return "unclear"
    if not (one.has(DATA, step) and other.has(DATA, step)):
        return "draws"
    return "dropout" if any(kind_of(name) == STATE for name in before) else "model-seed"


def _unit(array: Array) -> float:
    """The unit of the last place of 1, in which it was computed: numbers of 64 bits are taken for those of 32.

    Where the last 16 bits of all entries are 0, they were those of bf16.
    """
    if array.dtype == np.float16:
        return 2.0**-10
    short = array.dtype == np.float32 and array.size > 1 and not (array.view(np.uint32) & 0xFFFF).any()
    return 2.0**-7 if short else 2.0**-23


def _same_samples(one: Record, other: Record, name: str) -> bool:
    """Whether both runs read the same, taken over all steps."""
    mine, yours = (
        np.sort(np.concatenate([np.ravel(arrays[name]) for _, arrays in sorted(run.steps.items()) if name in arrays]))
        for run in (one, other)
    )
    return mine.shape == yours.shape and bool((mine == yours).all())
