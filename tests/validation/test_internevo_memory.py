"""InternEvo's rows of memory: all asked, and what ran fits."""

import pytest

from lockstep.check.validation import internevo_memory
from lockstep.check.validation.case import read_rows
from lockstep.describe.workload import parameters
from lockstep.price.layout import memory


def test_every_row_is_predicted() -> None:
    asked = len(internevo_memory.cases()) + sum(internevo_memory.left_out().values())
    assert asked == len(read_rows(internevo_memory.FILE)) == 16


def test_runs_that_completed_fit_in_memory() -> None:
    fits = [bool(memory(case.job, case.cluster, case.layout.grid()).fits) for case in internevo_memory.cases()]
    assert sum(fits) == 16


def test_the_models_have_the_parameters_of_their_names() -> None:
    """InternLM's technical report: 7 and 20 billion."""
    sizes = [parameters(model).total / 1e9 for model in internevo_memory.MODELS.values()]
    assert sizes == [pytest.approx(7.3, abs=0.05), pytest.approx(20.1, abs=0.05)]


def test_internevo_rows_without_fsdp_have_one_replica() -> None:
    """So that ZeRO-1 divides nothing, as the reader says."""
    for row, case in zip(read_rows(internevo_memory.FILE), internevo_memory.cases(), strict=True):
        assert row["fsdp"] == "True" or case.layout.dp == 1
