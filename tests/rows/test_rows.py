"""Every combination of several values is answered as if it had been asked alone."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.rows import Rows
from lockstep.base.rows.columns import columns, label, shown
from lockstep.base.rows.files import flattened
from lockstep.decide.planner import candidates
from lockstep.show.verbs import VERBS
from lockstep.show.verbs.words.about import MOST_ALIKE, about
from lockstep.show.verbs.words.calling import keywords
from lockstep.show.verbs.words.many import Combinations
from lockstep.show.views.parts.command import Command

LINK = {"latency": "5us", "bandwidth": "25GB/s"}
RUN = {"model": "llama3-8b", "cluster": "dgx-h100:2", "batch": 64}
ASKED: list[tuple[str, dict[str, Any], dict[str, list[Any]]]] = [
    ("collective", {"op": "all-reduce", "size": "1MB", **LINK}, {"ranks": ["2", "4", "7"]}),
    ("crossover", {"op": "all-reduce", **LINK}, {"ranks": [4, 8]}),
    ("messages", {"params": "1M"}, {"workers": [2, 4, 8]}),
    ("pipeline", {"stages": 4}, {"microbatches": [4, 8], "chunks": [1]}),
    ("overlap", {"layers": 8, "backward": "80ms", "gradients": "70MB", **LINK}, {"bucket_size": ["1MB", "9MB"]}),
    ("tensor", {"ranks": 4, "heads": 8, "hidden": 512, "flops": "10T", "params": "9M", **LINK}, {"seq": [128, 256]}),
    ("experts", {"experts": 8, "tokens": 1024, "ranks": 4, **LINK}, {"skew": [0, 1, 2]}),
    ("stragglers", {"law": "exponential:mean=1s"}, {"workers": [2, 3], "comm": ["0", "10ms"]}),
    ("balance", {"speeds": "1,2,3"}, {"batch": [6, 60]}),
    ("checkpoint", {"mtbf": "6h"}, {"write": ["1min", "5min"]}),
    ("speedup", {"compute": "1s", **LINK}, {"size": ["1MB", "1GB"]}),
    ("estimate", RUN, {"tp": [1, 2], "zero": [1, 3]}),
    ("memory", RUN, {"micro_batch": [1, 2]}),
    ("roofline", RUN, {"tp": [1, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fixed", "lists"), ASKED, ids=[one[0] for one in ASKED])
def test_a_row_is_the_answer_to_its_own_question(name: str, fixed: dict[str, Any], lists: dict[str, list[Any]]) -> None:
    function = getattr(lockstep, name)
    found = function(**fixed, **lists)
    assert isinstance(found, Rows)
    assert found.complete
    assert found.ok
    number = 1
    for values in lists.values():
        number *= len(values)
    assert len(found.rows) == found.asked == number
    for row in found.rows:
        assert row.answer == function(**fixed, **row.given).to_dict()
    assert {key for row in found.to_dict()["rows"] for key in row} >= set(lists)
    verb = command(name)
    made = columns(found, verb.figures, verb.series)
    assert made
    assert not verb.figures or [one.key for one in made] == [
        key for key in verb.figures if key in {one.key for one in made}
    ]


def test_rows_of_different_cluster_sizes_are_labelled() -> None:
    names = ["dgx-h100:1", "dgx-h100:2"]
    found = lockstep.plan("gpt2-xl", names, batch=16, seq=1024)
    assert [one["cluster"] for one in found.to_dict()["rows"]] == names


def test_an_interrupted_answer_is_not_a_row_and_ends_the_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"model": "gpt2-xl", "batch": 16, "seq": [512, 1024, 2048]}
    sizes, calls, stop_at = candidates.peak_B, [0], [0]

    def counted(job: Any, grid: Any) -> Any:
        calls[0] += 1
        if calls[0] == stop_at[0]:
            raise KeyboardInterrupt
        return sizes(job, grid)

    monkeypatch.setattr(candidates, "peak_B", counted)
    lockstep.plan(**asked | {"seq": 512}, cluster="dgx-h100:1").to_dict()
    # In the second plan, when a part of it has been searched.
    stop_at[0], calls[0] = calls[0] + 2, 0
    store = tmp_path / "plans.sweep"
    stopped = lockstep.plan(**asked, cluster="dgx-h100:1", store=store)
    assert (len(stopped.rows), stopped.asked, stopped.complete) == (1, 3, False)
    whole = lockstep.plan(**asked, cluster="dgx-h100:1", store=store)
    assert [row.answer["complete"] for row in whole.rows] == [True] * 3


def test_groups_differ_in_one_option_alone() -> None:
    lists = {
        "model": [("a", "a"), ("b", "b")],
        "batch": [(n, n) for n in range(MOST_ALIKE + 3)],
        "seq": [(1, 1), (2, 2)],
    }
    combinations = Combinations(lists)
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for place in range(len(combinations)):
        groups.setdefault(combinations.group("batch", MOST_ALIKE, place), []).append(combinations[place])
    assert sorted(map(len, groups.values())) == [3] * 4 + [MOST_ALIKE] * 4
    for several in groups.values():
        assert len({(one["model"], one["seq"]) for one in several}) == 1
        assert len({one["batch"] for one in several}) == len(several)


def command(verb: str) -> Command:
    """How a verb is shown."""
    found = import_module(f"lockstep.show.views.{verb}").COMMAND
    assert isinstance(found, Command)
    return found


def test_every_figure_of_the_table_of_verbs_is_in_an_answer() -> None:
    keys: dict[str, set[str]] = {}
    machines: tuple[str, dict[str, Any], dict[str, list[Any]]] = ("memory", {}, {"cluster": ["rtx-4090:1", "l40s:1"]})
    for name, fixed, lists in [*ASKED, machines]:
        found = getattr(lockstep, name)(**fixed, **lists)
        keys.setdefault(name, set()).update(one.key for one in columns(found, command(name).figures, None))
    for name, found in keys.items():
        figures = command(name).figures
        assert found == set(figures) or not figures


def test_the_last_option_varies_fastest_and_values_are_in_si_units() -> None:
    found = lockstep.collective("all-reduce", ranks="2..8x2", size="1KB,1MB", **LINK)
    assert [tuple(row.point.values()) for row in found.rows] == [(n, s) for n in (2, 4, 8) for s in (1000, 1000000)]
    rows = found.to_dict()["rows"]
    assert {"ranks", "size", "algorithm", "time_s"} <= rows[0].keys()
    assert lockstep.checkpoint(mtbf="6h", write="1min,2min").rows[1].point == {"write": 120}
    assert lockstep.speedup(compute="1s", size="1MB", serial="5%,10%", **LINK).rows[0].point == {"serial": 0.05}


def test_positional_options_take_lists_too() -> None:
    assert [row.point for row in lockstep.messages("2,4", "1k").rows] == [{"workers": 2}, {"workers": 4}]


def test_a_combination_without_an_answer_gives_a_reason() -> None:
    found = lockstep.estimate(**RUN, tp=[2, 3])
    assert found.rows[0].answer is not None
    assert found.rows[1].answer is None
    assert "--tp" in found.rows[1].why
    assert found.to_dict()["rows"][1] == {"tp": 3, "why": found.rows[1].why}


def test_no_answer_at_all_is_the_first_refusal() -> None:
    with pytest.raises(BadInput, match="--tp"):
        lockstep.estimate(**RUN, tp=[3, 5])


def test_no_feasible_answer_exits_with_1() -> None:
    found = lockstep.plan("gpt3-175b", "dgx-h100:1", batch=[64, 128])
    assert not found.ok
    assert all(row.answer is None for row in found.rows)
    with pytest.raises(Infeasible):
        lockstep.plan("gpt3-175b", "dgx-h100:1", batch=64)


def test_ctrl_c_keeps_finished_rows() -> None:
    def stop(done: int, total: int) -> None:
        assert total == 5
        if done == 3:
            raise KeyboardInterrupt

    found = lockstep.messages("2..6", 1000, progress=stop)
    assert [len(found.rows), found.asked, found.complete] == [3, 5, False]
    assert found.to_dict()["complete"] is False


def test_too_many_combinations_are_refused_before_computing() -> None:
    with pytest.raises(BadInput, match="combinations"):
        lockstep.collective("all-reduce", ranks="2..1000", size="1..1000", **LINK)


def test_every_verb_is_a_function_with_types() -> None:
    for verb in VERBS:
        function, lists = getattr(lockstep, verb), command(verb).lists
        assert function.__name__ == verb
        assert about(function).lists is lists
        kinds = keywords(function.__wrapped__)
        assert not lists or any(kind.unit is not None for kind in kinds.values()), verb


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("step_time_s", 0.5, "500 ms"),
        ("memory.total_B", 2**30, "1 GiB"),
        ("mfu_frac", 0.5, "50 %"),
        ("tokens_per_s", 2e6, "2M"),
        ("memory.fits", True, "yes"),
        ("messages", 1200, "1,200"),
        ("speedup", None, "-"),
        ("bound_by", "compute", "compute"),
    ],
)
def test_a_figure_is_shown_in_the_unit_of_its_key(key: str, value: Any, text: str) -> None:
    assert shown(key, value) == text


def test_keys_have_readable_labels() -> None:
    assert [label(key) for key in ("step_time_s", "memory.total_B", "rows.0.step_s")] == ["step time", "memory", "step"]


COMMAND = [
    "collective",
    "all-reduce",
    "--ranks",
    "2..16x2",
    "--size",
    "1MB",
    "--latency",
    "5us",
    "--bandwidth",
    "25GB/s",
]


def test_the_command_line_prints_rows_and_writes_csv_and_picture(tmp_path: Path) -> None:
    table, picture = tmp_path / "a.csv", tmp_path / "a.svg"
    found = run(*COMMAND, "--json", "--csv", str(table), "--plot", str(picture))
    assert found.code == 0
    rows = json.loads(found.out)["rows"]
    with open(table, encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == len(rows)
    assert [float(one["time_s"]) for one in written] == [one["time_s"] for one in rows]
    assert [int(one["ranks"]) for one in written] == [one["ranks"] for one in rows]
    assert picture.read_text("utf-8").count("<path") > 10
    shown_rows = run(*COMMAND).out
    assert "4 of 4" in shown_rows
    assert "rabenseifner" in shown_rows


def test_a_row_of_a_plan_has_the_figures_of_its_best_layout() -> None:
    best = {"layout": {"dp": 4, "stages": []}, "step_time_s": 1.5}
    found = flattened({"verdict": "one", "plans": [best, {"layout": {"dp": 2}, "step_time_s": 2.5}], "front": [best]})
    assert found["plans.0.step_time_s"] == 1.5
    assert found["plans.0.layout.dp"] == 4
    assert json.loads(found["plans"])[1]["step_time_s"] == 2.5
    assert not [name for name in found if name.startswith(("plans.1", "front."))]
    assert flattened({"plans": []}) == {"plans": "[]"}


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["memory", "llama3-8b", "-c", "dgx-h100:1", "--batch", "8", "--csv", "a.csv"], "--csv"),
        (
            ["estimate", "llama3-8b", "-c", "dgx-h100:1", "--batch", "8", "--zero", "1,3", "--trace", "a.json"],
            "--trace",
        ),
        (["messages", "--workers", "2,", "--params", "1M"], "--workers"),
        (["pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "all", "--csv", "a.csv"], "--csv"),
        (
            ["pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "all", "--backward-s", "1,2"],
            "--backward-s",
        ),
        (["catalog", "devices", "--csv", "a.csv"], "--csv"),
    ],
)
def test_verbs_without_rows_refuse_lists(arguments: list[str], place: str) -> None:
    found = run(*arguments)
    assert found.code == 2
    assert place in found.err


def test_rows_without_any_answer_exit_with_1() -> None:
    found = run("plan", "gpt3-175b", "-c", "dgx-h100:1", "--batch", "64,128")
    assert found.code == 1
    assert "0 of 2" in found.out
