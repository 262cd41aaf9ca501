"""What Megatron-LM leaves allocated between steps: held to differences between golden values, byte for byte."""

import pytest

from lockstep.check.validation import megatron_ci
from lockstep.check.validation.case import Case, read_rows
from lockstep.check.validation.megatron_kept import SMALL_B, always_B, copies_B, inputs_B

MIB = 2.0**20
ROWS = {row["row_id"]: row for row in read_rows(megatron_ci.FILE)}


def _case(row_id: str) -> Case:
    row = ROWS[row_id]
    return megatron_ci._case(row, "state_B", float(row[megatron_ci.STEADY]), megatron_ci._states_B)


def _above_B(row_id: str) -> float:
    row = ROWS[row_id]
    return float(row[megatron_ci.PEAK]) - float(row[megatron_ci.STEADY])


@pytest.mark.parametrize(
    ("flash", "cudnn", "mib"),
    [("mci0130", "mci0132", 36), ("mci0137", "mci0138", 36), ("mci0056", "mci0057", 24), ("mci0054", "mci0053", 24)],
)
def test_flash_attention_keeps_one_output_per_layer_and_micro_batch_more(flash: str, cudnn: str, mib: int) -> None:
    """The same test on A100 or GB200 and on H100: three layers of nine passes in flight, six layers of one."""
    assert _above_B(flash) - _above_B(cudnn) == pytest.approx(mib * MIB, abs=MIB / 8)
    case = _case(flash)
    assert copies_B(case.job, case.layout) == mib * MIB


@pytest.mark.parametrize("row_id", ["mci0108", "mci0111", "mci0131", "mci0150"])
def test_chunks_keep_their_last_input_and_its_gradient(row_id: str) -> None:
    """Three chunks of a stage keep two tensors of 4 x 1,024 x 512 x 2 bytes each; nothing else is left to explain."""
    case = _case(row_id)
    assert inputs_B(case.job, case.layout) == 24 * MIB
    found_B = case.predict(case) - SMALL_B
    assert found_B == pytest.approx(case.measured, abs=3 * MIB)
    assert case.measured - (found_B - 24 * MIB) > 20 * MIB


@pytest.mark.parametrize(("left", "gone"), [("mci0133", "mci0130"), ("mci0143", "mci0140"), ("mci0106", "mci0111")])
def test_some_runs_leave_a_second_micro_batch_allocated(left: str, gone: str) -> None:
    """Two runs of one test: 4 x 1,024 tokens of 28 bytes, and a mask of 1,024 bytes a token."""
    assert _above_B(gone) - _above_B(left) == pytest.approx(4 * 1024 * (28 + 1024), abs=MIB / 64)


@pytest.mark.parametrize("row_id", ["mci0053", "mci0062", "mci0108", "mci0131", "mci0155", "mci0163"])
def test_memory_above_states_is_explained_within_two_mebibytes(row_id: str) -> None:
    """Of 2.4 to 3.2 GB, on three kinds of GPU, two and four stages."""
    found_B = megatron_ci._above_B(_case(row_id), ROWS[row_id])
    assert found_B == pytest.approx(_above_B(row_id), abs=2 * MIB)


def test_a_single_stage_receives_no_inputs() -> None:
    case = _case("mci0512")
    assert case.layout.pp == 1
    assert inputs_B(case.job, case.layout) == 0


def test_one_empty_gradient_is_kept_for_every_shape_of_weight() -> None:
    """A dense layer of width h has four: 3h x h, h x h, 4h x h and h x 4h."""
    case = _case("mci0108")
    hidden = 512
    dummies_B = always_B(case.job, case.layout, True) - always_B(case.job, case.layout, False)
    assert dummies_B == 2 * (3 + 1 + 4 + 4) * hidden**2


def test_more_layers_keep_no_more_empty_gradients_but_more_rotary_tables() -> None:
    """Latent attention: three fp32 tables of 4,096 positions x 64 per layer; one layer more of prediction."""
    without, with_module = (_case(row_id) for row_id in ("mci0588", "mci0586"))
    kept = [always_B(case.job, case.layout, False) for case in (without, with_module)]
    tokens, experts = 4096 / 2, 32
    routing_B = tokens * (5 * experts + 4 * (2 * experts + 1))
    assert kept[1] - kept[0] == pytest.approx(3 * 4096 * 64 * 4 + routing_B)
