"""torchtitan's and torchao's rows: every one is asked or left out by reason, and what the pages say of them holds."""

from collections import Counter

import pytest

from lockstep.check.validation import TABLES, torchao, torchtitan
from lockstep.check.validation.case import Case, read_rows


def by_row() -> dict[str, Case]:
    """torchtitan's step times by the row's name."""
    return {case.row.split(" Llama")[0]: case for case in TABLES["torchtitan"].cases()}


def test_every_torchtitan_row_is_predicted_or_excluded_with_a_reason() -> None:
    out = torchtitan.left_out()
    assert out == {
        "sequence length not printed": 3,
        "a row of torchao's table": 4,
        "slow by a fault that the page names": 2,
    }
    assert len(torchtitan.time_cases()) + sum(out.values()) == len(read_rows(torchtitan.FILE)) == 39
    assert len(torchtitan.memory_cases()) == 20


def test_every_torchao_row_is_predicted_or_excluded_with_a_reason() -> None:
    out = torchao.left_out()
    assert out == {
        "model not in the catalog": 4,
        "number of GPUs contradicts itself": 2,
        "power limit not printed": 5,
        "weight gradients in bf16, other products in fp8": 1,
    }
    assert len(torchao.cases()) + sum(out.values()) == len(read_rows(torchao.FILE)) == 18


def test_runs_on_b200_are_left_out_of_torchtitan_as_torchao_prints_the_same_rates() -> None:
    twice = [row for row in read_rows(torchtitan.FILE) if "power limited" in row["gpu_type"]]
    there = Counter(float(row["tokens_per_s_per_gpu"]) for row in read_rows(torchao.FILE) if "B200" in row["gpu"])
    assert len(twice) == 4
    assert all(there[float(row["tokens_per_s_per_gpu"])] == 1 for row in twice)


def test_the_batch_of_a_row_is_its_local_batch_on_every_replica() -> None:
    for row in read_rows(torchtitan.FILE):
        assert int(row["gbs_seqs"]) == int(row["local_batch_size"]) * int(row["fsdp_dp"])


@pytest.mark.parametrize("layers", [126, 80, 47])
@pytest.mark.parametrize("stages", [8, 16])
def test_stages_hold_every_layer_and_the_first_no_more_than_others(layers: int, stages: int) -> None:
    found = torchtitan._stages(layers, stages)
    assert len(found) == stages
    assert sum(found) == layers
    assert max(found) - min(found) <= 1
    assert found[0] == min(found)


def test_asynchronous_tensor_parallelism_is_faster_as_measured() -> None:
    cases = by_row()
    plain = [name for name in cases if name.startswith("tt-atp") and name.endswith("-0")]
    pairs = [(cases[name], cases[name[:-1] + "1"]) for name in plain]
    pairs.append((cases["tt-t4-0"], cases["tt-t4-1"]))
    assert len(pairs) == 5
    for alone, beside in pairs:
        assert beside.measured < alone.measured
        assert beside.predict(beside) < alone.predict(alone)


def test_interleaved_stages_are_faster_as_measured() -> None:
    plain, interleaved = by_row()["tt-t5-0"], by_row()["tt-t5-1"]
    assert interleaved.measured < plain.measured
    assert interleaved.predict(interleaved) < plain.predict(plain)
