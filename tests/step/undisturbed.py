"""Hardware on which kernels take in a step what they take alone, for tests that count their bytes and FLOPs."""

from __future__ import annotations

from dataclasses import replace

from lockstep.describe.hardware import Cluster


def undisturbed(found: Cluster) -> Cluster:
    """The same devices without gaps between kernels and without a limit of power."""
    curve = replace(found.device.efficiency, gap_s=0.0, power=None)
    return replace(found, device=replace(found.device, efficiency=curve))
