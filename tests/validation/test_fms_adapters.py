"""fms-acceleration's adapters: every row is asked or out of memory, and whether they fit is told rightly."""

import numpy as np

from lockstep.check.validation import fms_adapters
from lockstep.check.validation.case import Case, read_rows
from lockstep.price.layout import memory


def fits(case: Case) -> bool:
    return bool(memory(case.job, case.cluster, case.layout.grid()).fits)


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    rows = len(read_rows(fms_adapters.FILE))
    assert len(fms_adapters.time_cases()) == len(fms_adapters.memory_cases()) == 114
    assert fms_adapters.left_out() == {"out of memory": 14}
    assert rows == 114 + 14


def test_completed_runs_fit_and_out_of_memory_runs_do_not() -> None:
    assert all(map(fits, fms_adapters.memory_cases()))
    assert not any(map(fits, fms_adapters.out_of_memory()))


def test_parameters_agree_with_what_was_allocated_before_training() -> None:
    """Base and adapters, within the buffers of 0.2 GiB that a device holds besides."""
    before = {row["row_id"]: float(row["mem_torch_alloc_before_train_GiB_rank0"] or 0) for row in
              read_rows(fms_adapters.FILE)}  # fmt: skip
    for case in fms_adapters.memory_cases():
        if case.layout.dp == 1:
            found = float(memory(case.job, case.cluster, case.layout.grid()).parameters_B) / 2**30
            assert -0.02 < before[case.row.split()[0]] - found < 0.25, case.row


def test_peaks_are_within_five_percent_in_the_median() -> None:
    errors = [case.predict(case) / case.measured - 1 for case in fms_adapters.memory_cases()]
    assert np.median(np.abs(errors)) < 0.055
