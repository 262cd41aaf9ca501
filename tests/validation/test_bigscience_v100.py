"""BigScience on V100: rows asked or left out, contradictions flagged, and what memory of failed runs comes to."""

from lockstep.check.validation import bigscience_v100
from lockstep.check.validation.case import read_rows
from lockstep.price.layout import memory

ROWS = read_rows(bigscience_v100.FILE)


def test_every_row_is_predicted_or_excluded_with_a_reason() -> None:
    assert bigscience_v100.left_out() == {"network noise of several nodes": 85, "out of memory": 4}
    assert len(bigscience_v100.time_cases()) == len(bigscience_v100.memory_cases()) == 23
    assert 23 + sum(bigscience_v100.left_out().values()) == len(ROWS) == 112
    logs = read_rows(bigscience_v100.LOGS_FILE)
    assert len(bigscience_v100.log_cases()) == len(logs) == 9
    assert len(bigscience_v100.pass_cases()) == sum(bool(row["forward_compute_ms"]) for row in logs) == 8


def test_contradictory_rows_are_flagged_and_excluded() -> None:
    wrong = set(bigscience_v100.contradictions())
    assert wrong == {"v005", "v011", "v012", "v013", "v016", "v017", "v030", "v032", "v033", "v045"}
    assert not wrong & {case.row.split()[0] for case in bigscience_v100.time_cases()}


def test_the_same_layout_took_nearly_twice_as_long_on_another_day() -> None:
    """Why runs on many nodes are left out: nothing of these rows differs but the day."""
    same = ("framework", "layers", "hidden", "n_gpus", "tp", "pp", "dp", "mbs", "gbs_seqs", "gpu_type")
    asked = {row["row_id"]: tuple(row[name] for name in same) for row in ROWS}
    times = [float(row["step_time_s"]) for row in ROWS if asked[row["row_id"]] == asked["v022"]]
    assert len(times) == 4
    assert max(times) > 1.7 * min(times)


def test_runs_that_completed_fit_and_failed_ones_fill_at_least_four_fifths() -> None:
    for case in bigscience_v100.memory_cases():
        assert bool(memory(case.job, case.cluster, case.layout.grid()).fits), case.row
    failed = bigscience_v100.out_of_memory()
    used = [float(memory(case.job, case.cluster, case.layout.grid()).used_frac) for case in failed]
    assert len(used) == 4
    assert min(used) > 0.8


def test_half_of_the_steps_with_pipeline_parallelism_are_within_eight_percent_and_all_within_fifteen() -> None:
    cases = [case for case in bigscience_v100.time_cases() if case.layout.pp > 1]
    errors = sorted(abs(case.predict(case) / case.measured - 1) for case in cases)
    assert len(errors) == 15
    assert errors[7] < 0.08
    assert errors[-1] < 0.15
