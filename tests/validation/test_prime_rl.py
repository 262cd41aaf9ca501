"""prime-rl's fine-tuning: every row is asked or left out by reason, and why its reinforcement learning is left out."""

import pytest

from lockstep.check.validation import prime_rl
from lockstep.check.validation.case import Case, read_rows
from lockstep.describe.workload import parameters
from lockstep.price.layout import Recipe, memory


def fits(case: Case) -> bool:
    return bool(memory(case.job, case.cluster, case.layout.grid()).fits)


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert prime_rl.left_out() == {
        "adapters": 33,
        "reinforcement learning": 17,
        "device not in the catalog": 1,
        "out of memory": 1,
        "failed for another reason": 1,
    }
    assert len(prime_rl.time_cases()) == len(prime_rl.memory_cases()) == 7
    assert len(prime_rl.time_cases()) + sum(prime_rl.left_out().values()) == len(read_rows(prime_rl.FILE))


def test_models_have_the_printed_parameters() -> None:
    printed = {row["row_id"]: float(row["n_params_B"]) for row in read_rows(prime_rl.FILE)}
    for case in prime_rl.time_cases():
        assert parameters(case.job.model).total / 1e9 == pytest.approx(printed[case.row.split()[0]], rel=0.01)


def test_layers_run_eagerly_and_are_sharded_and_updated_as_compiled_ones() -> None:
    """Only how kernels are launched and fused differs: what is recomputed, sharded and updated is the same."""
    compiled = Recipe.by("fsdp-compile", seq=16384, batch=16)
    for eager in (case.job.recipe for case in prime_rl.time_cases()):
        for name in ("sharding", "wire_B", "loss_kind"):
            assert getattr(eager, name) == getattr(compiled, name)
        for name in ("working_copy", "gradients_freed", "recompute_stops", "foreach_update"):
            assert getattr(eager.habits, name) == getattr(compiled.habits, name)
        assert not any((eager.fused_elementwise, eager.habits.autocast))
    assert compiled.fused_elementwise
    assert compiled.software.ways["norm"].name == "split"
    assert all(case.job.recipe.software.ways["norm"].name == "written" for case in prime_rl.time_cases())


def test_completed_runs_fit_and_failed_ones_do_not() -> None:
    assert sum(map(fits, prime_rl.memory_cases())) == 7
    assert len(prime_rl.out_of_memory()) == 1
    assert not any(map(fits, prime_rl.out_of_memory()))


def test_rates_of_reinforcement_learning_count_a_time_that_sequences_do_not_change() -> None:
    """Between two steps all weights are written: as long for 16k as for 64k tokens, and not at all for adapters."""
    rows = [row for row in read_rows(prime_rl.FILE) if row["success"] == "True" and row["task"] != "SFT"]
    between: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        step_s = float(row["step_time_s_mean"])
        rest_s = prime_rl._step_s(row) - step_s
        if row["lora_rank"] and "A6000" not in row["gpu_type"]:
            assert rest_s < 0.03 * step_s
        elif not row["lora_rank"] and row["gpu_type"] in prime_rl.CLUSTERS:
            between.setdefault((row["model"], row["gpu_type"]), []).append(rest_s)
    repeated = [times for times in between.values() if len(times) > 1]
    assert len(repeated) == 4
    assert all(max(times) < 1.15 * min(times) for times in repeated)
