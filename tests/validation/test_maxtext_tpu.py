"""MaxText on TPUs: shapes, rates and seconds agree with what is printed, and every row is asked or left out."""

import pytest

from lockstep.check.validation import maxtext_tpu
from lockstep.check.validation.case import read_rows
from lockstep.describe.workload import parameters

ROWS = {row["row_id"]: row for file in (maxtext_tpu.FILE, maxtext_tpu.RECIPES_FILE) for row in read_rows(file)}


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert maxtext_tpu.left_out() == {"batch and sharding not printed": 6}
    assert len(maxtext_tpu.cases()) + 6 == len(read_rows(maxtext_tpu.FILE)) == 38
    assert maxtext_tpu.recipes_left_out() == {"experts padded to 1.25 times their share": 2}
    assert len(maxtext_tpu.recipe_cases()) + 2 == len(read_rows(maxtext_tpu.RECIPES_FILE)) == 14


@pytest.mark.parametrize("billions", [16, 22, 32, 52, 64, 128, 256, 512, 1024])
def test_a_decoder_has_the_parameters_in_its_name(billions: int) -> None:
    assert parameters(maxtext_tpu.decoder(billions)).total / 1e9 == pytest.approx(billions, rel=0.03)


def test_rates_that_are_printed_twice_agree() -> None:
    """Utilisation from seconds and the device's peak, against the printed one: within half a point."""
    for case in maxtext_tpu.cases():
        row = ROWS[case.row.split()[0]]
        peak = case.cluster.device.peak("bf16")
        assert 100 * float(row["tflops_per_chip"]) * 1e12 / peak == pytest.approx(float(row["mfu_pct"]), abs=0.55)


def test_batches_of_recipes_are_those_of_the_printed_rates() -> None:
    """Of one row the printed batch per chip is another."""
    wrong = set()
    for case in maxtext_tpu.recipe_cases():
        row, recipe = ROWS[case.row.split()[0]], case.job.recipe
        rate = recipe.batch * recipe.seq / case.job.devices / case.measured
        assert rate == pytest.approx(float(row["tokens_per_s_per_chip"]), rel=0.001)
        if recipe.batch // case.job.devices != int(row["per_device_batch"]):
            wrong.add(row["row_id"])
    assert wrong == {"tpu06"}


def test_steps_get_longer_with_slices_as_measured_or_less() -> None:
    """Where a cluster of one slice and of 32 was measured; slices differ by more than their exchange, see the page."""
    cases = {case.row.split()[0]: case for case in maxtext_tpu.cases()}
    one, many = cases["mx09"], cases["mx29"]
    assert 1.0 <= many.predict(many) / one.predict(one) < many.measured / one.measured
