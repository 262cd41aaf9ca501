"""What every verb promises: keys, exit codes, one JSON object on stdout, nothing there on bad input."""

import json
import numbers
import re
from collections.abc import Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_runner import LLAMA, Session, run
from lockstep.base.types.plain import plain
from lockstep.base.units import format_frac
from lockstep.show.verbs import VERBS
from lockstep.show.views.parts.output import finite
from lockstep.simulate.program import read_trace

LAYOUT = ("dp", "tp", "pp", "cp", "ep", "vpp", "zero", "micro_batch", "recompute", "sequence_parallel", "schedule")
ESTIMATE = (
    "step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu_frac", "hfu_frac", "model_flops_per_gpu_per_s",
    "breakdown_s", "memory", "bound_by", "assumptions",
)  # fmt: skip
BREAKDOWN = ("compute", "tp_comm", "pp_comm", "dp_comm", "ep_comm", "cp_comm", "bubble", "optimizer", "other")
MEMORY = ("parameters_B", "gradients_B", "optimizer_B", "activations_B", "buffers_B", "total_B", "capacity_B", "fits")
TABLE = ("name", "rows", "mean_signed_frac", "median_abs_frac", "max_abs_frac", "tolerance_frac", "ok", "worst")

COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", *LLAMA, "--tokens", "1T"),
    "estimate": ("estimate", *LLAMA, "--tp", "2", "--zero", "1", "--sequence-parallel", "--recompute", "selective"),
    "memory": ("memory", *LLAMA, "--tp", "2", "--pp", "2", "--zero", "1"),
    "roofline": ("roofline", *LLAMA, "--tp", "2", "--zero", "1"),
    "sensitivity": ("sensitivity", "gpt2", "--cluster", "dgx-h100", "--batch", "64"),
    "catalog": ("catalog",),
    "support": ("support",),
    "validate": ("validate", "korthikanti_2022"),
    "export": ("export", *LLAMA, "--to", "megatron", "--tp", "2", "--zero", "1"),
    "cite": ("cite", *LLAMA, "--tp", "2", "--zero", "1"),
}
"""A good question for every verb of the planner; verbs about programs have tests of their own."""


@pytest.fixture(scope="module")
def answers() -> dict[str, Session]:
    """Every command with --json, run once."""
    return {verb: run(*arguments, "--json") for verb, arguments in COMMANDS.items()}


def having(answer: dict[str, Any], *keys: str) -> None:
    assert [key for key in keys if key not in answer] == []


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_prints_one_json_object(verb: str, answers: dict[str, Session]) -> None:
    session = answers[verb]
    assert session.code == 0, session.err
    assert re.fullmatch(r"searched [\d,]+ layouts in [\d.]+ s\n" if verb == "plan" else "", session.err)
    assert session.json()


def test_plan_keeps_its_keys(answers: dict[str, Session]) -> None:
    answer = answers["plan"].json()
    having(answer, "plans", "evaluated", "feasible", "rejected", "assumptions", "verdict", "days", "cost")
    for one in answer["plans"]:
        having(one, "layout", "step_time_s", "tokens_per_s", "mfu_frac", "memory_B", "memory_frac", "bound_by")
        having(one, "cost_per_token", "pareto")
        having(one["layout"], *LAYOUT)
    assert all(set(one) >= {"why", "count"} for one in answer["rejected"])
    assert len(answer["plans"]) == 5
    times_s = [one["step_time_s"] for one in answer["plans"]]
    assert times_s[0] <= 1.03 * min(times_s)


def test_estimate_keeps_its_keys(answers: dict[str, Session]) -> None:
    answer = answers["estimate"].json()
    having(answer, *ESTIMATE)
    having(answer["breakdown_s"], *BREAKDOWN)
    having(answer["memory"], *MEMORY)
    assert sum(answer["breakdown_s"].values()) == pytest.approx(answer["step_time_s"])


def test_memory_keeps_its_keys(answers: dict[str, Session]) -> None:
    answer = answers["memory"].json()
    having(answer, "memory", "stages", "by_category")
    assert [stage["stage"] for stage in answer["stages"]] == [0, 1]
    for one in (answer["memory"], *answer["stages"]):
        having(one, *MEMORY)
    total_B = sum(part["size_B"] for part in answer["by_category"].values())
    assert total_B == pytest.approx(answer["memory"]["total_B"])
    assert max(stage["total_B"] for stage in answer["stages"]) == answer["memory"]["total_B"]


def test_roofline_keeps_its_keys(answers: dict[str, Session]) -> None:
    for level in answers["roofline"].json()["levels"]:
        having(level, "name", "ridge_flop_per_B", "intensity_flop_per_B", "bound", "critical_batch")


def test_sensitivity_keeps_its_keys(answers: dict[str, Session]) -> None:
    answer = answers["sensitivity"].json()
    having(answer["elasticity"], "peak_flops", "memory_B", "intra_bw", "inter_bw", "latency")
    savings = [one["saving_frac"] for one in answer["upgrades"]]
    assert savings == sorted(savings, reverse=True)
    for one in answer["upgrades"]:
        having(one, "what", "step_time_s", "saving_frac", "cost")


def test_catalog_lists_every_kind_with_sources(answers: dict[str, Session]) -> None:
    answer = answers["catalog"].json()
    assert list(answer) == ["models", "devices", "clusters", "links", "stacks", "optimizers"]
    assert all(row["source"] for row in answer["models"])
    for shelf in ("devices", "clusters", "links"):
        for row in answer[shelf]:
            assert row["provenance"], row["name"]
            assert all(source["text"] for source in row["provenance"].values())
    for shelf in answer:
        assert run("catalog", shelf, "--json").json() == {shelf: answer[shelf]}


def test_validate_keeps_its_keys(answers: dict[str, Session]) -> None:
    (table,) = answers["validate"].json()["tables"]
    having(table, *TABLE)


def test_cite_and_export_print_text(answers: dict[str, Session]) -> None:
    assert "--tensor-model-parallel-size 2" in answers["export"].json()["text"]
    for one in answers["cite"].json()["citations"]:
        having(one, "key", "text", "bibtex")
        assert one["bibtex"].startswith("@")
    assert run(*COMMANDS["cite"], "--bibtex").out.count("\n@") + 1 == len(answers["cite"].json()["citations"])


def test_validation_out_of_tolerance_exits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from lockstep.check.validation import report

    strict = replace(report.TABLES["korthikanti_2022"], tolerance_frac=1e-9)
    monkeypatch.setitem(report.TABLES, "korthikanti_2022", strict)
    session = run("validate", "korthikanti_2022", "--json")
    assert session.code == 1
    assert session.json()["tables"][0]["ok"] is False


@pytest.mark.parametrize("verb", ["estimate", "memory"])
def test_a_layout_that_does_not_fit_exits_with_1(verb: str) -> None:
    arguments = (verb, "llama3-405b", "--cluster", "dgx-h100", "--batch", "8", "--tp", "8")
    session = run(*arguments, "--json")
    assert session.code == 1
    assert session.json()["memory"]["fits"] is False
    assert "does not fit" in run(*arguments).out


def test_an_impossible_plan_reports_the_missing_memory() -> None:
    arguments = ("plan", "llama3-405b", "--cluster", "dgx-h100", "--batch", "8")
    session = run(*arguments, "--json")
    assert session.code == 1
    answer = session.json()
    assert answer["feasible"] is False
    (memory,) = [one for one in answer["violations"] if one["why"] == "memory"]
    assert memory["excess"] > 0
    human = run(*arguments)
    assert (human.code, human.out) == (1, "")
    assert human.err.startswith("no: ")
    assert "try more devices" in human.err


def test_no_number_in_an_answer_is_a_numpy_one() -> None:
    def leaves(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for inner in value.values():
                yield from leaves(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from leaves(inner)
        else:
            yield value

    import numpy as np

    made = finite(plain({"a": np.float64("inf"), "b": np.arange(2), "c": (1, float("nan")), "d": np.bool_(True)}))
    assert made == {"a": None, "b": [0, 1], "c": [1, None], "d": True}
    assert all(one is None or type(one) in (bool, int, float) for one in leaves(made))
    assert all(isinstance(one, numbers.Number) for one in leaves(made) if one is not None)


def test_help_names_every_verb_and_each_has_examples() -> None:
    session = run("--help")
    assert session.code == 0
    for verb in VERBS:
        assert f" {verb} " in session.out
        one = run(verb, "--help")
        assert one.code == 0
        assert "Example" in one.out, verb
        assert f"lockstep {verb}" in one.out, verb


def test_version_option_prints_the_version() -> None:
    import lockstep

    assert run("--version").out == f"lockstep {lockstep.__version__}\n"


def test_estimate_writes_a_plot_and_a_trace(tmp_path: Path) -> None:
    words = [
        "estimate",
        "llama3-8b",
        "-c",
        "dgx-h100:4",
        "--batch",
        "64",
        "--tp",
        "2",
        "--pp",
        "4",
        "--sequence-parallel",
        "--json",
    ]
    picture, trace = tmp_path / "step.png", tmp_path / "step.json.gz"
    found = run(*words, "--plot", str(picture), "--trace", str(trace))
    assert found.code == 0
    assert picture.stat().st_size > 1000
    spans = read_trace(trace)
    assert spans.makespan_s == pytest.approx(json.loads(found.out)["step_time_s"], rel=1e-6)
    assert run(*words, "--trace", str(trace), "--expand", "messages").code == 0
    opened = read_trace(trace)
    assert opened.program.ranks > spans.program.ranks
    assert opened.makespan_s == pytest.approx(spans.makespan_s, rel=1e-9)
    refused = run(*words, "--trace", str(trace), "--expand", "sends")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: --expand")
    for flag, wrong in (("--trace", "step.txt"), ("--plot", "step.txt"), ("--expand", "layers")):
        refused = run(*words, flag, wrong if flag == "--expand" else str(tmp_path / wrong))
        assert refused.code == 2
        assert refused.err.startswith(f"error: {flag}")
        assert refused.out == ""


def test_plan_plots_its_layouts_and_pareto_front(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pictures = [tmp_path / name for name in ("plan.svg", "again.svg")]
    answer, _ = (run("plan", *LLAMA, "--plot", str(picture), "--json").json() for picture in pictures)
    drawn = pictures[0].read_text(encoding="utf-8")
    assert drawn == pictures[1].read_text(encoding="utf-8")
    for one in answer["plans"]:
        assert f"{format_frac(one['mfu_frac'])} MFU" in drawn


@pytest.mark.parametrize(("words", "code"), [({}, 0), ({"ok": True}, 0), ({"ok": False}, 1)])
def test_bench_exits_with_1_only_for_wrong_results(
    words: dict[str, bool], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels have nothing to be wrong about."""
    bench = import_module("lockstep.show.verbs.bench")
    answer = SimpleNamespace(to_dict=lambda: {"rows": []}, **words)
    monkeypatch.setattr("lockstep.show.verbs.bench.bench", wraps(bench.bench)(lambda op, **given: answer))
    found = run("bench", "matmul", "--json")
    assert (found.code, found.json()) == (code, {"rows": []})


def test_a_command_after_the_end_of_options_is_the_command() -> None:
    assert run("--", "catalog", "links").out == run("catalog", "links").out != ""


def test_a_file_after_a_model_is_refused_with_the_at_syntax(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text('{"train_batch_size": 8}', encoding="utf-8")
    question = ("-c", "dgx-h100:1", "--batch", "8", "--seq", "2048")
    assert f"llama3-8b@{file}" in run("estimate", "llama3-8b", str(file), *question).refusal()
    assert run("estimate", f"llama3-8b@{file}", *question).code in (0, 1)
    assert "@" not in run("estimate", "llama3-8b", "no-such-file", *question).refusal()
