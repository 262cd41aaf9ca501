"""Kernels alone: every row is asked or left out by reason, and nothing beats the best product ever measured."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from lockstep.check.validation import kernel_rates
from lockstep.check.validation.case import Case, read_rows


@pytest.mark.parametrize(
    ("file", "cases", "left_out", "rows"),
    [
        (kernel_rates.GEMM_FILE, kernel_rates.gemm_cases, kernel_rates.gemm_left_out, 58),
        (kernel_rates.BEST_FILE, kernel_rates.best_cases, kernel_rates.best_left_out, 14),
        (kernel_rates.STREAM_FILE, kernel_rates.stream_cases, kernel_rates.stream_left_out, 190),
    ],
)
def test_every_row_is_predicted_or_excluded_with_a_reason(
    file: str, cases: Callable[[], tuple[Case, ...]], left_out: Callable[[], Counter[str]], rows: int
) -> None:
    assert len(cases()) == rows
    assert rows + sum(left_out().values()) == len(read_rows(file))


def test_no_product_is_priced_faster_than_the_best_of_its_device() -> None:
    """At the shape that is fastest of all that stas00's search tried."""
    for case in kernel_rates.best_cases():
        assert case.predict(case) >= case.measured, case.row


def test_grouped_products_of_training_are_within_a_quarter_but_for_weight_gradients() -> None:
    cases = [case for case in kernel_rates.gemm_cases() if "grouped" in case.row]
    ordinary = [case for case in cases if "wgrad" not in case.row]
    assert len(ordinary) == 16
    assert max(abs(case.predict(case) / case.measured - 1) for case in ordinary) < 0.25
    slow = [case.predict(case) / case.measured - 1 for case in cases if "wgrad" in case.row]
    assert max(slow) < -0.15


def test_norms_of_every_library_match_the_measurement() -> None:
    """Backward passes, in the median of each library on each device; their passes are medians over all of these."""
    by_library: dict[tuple[str, str], list[float]] = {}
    for case in kernel_rates.stream_cases():
        if "norm bwd" in case.row:
            library = next(name for name in ("cuDNN", "torch_compile", "PyTorch") if name in case.row)
            found = by_library.setdefault((case.cluster.device.name, library), [])
            found.append(case.predict(case) / case.measured - 1)
    devices = {device for device, _ in by_library}
    assert devices == {"h200", "gb200", "gb300"}
    for device in devices:
        for library in ("cuDNN", "torch_compile", "PyTorch"):
            assert abs(np.median(by_library[device, library])) < 0.25, (device, library)
