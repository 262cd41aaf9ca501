"""Calls of a captured step on a device: kernels of their kind (`calls.py`), and what they take the host.

Every call takes the host CALL_FRAC of `Clock.launches_s`, forward and backward, one that launches nothing too, and what
it launches besides as long as the device takes between launches.

The device's clock follows the mean over both passes (`describe/hardware/power.py`), without the update.

Source: rates and factors of `clock.py` and `describe/hardware/catalog`; none is fitted to captured steps. What a call
takes was measured alone, and taken for these after they had been seen: WITHIN says how far the 35 steps without a
compiler that were measured on one H100 are from what is priced (`benchmarks/one_gpu.py`).
"""

from __future__ import annotations

from functools import cached_property

from lockstep.base.records import dataclass
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
WITHIN = "1.9 % in the median and 10.4 % at worst"
"""How far steps measured on one H100 are from what is priced."""


@dataclass(frozen=True)
class Priced:
    """Every call of a step on a device."""

    works: list[Work]
    """By call; without kernels where it launches none."""
    whole: Work
    """All of them."""
    clock: Clock

    @property
    def step_s(self) -> float:
        """What a step takes besides."""
        return float(self.clock.step_s)

    def host_s(self, one: Operation, kernels: float) -> float:
        """Seconds that a call which launches so many kernels takes the host."""
        return self._calls_s[one.phase == "backward"] + max(0.0, kernels - 1.0) * self.clock.device.efficiency.launch_s

    @cached_property
    def _calls_s(self) -> list[float]:
        return [CALL_FRAC * float(launch_s) for launch_s in self.clock.launches_s]


def priced_calls(captured: Captured, device: Device) -> Priced:
    """Every call of the step on a device. Raises UnknownName for products in a format that the device does not have."""
    clocks = {name: Clock(device, name, stack=stack(SOFTWARE)) for name in ("bf16", "fp16", "fp32", "tf32")}
    tf32 = captured.tf32 if device.vendor == "NVIDIA" and "tf32" in device.peak_flops else frozenset[str]()
    works = list(call_works(captured.operations, clocks, tf32))
    clock = clocks["bf16"]
    both = zip(captured.operations, works, strict=True)
    factors = clock.factors_inside(sum((work for one, work in both if one.phase != "optimizer"), Work()))
    inside = {key: work.inside(factors) for key, work in {id(work): work for work in works}.items()}
    return Priced([inside[id(work)] for work in works], sum(works, Work()).inside(factors), clock)
