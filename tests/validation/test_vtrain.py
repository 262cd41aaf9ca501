"""What a row of vTrain's table contradicts, which no layout explains."""

from lockstep.validation.case import read_rows

A100_FLOPS = 312e12


def _row(tp: str, pp: str, mbs: str) -> dict[str, str]:
    found = [
        row for row in read_rows("vtrain_a100_multi.csv")
        if row["hidden"] == "8192" and (row["tp"], row["pp"], row["mbs"]) == (tp, pp, mbs)
    ]  # fmt: skip
    assert len(found) == 1
    return found[0]


def _slope_flops(few: dict[str, str], many: dict[str, str]) -> float:
    """FLOP/s of a device at which a slot of the pipeline would grow by one sequence as it does between two rows.

    1F1B takes (m + p - 1) slots of m micro-batches, each a constant and a sequence's FLOPs times the micro-batch.
    """
    slots = []
    for row in (few, many):
        m = int(row["gbs_seqs"]) // int(row["dp"]) // int(row["mbs"])
        slots.append(float(row["iter_time_ms"]) * 1e-3 / (m + int(row["pp"]) - 1))
    layers, hidden, seq = (int(few[name]) for name in ("layers", "hidden", "seq_len"))
    executed = 96 * seq * hidden**2 * layers * (1 + seq / (6 * hidden)) / (int(few["tp"]) * int(few["pp"]))
    return executed * (int(many["mbs"]) - int(few["mbs"])) / (slots[1] - slots[0])


def test_the_worst_choice_rests_on_a_row_that_its_neighbour_contradicts() -> None:
    """tp 2, pp 8, dp 32 with micro-batches of 2 and of 3 sequences: a device would exceed its peak between the two. On
    16 stages of the same ranks, micro-batches of 3 and 6 are far below it."""
    assert _slope_flops(_row("2", "8", "2"), _row("2", "8", "3")) > 1.02 * A100_FLOPS
    assert _slope_flops(_row("2", "16", "3"), _row("2", "16", "6")) < 0.75 * A100_FLOPS
