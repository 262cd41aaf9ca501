"""fms-fsdp: every row is asked or left out by reason; recomputing some blocks lies between none and all of them."""

from lockstep.check.validation import fms_fsdp
from lockstep.check.validation.case import read_rows
from lockstep.price.layout import check


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert fms_fsdp.left_out() == {"share of recomputed blocks not printed": 6, "batch not printed": 1}
    assert len(fms_fsdp.cases()) + sum(fms_fsdp.left_out().values()) == len(read_rows(fms_fsdp.FILE))


def test_partial_recomputation_takes_between_none_and_full() -> None:
    """Each measured step is between the two predictions; the longer one may be 20 % too short."""
    bounds = fms_fsdp.some_blocks()
    assert len(bounds) == 6
    for none, every in bounds:
        check(every.layout, every.job)
        assert none.predict(none) < none.measured < 1.2 * every.predict(every)


def test_the_network_of_a_node_is_as_printed() -> None:
    printed = {row["row_id"]: row["interconnect"] for row in read_rows(fms_fsdp.FILE)}
    for case in fms_fsdp.cases():
        fabric = case.cluster.levels[1]
        assert f"{8e-9 * fabric.links_per_child * fabric.link.bandwidth_Bps:.0f} Gb/s per node" == printed[case.row]
