"""The fit's derivatives: one pass over many curves is as good as a pass over each."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.hardware import efficiency
from lockstep.validation.fit import NAMES, START, calibration, log_errors


@pytest.mark.parametrize("device", list(START))
def test_a_pass_over_many_curves_is_that_of_each(device: str) -> None:
    curve = efficiency(device)
    constants = np.array([getattr(curve, name) for name in NAMES])
    moved = constants[:, None] * (1.0 + 0.1 * np.eye(len(NAMES)))
    for cases in calibration(device).values():
        together = log_errors(cases[:2], replace(curve, **dict(zip(NAMES, moved, strict=True))))
        for column, values in zip(together.T, moved.T, strict=True):
            alone = log_errors(cases[:2], replace(curve, **dict(zip(NAMES, values.tolist(), strict=True))))
            np.testing.assert_allclose(column, alone, rtol=1e-12, atol=1e-12)


def test_every_table_of_a_fit_has_rows() -> None:
    for device in START:
        assert all(len(cases) > 0 for cases in calibration(device).values())
