"""`support(device, stack, dtype)`: what an answer about a device, a training software and a number format rests on.

    measured       published steps of the three together, none of which had a part in the fit
    fitted         published steps of the three together that constants were fitted to
    extrapolated   nothing published: datasheet rates, the device's curve, or a borrowed one, the software's switches
    none           the device has no unit for the format, or nobody runs the software on it

The published steps are those of `lockstep validate`; `support.toml` is the output of `python tools/fit/support.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.describe.hardware import Device, devices
from lockstep.describe.stacks import Stack, stacks

LEVELS = ("measured", "fitted", "extrapolated", "none")
FORMATS = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""What models are trained in."""


@dataclass(frozen=True, slots=True)
class Support:
    """One device, software and format."""

    device: str
    stack: str
    dtype: str
    level: str
    rows: int
    """Published steps of the three together."""
    error_frac: float | None
    """Median error of these when nothing of the software is fitted to; without any, the typical error of the device's
    curve; None where nothing runs."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


def support(device: Device, software: Stack, dtype: str) -> Support:
    """What an answer about the three rests on."""
    found = _published().get((device.name, software.name, dtype))
    if found is not None:
        level = "fitted" if found["fitted"] else "measured"
        return Support(device.name, software.name, dtype, level, found["rows"], found["error_frac"])
    if not device.takes(dtype) or device.vendor not in software.vendors:
        return Support(device.name, software.name, dtype, "none", 0, None)
    error_frac = device.efficiency.error_frac_on(device.name)
    return Support(device.name, software.name, dtype, "extrapolated", 0, error_frac)


def steps_on(name: str) -> int:
    """How many steps on a device are published."""
    return sum(row["rows"] for (device, _, _), row in _published().items() if device == name)


def matrix(several: Iterable[Stack] | None = None) -> tuple[Support, ...]:
    """Every device of the catalog with every format and some software, without it all of the catalog."""
    known = tuple(stacks().values() if several is None else several)
    return tuple(support(device, software, dtype) for device in devices() for software in known for dtype in FORMATS)


@cache
def _published() -> dict[tuple[str, str, str], Json]:
    return {
        (row["device"], row["stack"], row["dtype"]): row
        for row in shipped_table("lockstep.decide.planner", "support.toml").get("published", [])
    }
