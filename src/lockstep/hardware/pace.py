"""`paced`: a device as fast as steps or traces on it showed, by the `pace` of a cluster's file (`schema.PaceEntry`)."""

from __future__ import annotations

from dataclasses import replace

from lockstep.hardware.device import Device
from lockstep.hardware.schema import FactorEntry, PaceEntry


def paced(device: Device, entry: PaceEntry) -> Device:
    """The device with its kernels and its host as slow as the entry says."""
    of = (entry.matmul, entry.attention, entry.stream, entry.optimizer, entry.launch, entry.step)
    curve = device.efficiency.slowed(entry.factor, *(_factor(one) for one in of))
    if entry.products is not None:
        found = entry.products
        before = device.efficiency
        slower = before.matmul_max_frac / found.max_frac
        power = before.power and before.power.slowed(slower, *(_factor(one) or entry.factor for one in of[1:3]))
        curve = replace(curve, matmul_max_frac=found.max_frac, matmul_bytes_factor=found.bytes_factor, power=power)
    return device.calibrated(curve, entry.error, entry.source, entry.date)


def _factor(entry: FactorEntry | None) -> float | None:
    return None if entry is None else entry.factor
