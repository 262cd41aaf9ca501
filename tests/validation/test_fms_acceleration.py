"""fms-acceleration: every row is asked or left out by reason; models and states agree with the allocated memory."""

import pytest

from lockstep.check.validation import fms_acceleration
from lockstep.check.validation.case import Case, read_rows
from lockstep.describe.workload import parameters
from lockstep.price.layout import memory

RAN = [row for row in read_rows(fms_acceleration.FILE) if row["mem_torch_alloc_before_train_GiB_rank0"]]


def fits(case: Case) -> bool:
    return bool(memory(case.job, case.cluster, case.layout.grid()).fits)


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert fms_acceleration.left_out() == {"sequences of different lengths": 15, "out of memory": 9}
    asked = len(fms_acceleration.time_cases())
    assert asked + sum(fms_acceleration.left_out().values()) == len(read_rows(fms_acceleration.FILE))
    assert len(fms_acceleration.memory_cases()) == asked == 39


@pytest.mark.parametrize("row", RAN, ids=[row["row_id"] for row in RAN])
def test_parameters_and_their_formats_agree_with_the_allocated_memory(row: dict[str, str]) -> None:
    """2 + 4 bytes each on one GPU; under FSDP with gradients 2 + 2 + 4, or 4 + 4 + 8 where precision is mixed."""
    devices = int(row["n_gpus"])
    each_B = 6.0 if devices == 1 else 16.0 if row["amp"] else 8.0
    shard = parameters(fms_acceleration.transformer(row["model"])).total / devices
    allocated_B = float(row["mem_torch_alloc_before_train_GiB_rank0"]) * 2**30
    assert allocated_B == pytest.approx(each_B * shard, rel=0.01)


@pytest.mark.parametrize("row", RAN, ids=[row["row_id"] for row in RAN])
def test_sequences_per_step_match_the_printed_rates(row: dict[str, str]) -> None:
    assert float(row["samples_per_s"]) / float(row["steps_per_s"]) == pytest.approx(
        fms_acceleration._sequences(row), rel=0.02
    )


def test_seven_of_nine_runs_that_ran_out_of_memory_are_refused() -> None:
    """The others would fill 95 and 99 %: holes of the allocator decide, and what Liger keeps is underestimated."""
    cases = fms_acceleration.out_of_memory()
    assert len(cases) == 9
    accepted = [case for case in cases if fits(case)]
    assert [case.row.split()[0] for case in accepted] == ["fms251", "fms287"]
    assert all(memory(case.job, case.cluster, case.layout.grid()).used_frac > 0.9 for case in accepted)


def test_runs_that_completed_fit_in_memory() -> None:
    assert all(map(fits, fms_acceleration.memory_cases()))


def test_peaks_independent_of_the_batch_are_those_of_the_update() -> None:
    """Of each model on so many GPUs in one format, rows with the least peak: one more moment than the states."""
    updates = [case for case in fms_acceleration.memory_cases() if "Mistral" in case.row and "mb4" in case.row]
    assert len(updates) >= 6
    for case in updates:
        found = memory(case.job, case.cluster, case.layout.grid()).to_dict()
        assert found["fullest_at"] == "update"
        states_B = sum(found[f"{name}_B"] for name in ("parameters", "gradients", "optimizer"))
        wide = 4 if case.job.recipe.gradient_B == 4 else 2
        assert case.measured == pytest.approx(states_B * (1 + wide / (wide * 4)), rel=0.01)
