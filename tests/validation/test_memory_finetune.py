"""Published memory of fine-tuning: every row is asked or left out by reason, and what did not fit is refused."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.check.validation import memory_finetune
from lockstep.check.validation.case import Case, read_rows
from lockstep.check.validation.vocabulary import allocated_B
from lockstep.describe.workload import parameters
from lockstep.price.layout import memory

ROWS = {row["row_id"]: row for row in read_rows(memory_finetune.FILE)}


def row(case: Case) -> dict[str, str]:
    return ROWS[case.row.split()[0]]


def median(cases: list[Case]) -> float:
    return float(np.median([abs(case.predict(case) / case.measured - 1) for case in cases]))


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert len(memory_finetune.cases()) == 51
    left = memory_finetune.left_out()
    assert left["out of memory"] == len(memory_finetune.out_of_memory()) == 6
    assert len(memory_finetune.cases()) + sum(left.values()) == len(ROWS) == 90


def test_every_step_is_predicted_or_excluded_with_a_reason() -> None:
    left = memory_finetune.time_left_out()
    assert left == {
        "tokens of a step not fixed": 65,
        "link and clock of the machine not known": 9,
        "what is recomputed is not printed": 1,
    }
    assert len(memory_finetune.time_cases()) + sum(left.values()) == len(ROWS)


def test_adapters_beside_an_offloaded_base_are_within_fifteen_percent() -> None:
    """Llama 2 70B in four bits on two RTX 4090: the host updates adapters alone (all parameters: twice as long)."""
    offloaded = [case for case in memory_finetune.time_cases() if case.layout.offload == "parameters"]
    assert len(offloaded) == 4
    assert max(abs(case.predict(case) / case.measured - 1) for case in offloaded) < 0.15


def test_contradictory_rows_are_excluded() -> None:
    """Full fine-tuning in LitGPT's config hub: less than the 8 bytes per parameter of its AdamW in bf16."""
    hub = [one for one in ROWS.values() if one["source_table"] == "config hub"]
    full = [one for one in hub if one["method"] == "Full finetune" and one["n_gpus"] == "1" and one["oom"] == "0"]
    assert len(full) == memory_finetune.left_out()["less than the states of its own configuration"] == 3
    for one in full:
        assert float(one["peak_memory"]) * 1e9 < 8 * parameters(memory_finetune.transformer(one)).total


def test_out_of_memory_runs_are_refused_and_completed_ones_fit_except_two() -> None:
    """The two fill 3 and 8 % more than there is: adapters whose dropout LitGPT shares, and 24,576 tokens in 24 GB."""
    used = {
        case.row.split()[0]: float(memory(case.job, case.cluster, case.layout.grid()).used_frac)
        for case in (*memory_finetune.out_of_memory(), *memory_finetune.cases())
    }
    refused = {name for name, frac in used.items() if frac > 1}
    assert refused - {case.row.split()[0] for case in memory_finetune.out_of_memory()} == {"mf117", "mf150"}
    assert max(used["mf117"], used["mf150"]) < 1.10
    assert {case.row.split()[0] for case in memory_finetune.out_of_memory()} <= refused


def test_models_have_the_parameters_that_litgpt_prints() -> None:
    """Trainable ones of adapters on query and value: 2 r 2 h per layer."""
    checked = 0
    for case in memory_finetune.cases():
        printed = {"mf022": 1_572_864, "mf024": 2_097_152, "mf029": 4_194_304, "mf035": 6_553_600}
        if (name := case.row.split()[0]) in printed and case.job.transformer is not None:
            assert 8 * 4 * case.job.transformer.hidden * case.job.transformer.layers == printed[name]
            checked += 1
    assert checked == 4


@pytest.mark.parametrize(("source", "most"), [("torchtune", 0.09), ("litgpt", 0.04), ("fsdp_qlora", 0.16)])
def test_median_errors_by_source_are_within_bounds(source: str, most: float) -> None:
    asked = [case for case in memory_finetune.cases() if source in row(case)["source"]]
    assert len(asked) >= 9
    assert median(asked) < most


def test_quantised_rows_of_litgpt_are_as_good_as_those_in_bf16() -> None:
    """Without what older libraries hold besides, the median error is three times as large."""
    quantised = [case for case in memory_finetune.cases() if case.job.recipe.habits.base_inputs_kept]
    assert len(quantised) >= 14
    assert median(quantised) < 0.05
    plain = [replace(case, predict=allocated_B) for case in quantised]
    assert median(plain) > 3 * median(quantised)
