"""BERT-Large: every row is asked or left out, and rows of phase 2 can't have the tokens of their shape."""

from lockstep.check.validation import bert
from lockstep.check.validation.case import read_rows

ROWS = read_rows(bert.FILE)


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert bert.left_out() == {"step not described": 33, "samples binned by length": 20, "time to train": 2}
    assert len(bert.cases()) + sum(bert.left_out().values()) == len(ROWS) == 75


def test_phase_2_is_measured_faster_per_token_than_phase_1_on_every_device() -> None:
    """With whole samples of 512 tokens it would be slower, by longer attention and smaller batches."""

    def rates(seq: str) -> dict[tuple[str, ...], float]:
        names = ("task", "gpu_type", "n_gpus", "precision")
        found = [row for row in ROWS if row["seq_len"] == seq and row["step_time_s"] and "NVIDIA" in row["stack"]]
        return {tuple(row[name] for name in names): float(row["tokens_per_s"]) for row in found}

    short, long = rates("128"), rates("512")
    assert len(short) == len(long) == 20
    assert all(long[key] > 1.1 * short[key] for key in short)


def test_batches_are_the_product_of_their_parts() -> None:
    for case in bert.cases():
        row = next(one for one in ROWS if one["row_id"] == case.row.split()[0])
        assert case.job.recipe.batch == int(row["n_gpus"]) * int(row["per_gpu_batch"]) * int(row["grad_accum"])


def test_strong_scaling_is_as_measured_within_three_points() -> None:
    """From 8 to 256 A100 with one batch: the share of the ideal gain."""
    cases = {case.row.split()[0]: case for case in bert.cases()}
    for few, many in (("bt001", "bt011"), ("bt002", "bt012")):
        measured = cases[few].measured / cases[many].measured / 32
        predicted = cases[few].predict(cases[few]) / cases[many].predict(cases[many]) / 32
        assert abs(measured - predicted) < 0.03
