"""Pythia: every row is asked, of models with the published parameters."""

from lockstep.check.validation import pythia
from lockstep.check.validation.case import read_rows
from lockstep.describe.workload import parameters
from lockstep.price.layout import check


def test_every_row_is_predicted() -> None:
    cases = pythia.cases()
    assert len(cases) == len(read_rows(pythia.FILE)) == 8
    assert not pythia.left_out()
    for case in cases:
        check(case.layout, case.job)
        assert case.cluster.num_devices == case.job.devices


def test_the_models_have_the_published_parameters() -> None:
    for row in read_rows(pythia.FILE):
        assert parameters(pythia.model_of(row)).total == int(row["n_params_total"])
