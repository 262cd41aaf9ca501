"""Seconds of a captured step: its calls priced as kernels of their kind (`calls.py`), the host ahead of the device.

The host launches the first kernel of a call every `Clock.launches_s`, forward and backward, what a call launches besides
as fast as the device takes it, and the device begins when it is free and when the kernel was launched. The clock of the
device follows the mean over both passes (`describe/hardware/power.py`), without the update.

Source: rates and factors of `clock.py` and `describe/hardware/catalog`; none is fitted to captured steps. Of 32 steps
that were captured and measured on one H100 (`benchmarks/one_gpu.py`), all took longer than priced: LONGER.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.base.types.plain import Json, picked
from lockstep.describe.captured import Captured, Operation
from lockstep.describe.hardware import Device
from lockstep.describe.stacks import stack
from lockstep.price.kernels.calls import call_works
from lockstep.price.kernels.clock import Clock, Work

SOFTWARE = "hf-trainer-5"
"""Whose host times eager PyTorch has."""
LONGER = "4 to 23 %, 9 % in the median"
"""By how much steps measured on one H100 took longer."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step on one device."""

    step_time_s: float
    device_s: float
    """Of kernels, if the host never falls behind."""
    products_s: float
    attention_s: float
    other_s: float
    host_s: float
    """To launch all kernels."""
    kernels: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def captured_time(captured: Captured, device: Device) -> StepTime:
    """Seconds of the step on a device. Raises UnknownName for products in a format that the device does not have."""
    clocks = {name: Clock(device, name, stack=stack(SOFTWARE)) for name in ("bf16", "fp16", "fp32", "tf32")}
    works = list(call_works(captured.operations, clocks))
    whole = sum(works, Work())
    clock = clocks["bf16"]
    passes = (work for one, work in zip(captured.operations, works, strict=True) if one.phase != "optimizer")
    factors = clock.factors_inside(sum(passes, Work()))
    inside = whole.inside(factors)
    ends = _replayed(captured.operations, (work.inside(factors) for work in works), clock)
    return StepTime(
        ends + float(clock.step_s),
        float(inside.device_s),
        float(inside.matmul_s),
        float(inside.attention_s),
        float(inside.stream_s),
        sum(_host_s(one, float(work.kernels), clock) for one, work in zip(captured.operations, works) if work.kernels),
        int(whole.kernels),
    )


def _replayed(operations: Iterable[Operation], works: Iterable[Work], clock: Clock) -> float:
    """When the device is done, with the host launching one kernel after the other."""
    host_s = device_s = 0.0
    for one, work in zip(operations, works, strict=True):
        if work.kernels:
            begins_s = max(device_s, host_s + _host_s(one, 1, clock))
            host_s += _host_s(one, float(work.kernels), clock)
            device_s = max(begins_s + float(work.device_s), host_s)
    return device_s


def _host_s(one: Operation, kernels: float, clock: Clock) -> float:
    """Seconds in which the host launches the kernels of a call."""
    return float(clock.launches_s[one.phase == "backward"]) + (kernels - 1.0) * clock.device.efficiency.launch_s
