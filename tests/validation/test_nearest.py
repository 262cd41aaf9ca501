"""Published steps nearest to a question: their order, their number, and the prediction that stands next to them."""

from __future__ import annotations

import pytest

import lockstep
from lockstep.check.validation.nearest import MOST_OF_ONE, nearest
from lockstep.check.validation.report import TABLES
from lockstep.check.validation.without_program import without_program
from lockstep.decide.planner.estimate import Estimate, estimate


def of(table: str, place: int) -> Estimate:
    case = TABLES[table].cases()[place]
    return estimate(case.job, case.cluster, case.layout)


@pytest.mark.parametrize(("table", "place"), [("dgxc_nemo", 33), ("fms_adapters", 5), ("maxtext_tpu", 0)])
def test_a_published_step_is_nearest_to_itself(table: str, place: int) -> None:
    """Rows with the same sizes and names are as near."""
    found = nearest(of(table, place))
    assert found[0].distance == 0.0
    assert any(near.table == table and near.distance == 0.0 for near in found)


def test_nearest_rows_are_ordered_and_limited_per_table() -> None:
    one = lockstep.estimate("llama3-8b", "dgx-h100:4", batch=64, zero=3)
    found = nearest(one, 20)
    assert len(found) == 20
    distances = [near.distance for near in found]
    assert distances == sorted(distances)
    tables = [near.table for near in found]
    assert max(map(tables.count, tables)) <= MOST_OF_ONE
    assert nearest(one, 5) == found[:5]


def test_the_error_is_of_a_fit_without_the_software() -> None:
    for near in nearest(lockstep.estimate("llama3-8b", "dgx-h100:4", batch=64, zero=3)):
        blind = without_program(near.case)
        assert near.predicted_s == near.case.predict(blind)
        assert near.error_frac == pytest.approx(near.predicted_s / near.case.measured - 1.0)
        assert near.to_dict()["measured"] == near.case.measured
