"""`pipeline` beyond one step: all schedules side by side, micro-batches for a target, layers split into stages."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from cli_runner import run


def test_comparing_all_schedules_gives_the_answer_of_each() -> None:
    rows = run("pipeline", "--stages", "4", "--microbatches", "8,16", "--schedule", "all", "--json").json()["points"]
    assert {row["microbatches"] for row in rows} == {8, 16}
    exact = {"gpipe", "1f1b", "interleaved", "zb-h1"}
    for row in rows:
        if row["schedule"] in exact:
            chunks = {"chunks": row["chunks"]} if row["schedule"] == "interleaved" and row["chunks"] > 1 else {}
            alone = lockstep.pipeline(
                stages=4, microbatches=row["microbatches"], schedule=row["schedule"], **chunks
            ).to_dict()
            if alone["chunks"] == row["chunks"]:
                assert row["utilization_frac"] == pytest.approx(alone["utilization_frac"], rel=1e-12)


def test_no_schedule_dominates_the_front() -> None:
    rows = run("pipeline", "--stages", "2,4,8", "--microbatches", "8,32", "--schedule", "all", "--json").json()[
        "points"
    ]
    front = [row for row in rows if row["pareto"]]
    assert front
    for row in rows:
        assert any(
            best["utilization_frac"] >= row["utilization_frac"] and best["live_models"] <= row["live_models"]
            for best in front
        )


@pytest.mark.parametrize("stages", [2, 5, 8])
def test_the_fewest_micro_batches_for_a_target(stages: int) -> None:
    """1F1B is busy m / (m + p - 1), so 95 % needs 19 (p - 1)."""
    answer = run("pipeline", "--stages", str(stages), "--target", "95%", "--json").json()
    assert answer["microbatches"] == 19 * (stages - 1)
    assert answer["utilization_frac"] == pytest.approx(0.95)


def test_an_unreachable_target_exits_with_1() -> None:
    words = ("pipeline", "--stages", "4", "--target", "95%", "--transfer-s", "10", "--json")
    found = run(*words)
    assert found.code == 1
    assert found.json()["feasible"] is False


def test_layers_are_split_where_the_slowest_stage_is_fastest() -> None:
    answer = run(
        "pipeline", "--stages", "3", "--microbatches", "6", "--layers", "1x30ms,6x10ms,1x20ms", "--json"
    ).json()
    split = answer["partition"]
    assert sum(split["sizes"]) == 8
    # 110 ms in 3 stages of whole layers: 30 + 10, 40, 10 + 20 or the like; 36.7 ms cannot be reached.
    assert split["slowest_s"] == pytest.approx(0.04)
    assert answer["makespan_s"] >= 6 * 3 * 0.04


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("--microbatches", ("--stages", "4")),
        ("--microbatches", ("--stages", "4", "--microbatches", "8", "--target", "95%")),
        ("--microbatches", ("--stages", "4", "--schedule", "all")),
        ("--target", ("--stages", "4", "--target", "2")),
        ("--target", ("--stages", "2", "--target", "90%", "--forward-s", "1,2", "--backward-s", "2,4")),
        ("--layers", ("--stages", "4", "--microbatches", "8", "--layers", "3")),
        ("--layers", ("--stages", "4", "--microbatches", "8", "--layers", "3x1ms")),
        ("--forward-s", ("--stages", "2", "--microbatches", "8", "--layers", "3x1ms", "--forward-s", "1")),
        ("--layers", ("--stages", "4", "--microbatches", "8", "--schedule", "all", "--layers", "8x1ms")),
        ("--stages", ("--stages", "4,x", "--microbatches", "8", "--schedule", "all")),
    ],
)
def test_invalid_options_are_refused_at_their_flag(where: str, words: tuple[str, ...]) -> None:
    assert run("pipeline", *words, "--json").refusal().startswith(f"{where}: ")


def test_the_front_is_plotted(tmp_path: Path) -> None:
    path = tmp_path / "front.svg"
    run("pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "all", "--plot", str(path))
    assert path.read_text(encoding="utf-8").count("<use") > 20
