"""What precedes and follows an update on the device, against torch's own operations."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.workload import RankParameters
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.optimizer import MULTI_TENSOR, optimizer_s
from lockstep.price.layout import Layout
from recipes import recipe_by

torch: Any = pytest.importorskip("torch", reason="needs torch")

from .test_passes import Moved  # noqa: E402

ELEMENTS = 2**20
UPDATE_B = 28.0
"""Gradient, parameter and both moments read, the last three written, in fp32, by one kernel."""


def _seconds(**fields: Any) -> float:
    where, recipe = cluster("dgx-h100:1"), recipe_by(seq=2048, batch=8, **fields)
    held = RankParameters(float(ELEMENTS), 0.0, 0.0)
    return float(optimizer_s(Clock.of(where.device, recipe), Layout(dp=8).grid(), recipe, held, 4096))


def test_update_traffic_matches_torch() -> None:
    """The norm, what scales the gradients by it, the copy in half precision, and zeros for the next step."""
    gradient, master = (torch.empty(ELEMENTS, dtype=torch.float32, device="meta") for _ in range(2))
    half, coefficient = torch.empty(ELEMENTS, dtype=torch.bfloat16, device="meta"), torch.ones((), device="meta")
    with Moved() as counted:
        torch.linalg.vector_norm(gradient)
        gradient.mul_(coefficient)
        half.copy_(master)
    # The copy overwrites two bytes that it is counted to read; zeros are four.
    moved_B = counted.size_B / ELEMENTS - 2.0 + 4.0
    where = cluster("dgx-h100:1").device
    rate_Bps = where.memory_bandwidth_Bps * where.efficiency.stream_frac
    assert _seconds() == pytest.approx(MULTI_TENSOR * (UPDATE_B + moved_B) * ELEMENTS / rate_Bps, rel=1e-3)


def test_absent_gradients_and_copies_are_neither_filled_nor_copied() -> None:
    assert _seconds(gradients_freed=True) < _seconds()
    assert _seconds(working_copy=False) < _seconds()
    freed_s, kept_s = (_seconds(gradients_freed=freed, gradient_B=2.0) for freed in (True, False))
    assert _seconds() - _seconds(gradients_freed=True) == pytest.approx(2.0 * (kept_s - freed_s))
