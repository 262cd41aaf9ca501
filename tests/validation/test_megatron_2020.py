"""Megatron-LM of 2020: every row is asked, of models with the printed parameters."""

import pytest

from lockstep.check.validation import megatron_2020
from lockstep.check.validation.case import read_rows
from lockstep.describe.workload import parameters
from lockstep.price.layout import check


def test_every_row_is_predicted() -> None:
    cases = megatron_2020.cases()
    assert len(cases) == len(read_rows(megatron_2020.FILE)) == 12
    assert not megatron_2020.left_out()
    for case in cases:
        check(case.layout, case.job)
        assert case.cluster.num_devices == case.job.devices


def test_the_models_have_the_printed_parameters() -> None:
    """Printed to the second decimal, so words and positions that the table does not print are right."""
    for case, row in zip(megatron_2020.cases(), read_rows(megatron_2020.FILE), strict=True):
        assert parameters(case.job.model).total / 1e9 == pytest.approx(float(row["n_params_B"]), abs=0.0051)


def test_the_assumed_curve_of_v100_meets_what_was_measured() -> None:
    """Within fifteen percent on each of four models; the curve was written down before."""
    errors = [case.predict(case) / case.measured - 1 for case in megatron_2020.cases() if "V100" in case.row]
    assert len(errors) == 4
    assert max(map(abs, errors)) < 0.15
