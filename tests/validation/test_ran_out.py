"""Runs that ran out of memory are counted, and so is each that would fit here."""

from lockstep.check.validation import TABLES, fms_adapters, validate
from lockstep.check.validation.ran_out import RAN_OUT, ran_out
from lockstep.price.layout import memory


def test_every_table_with_out_of_memory_runs_is_used() -> None:
    assert set(RAN_OUT) <= set(TABLES)
    assert ran_out(RAN_OUT).runs == sum(len(cases()) for cases in RAN_OUT.values())
    assert ran_out(["vtrain_a100_multi"]).runs == 0


def test_a_run_is_accepted_where_its_layout_fits_with_room_to_spare() -> None:
    for table, cases in RAN_OUT.items():
        sizes = [memory(case.job, case.cluster, case.layout.grid()) for case in cases()]
        found = ran_out([table])
        assert found.accepted + found.tight == sum(bool(one.fits) for one in sizes), table
        assert found.tight == sum(bool(one.tight) for one in sizes), table


def test_at_most_one_in_twenty_out_of_memory_runs_is_accepted() -> None:
    found = ran_out(RAN_OUT)
    assert found.accepted <= 0.05 * found.runs


def test_a_report_counts_out_of_memory_runs_of_its_tables() -> None:
    found = validate(["fms_adapters_memory"])
    assert found.to_dict()["ran_out"] == {"runs": len(fms_adapters.out_of_memory()), "tight": 0, "accepted": 0}
