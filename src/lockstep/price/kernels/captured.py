"""Seconds of a captured step: its calls priced as kernels of their kind (`calls.py`), the host ahead of the device.

Every call takes the host CALL_FRAC of `Clock.launches_s`, forward and backward, one that launches nothing too, and what
it launches besides as long as the device takes between launches. A kernel begins when the device is free and the host
has launched it. Where the program asks whether all or any of a tensor is true, the host waits for the device.

The device's clock follows the mean over both passes (`describe/hardware/power.py`), without the update.

Source: rates and factors of `clock.py` and `describe/hardware/catalog`; none is fitted to captured steps. What a call
takes was measured alone, and taken for these after they had been seen: WITHIN says how far the 35 steps without a
compiler that were measured on one H100 are from what is priced (`benchmarks/one_gpu.py`).
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
CALL_FRAC = 12.7 / 20.0
"""Of a launch, what a call takes of the host: 12.7 us for each of 5,000 sums in place alone (h100_kernels.csv, launch),
where a launch, with the calls before it that launch nothing, is taken as 20 (`Stack.launch_s`)."""
ASKED = ("aten.all.default", "aten.any.default", "aten._local_scalar_dense.default")
"""Calls whose result the program reads."""
WITHIN = "2.2 % in the median and 10.4 % at worst"
"""How far steps measured on one H100 are from what is priced."""


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
    """For all calls."""
    kernels: int

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def captured_time(captured: Captured, device: Device) -> StepTime:
    """Seconds of the step on a device. Raises UnknownName for products in a format that the device does not have."""
    clocks = {name: Clock(device, name, stack=stack(SOFTWARE)) for name in ("bf16", "fp16", "fp32", "tf32")}
    works = list(call_works(captured.operations, clocks))
    clock = clocks["bf16"]
    both = list(zip(captured.operations, works, strict=True))
    factors = clock.factors_inside(sum((work for one, work in both if one.phase != "optimizer"), Work()))
    inside = sum(works, Work()).inside(factors)
    ends = _replayed(captured.operations, (work.inside(factors) for work in works), clock)
    return StepTime(
        ends + float(clock.step_s),
        float(inside.device_s),
        float(inside.matmul_s),
        float(inside.attention_s),
        float(inside.stream_s),
        sum(_host_s(one, float(work.kernels), clock) for one, work in both),
        int(inside.kernels),
    )


def _replayed(operations: Iterable[Operation], works: Iterable[Work], clock: Clock) -> float:
    """When the device is done, with the host making one call after the other."""
    host_s = device_s = 0.0
    for one, work in zip(operations, works, strict=True):
        begins_s = max(device_s, host_s + _host_s(one, 1.0, clock))
        host_s += _host_s(one, float(work.kernels), clock)
        if work.kernels:
            device_s = max(begins_s + float(work.device_s), host_s)
        if one.name in ASKED:
            host_s = device_s
    return device_s


def _host_s(one: Operation, kernels: float, clock: Clock) -> float:
    """Seconds that a call which launches so many kernels takes the host."""
    call_s = CALL_FRAC * float(clock.launches_s[one.phase == "backward"])
    return call_s + max(0.0, kernels - 1.0) * clock.device.efficiency.launch_s
