"""`conditions`: what would have to be true of a step that takes many times as long as predicted.

So far off, the number is more often of something else than the run is slow: another unit, the time of several steps,
more tokens in a step, or another machine. Each is said with what it would take, so that it can be looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.base.units import format_count, format_flops, format_frac, format_time
from lockstep.decide.planner.estimate import Estimate
from lockstep.describe.hardware import devices
from lockstep.explain.stated import TIME_S, Stated

FAR = 5.0
"""Times the upper end of the interval of the prediction, from which on a step is far off; assumed."""
LIKE = 1.5
"""A device's peak is like another one within this factor."""
SHOWN = 3


def conditions(measured: Stated, found: Estimate) -> tuple[str, ...]:
    """What would have to be true, in words; none of a step less than FAR times as long as predicted."""
    step_s = measured.step_time_s(found)
    return tuple(_conditions(measured, found, step_s)) if step_s > FAR * found.interval.high else ()


def _conditions(measured: Stated, found: Estimate, step_s: float) -> Iterator[str]:
    low = math.ceil(step_s / found.interval.high)
    high = max(low, math.floor(step_s / found.interval.low))
    if measured.quantity == TIME_S:
        yield f"another unit: {_in_milliseconds(step_s, found)}"
    times = f"{low:,} to {high:,}"
    yield f"several steps: it is the time of {times} steps, as of an interval between lines of a log or of an epoch"
    batch, tokens = found.job.recipe.batch, format_count(found.job.recipe.batch_tokens, 3)
    yield (
        f"accumulation: a step has {times} times the {tokens} tokens described, so the batch is {batch * low:,} to "
        f"{batch * high:,} sequences, not {batch:,}"
    )
    yield _another_machine(found, step_s)


def _in_milliseconds(step_s: float, found: Estimate) -> str:
    """The number read as milliseconds."""
    whole, read_s = found.interval, step_s / 1e3
    if found.utilisation.causal_mfu_frac * found.step_time_s > read_s:
        told = "which is more than the device can do"
    elif whole.low <= read_s <= whole.high:
        told = "as predicted"
    else:
        told = f"{'slower' if read_s > whole.high else 'faster'} than predicted"
    return f"it is in milliseconds, so a step takes {format_time(read_s, 4)}, {told}"


def _another_machine(found: Estimate, step_s: float) -> str:
    """A device with which as large a share of its peak would give the step."""
    device, dtype = found.cluster.device, found.job.recipe.dtype
    rate, peak = found.model_flops_per_gpu_per_s * found.step_time_s / step_s, device.peak(dtype)
    wanted = peak * found.step_time_s / step_s
    like = [one.name for one in devices() if dtype in one.peak_flops and 1 / LIKE < one.peak(dtype) / wanted < LIKE]
    known = f", as {' and '.join(like[:SHOWN])} have" if like else ", less than any device of the catalog"
    return (
        f"another machine: its devices reach {format_flops(rate, 3)} each, {format_frac(rate / peak, 2)} of the peak "
        f"of {device.name}; with a peak of {format_flops(wanted, 3)}{known}, it would be as predicted"
    )
