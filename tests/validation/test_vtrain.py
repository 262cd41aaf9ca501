"""vTrain's tables: what a row on many nodes contradicts, and that those on one node were computed, not measured."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from lockstep.check.validation import TABLES, validate
from lockstep.check.validation.case import read_rows
from lockstep.check.validation.regret import regret

A100_FLOPS = 312e12
NANOSECOND_MS = 1e-6


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


def _shapes() -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Rows on one node without data parallelism, by hidden size, tensor ranks and micro-batch: the bytes of the
    activation that is sent, what each row is made of, and its milliseconds.

    m micro-batches on p stages of n layers: a slot's layers m + p - 1 times, m heads, n updates, and a constant; with
    several stages sends as well, of every micro-batch and of filling and draining.
    """
    shapes = defaultdict(list)
    for row in read_rows("vtrain_a100_single.csv"):
        if row["dp"] == "1":
            shapes[row["hidden"], row["tp"], row["mbs"]].append(row)
    for (hidden, _, mbs), rows in shapes.items():
        parts = []
        for row in rows:
            p, m = int(row["pp"]), int(row["gbs_seqs"]) // int(row["mbs"])
            n = int(row["layers"]) // p
            parts.append([(m + p - 1) * n, m, n, 1, p > 1, m * (p > 1), p - 1])
        times_ms = np.array([float(row["iter_time_ms"]) for row in rows])
        yield 2.0 * int(mbs) * 1024 * int(hidden), np.array(parts, dtype=float), times_ms


def test_times_on_one_node_are_sums_to_the_nanosecond() -> None:
    """No measurement is: hundreds of kernels, each of which varies by more."""
    spare = 0
    for _, parts, times_ms in _shapes():
        found, _, rank, _ = np.linalg.lstsq(parts, times_ms)
        np.testing.assert_allclose(parts @ found, times_ms, rtol=0, atol=NANOSECOND_MS)
        spare += len(times_ms) - rank
    assert spare > 50


def test_single_node_sends_follow_the_formula_of_the_authors_simulator() -> None:
    """A stage more takes a send more forward and backward, each of twice the activation at 25 GiB/s; of shapes whose
    rows tell it from the other parts."""
    several = 0
    for activation_B, parts, times_ms in _shapes():
        found, _, rank, _ = np.linalg.lstsq(parts, times_ms)
        if rank > np.linalg.matrix_rank(parts[:, :-1]):
            np.testing.assert_allclose(found[-1], 2 * 1e3 * 2 * activation_B / (25 * 2**30), rtol=0, atol=1e-5)
            several += 1
    assert several >= 10


def test_another_simulators_times_are_compared_and_counted_nowhere() -> None:
    report = validate(["vtrain_a100_single"])
    (found,) = report.tables
    assert len(found.errors) == 469
    assert found.median_abs_frac < 0.08
    assert report.stacks == ()
    assert found.regret is found.coverage_frac is report.left_out_median_frac is None


def test_layouts_chosen_by_prediction_are_nearly_the_fastest_on_one_node() -> None:
    cases = TABLES["vtrain_a100_single"].cases()
    found = regret(cases, [case.predict(case) for case in cases])
    assert found is not None
    assert found.questions > 50
    assert found.mean_frac < 0.04
