"""`paced`: a device as fast as steps or traces on it showed, by the `pace` of a cluster's file (`schema.PaceEntry`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.describe.hardware.device import Device

if TYPE_CHECKING:
    from lockstep.describe.hardware.schema import FactorEntry, PaceEntry


def paced(device: Device, entry: PaceEntry) -> Device:
    """The device with its kernels and its host as slow as the entry says."""
    before, products = device.efficiency, entry.products
    of = (entry.attention, entry.stream, entry.optimizer, entry.launch, entry.step)
    matmul = _factor(entry.matmul) if products is None else before.matmul_max_frac / products.max_frac
    curve = before.slowed(entry.factor, matmul, *(_factor(one) for one in of))
    if products is not None:
        curve = replace(curve, matmul_bytes_factor=products.bytes_factor)
    return device.calibrated(curve, entry.error, entry.source, entry.date)


def _factor(entry: FactorEntry | None) -> float | None:
    return None if entry is None else entry.factor
