"""SimuMax's rows on PCIe: which are asked, and what the halves of the machine explain."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.check.validation import simumax
from lockstep.check.validation.case import read_rows
from lockstep.describe.hardware import cluster


def test_rows_are_predicted_or_excluded_with_a_reason() -> None:
    assert simumax.left_out() == {"count of FLOPs not printed": 6}
    assert len(simumax.cases()) + sum(simumax.left_out().values()) == len(read_rows(simumax.FILE)) == 18


def test_groups_across_the_two_halves_get_the_measured_bandwidth() -> None:
    """4 GB/s each where four groups cross, 7.65 where two do (dp_fixed_bw of all-gathers): within a quarter."""
    across = simumax.measured_cluster(8).levels[1].link
    rate_GBps = across.bandwidth_Bps * across.achieved_frac / 1e9
    assert rate_GBps / 4 == pytest.approx(4.0, rel=0.25)
    assert rate_GBps / 2 == pytest.approx(7.65, rel=0.25)


def test_a_flat_machine_of_the_catalog_is_too_fast_for_tensor_parallelism() -> None:
    """It knows no halves. Without tensor parallelism it is within 6 %."""
    flat = cluster("a100-pcie", gpus=8)
    cases = [replace(case, cluster=flat) for case in simumax.cases()]
    errors = {case.row: case.predict(case) / case.measured - 1 for case in cases}
    staged = [error for row, error in errors.items() if "pp2" in row]
    cut = [error for row, error in errors.items() if "pp2" not in row]
    assert len(staged) == 3
    assert max(map(abs, staged)) < 0.06
    assert max(cut) < -0.1
    assert np.median(cut) < -0.3
