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
        curve = replace(curve, matmul_max_frac=found.max_frac, matmul_bytes_factor=found.bytes_factor)
    return device.calibrated(curve, entry.error, entry.source, entry.date)


def _factor(entry: FactorEntry | None) -> float | None:
    return None if entry is None else entry.factor
