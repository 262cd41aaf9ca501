"""Golden values of Megatron-LM's tests: every row asked or left out by reason, and what their errors show."""

from collections import Counter

import pytest

from lockstep.check.validation import TABLES, megatron_ci, validate
from lockstep.check.validation.case import read_rows
from lockstep.describe.workload import parameters

NAMES = {"states": "megatron_ci_states", "peaks": "megatron_ci_peaks", "above": "megatron_ci_activations"}
ROWS = {row["row_id"]: row for row in read_rows(megatron_ci.FILE)}


@pytest.mark.parametrize("asked", list(NAMES))
def test_every_row_is_predicted_or_excluded_with_a_reason(asked: str) -> None:
    cases = TABLES[NAMES[asked]].cases()
    assert len(cases) == {"states": 8, "peaks": 58, "above": 68}[asked]
    assert len(cases) + sum(megatron_ci.left_out()[asked].values()) == len(ROWS) == 157


def test_excluded_peaks_have_the_expected_reasons() -> None:
    assert megatron_ci.left_out()["peaks"] == Counter(
        {
            "below 2 GiB": 44,
            "older than its configuration": 15,
            "rounds of more micro-batches than stages": 11,
            "number of GPUs not printed": 10,
            "Mamba layers": 5,
            "more than a training step": 4,
            "activations offloaded by module": 4,
            "fp8 beside bf16 weights": 3,
            "values of another test": 2,
            "passes merged across micro-batches": 1,
        }
    )


def test_step_times_are_excluded_with_a_reason() -> None:
    """Of models with 7B parameters in attention and feed-forward layers (12 h^2 each) no number of GPUs is printed."""
    assert megatron_ci.left_out()["times"] == {"number of GPUs not printed": 12, "bound by the host, below 7B": 145}
    for row in ROWS.values():
        elems = 12 * int(row["num_layers"] or 0) * int(row["hidden"] or 0) ** 2
        assert elems < 7e9 or not megatron_ci._devices(row)


def test_outdated_files_agree_with_the_test_whose_attention_is_not_fused() -> None:
    """Their peak is within 4 % of the same model's with `--attention-backend unfused`, in their own environment."""
    unfused = {
        "gpt3_mcore_te_tp1_pp4_vp1": "mci0110",
        "gpt3_mcore_te_tp1_pp2_rope_embeddings": "mci0065",
    }
    older = [row for row in ROWS.values() if megatron_ci._is_outdated(row) and "optimizer" not in row["test_case"]]
    for row in older:
        like = unfused["gpt3_mcore_te_tp1_pp4_vp1" if row["pp"] == "4" else "gpt3_mcore_te_tp1_pp2_rope_embeddings"]
        same_batch = row["gbs_seqs"] == ROWS[like]["gbs_seqs"]
        if same_batch:
            assert float(row[megatron_ci.PEAK]) == pytest.approx(float(ROWS[like][megatron_ci.PEAK]), rel=0.04)
    assert len(older) == 9


@pytest.mark.parametrize(
    ("layout", "layers"),
    [("Et*3|(tt|)*6tmL", (3, 2, 2, 2, 2, 2, 2, 1)), ("Et*3|(tt|)*6mL", (3, 2, 2, 2, 2, 2, 2, 0)), ("", ())],
)
def test_layouts_are_read_as_megatron_reads_them(layout: str, layers: tuple[int, ...]) -> None:
    """The comments of the configurations: 16 and 15 layers in 8 chunks, the last with prediction module and loss."""
    assert megatron_ci._stages({"pp_layout": layout}) == layers


def test_the_release_model_has_fifteen_billion_parameters() -> None:
    row = ROWS["mci0001"]
    assert parameters(megatron_ci._model(row)).total / 1e9 == pytest.approx(15.6, abs=0.05)


def test_peaks_of_dense_models_are_within_three_percent() -> None:
    found = validate(["megatron_ci_peaks"]).tables[0]
    dense = [error.error_frac for error in found.errors if not ROWS[error.row.split()[0]]["experts"]]
    assert len(dense) == 49
    assert max(map(abs, dense)) < 0.03
