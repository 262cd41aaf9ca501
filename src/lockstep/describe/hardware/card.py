"""`Card`: what a program may ask of a GPU, for a device of the catalog."""

from __future__ import annotations

from collections.abc import Mapping

from lockstep.base.records import dataclass
from lockstep.describe.hardware.device import Device

CAPABILITIES: Mapping[str, tuple[int, int]] = {
    "v100": (7, 0), "t4": (7, 5), "rtx-20": (7, 5), "a100": (8, 0), "a30": (8, 0), "a10": (8, 6), "a40": (8, 6),
    "rtx-30": (8, 6), "rtx-a": (8, 6), "l4": (8, 9), "rtx-40": (8, 9), "rtx-6000-ada": (8, 9), "h": (9, 0),
    "gh": (9, 0), "b": (10, 0), "gb": (10, 0), "rtx-50": (12, 0), "rtx-pro": (12, 0),
}  # fmt: skip
"""Compute capabilities by the beginning of a device's name (NVIDIA, CUDA GPU Compute Capability)."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU."""

    name: str
    memory_B: int
    capability: tuple[int, int]


def card_of(device: Device) -> Card:
    """The card in place of a device of the catalog; Ampere's capability where its own is not known."""
    known = [one for one in CAPABILITIES if device.name.startswith(one)]
    capability = CAPABILITIES[max(known, key=len)] if known else (8, 0)
    return Card(device.name, int(device.memory_B), capability)
