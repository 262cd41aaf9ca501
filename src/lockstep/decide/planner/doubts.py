"""`doubts_on(device, dtype, ranks, experts)`: why an answer may lie further off than published steps of programs do.

The interval's constants (`interval.toml`) are of steps on devices on which several programs were published. What else
an answer rests on adds to both of its ends, in quadrature, as errors that have nothing to do with each other:

    few        FEW steps or more were published on the device, of one program or two, or several programs' steps on
               another device with its chip
    kernels    kernels alone were measured on it
    borrowed   the curve of another of its maker's devices stands in for its own
    foreign    that of another maker's
    stated     a curve of the user's own, as wide as its `typical_error_frac` says: z times that, z = 1.645
    experts    a model of experts: steps came out longer than predicted in most sources
    fp4        products in fp4
    scale      more devices than RANKS, for each doubling

The constants (`doubts.toml`) are errors of whole sources, each a table of steps on one device: the output of
`python tools/fit/doubts.py`, which says how they are found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json
from lockstep.decide.planner.support import steps_on
from lockstep.describe.hardware import Device, devices
from lockstep.describe.hardware.device import CALIBRATED, SCALED, curves, measured_on_steps

RANKS, FEW = 1024, 5
"""Devices up to which steps are published by many, and steps on a device that say something of it."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is doubted of an answer, and what that adds to the ends of its interval, as logarithms of seconds."""

    names: tuple[str, ...] = ()
    below: float = 0.0
    above: float = 0.0

    @property
    def words(self) -> tuple[str, ...]:
        """What is doubted, in words."""
        return tuple(str(known_doubts()[name]["words"]) for name in self.names)


UNDOUBTED = Doubts()


@cache
def known_doubts() -> Json:
    """The constants by doubt."""
    table: Json = shipped_table("lockstep.decide.planner", "doubts.toml")
    return table


def doubts_on(device: Device, dtype: str = "bf16", ranks: int = 1, experts: bool = False) -> Doubts:
    """Doubts about a step in `dtype` on so many devices; none where the device was calibrated to steps on itself."""
    if device.efficiency.kind == CALIBRATED:
        return UNDOUBTED
    return _together([*_of_device(device), *_of_run(dtype, ranks, experts)])


def _together(found: list[tuple[str, float]]) -> Doubts:
    below, above = (
        math.hypot(*(times * float(known_doubts()[name][end]) for name, times in found)) for end in ("below", "above")
    )
    return Doubts(tuple(name for name, _ in found), below, above)


def footing(device: Device) -> str:
    """What is known of a device: steps of several programs, few, kernels, borrowed, foreign, or what is stated."""
    curve = device.efficiency
    if curve.name not in curves():
        return "stated"
    if device.name in curve.devices and measured_on_steps(curve.name):
        return "steps"
    if steps_on(device.name) >= FEW or (device.name in curve.same_chip and measured_on_steps(curve.name)):
        return "few"
    if device.name in curve.devices and curve.kind == "measured":
        return "kernels"
    makers = {one.vendor for one in devices() if one.efficiency.name == curve.name and _known(one)}
    return "borrowed" if device.vendor in makers else "foreign"


def _known(device: Device) -> bool:
    return device.name in device.efficiency.devices or steps_on(device.name) >= FEW


def _of_device(device: Device) -> Iterator[tuple[str, float]]:
    if (found := footing(device)) != "steps":
        yield found, device.efficiency.typical_error_frac if found == "stated" else 1.0


def _of_run(dtype: str, ranks: int, experts: bool) -> Iterator[tuple[str, float]]:
    if experts:
        yield "experts", 1.0
    if SCALED.get(dtype, dtype) == "fp4":
        yield "fp4", 1.0
    if ranks > RANKS:
        yield "scale", math.log2(ranks / RANKS)
