"""The verbs about programs: keys of the contract, numbers that agree, tables that fit, the same verbs in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lockstep
from cli_programs.questions import COMMANDS, LINK
from cli_runner import Session, run, shell
from lockstep.base.types.plain import plain
from lockstep.show.verbs import VERBS
from lockstep.show.views.parts.output import finite
from lockstep.simulate.program import read_trace

KEYS = {
    "messages": ("rows",),
    "collective": ("rows", "best", "assumptions"),
    "crossover": ("crossover_B", "n_star_B", "regions"),
    "pipeline": ("makespan_s", "bubble_frac", "utilization_frac", "peak_live_microbatches", "formula"),
    "overlap": ("rows", "best_bucket_B", "assumptions"),
    "stragglers": ("mean_step_s", "p50_s", "p95_s", "p99_s", "efficiency_frac", "amplification", "ci95"),
    "balance": ("static_s", "balanced_s", "shares", "speedup", "weights"),
    "experts": ("load", "dropped_frac", "all_to_all_s", "imbalance_slowdown"),
    "tensor": ("forward_flops", "backward_flops", "sent_B", "kept_frac", "policies", "rows", "run", "assumptions"),
    "checkpoint": ("young_s", "daly_s", "exact_s", "overhead_frac", "simulated"),
}
ROWS = {
    "messages": ("program", "messages", "message_elems", "total_elems", "formula"),
    "collective": (
        "algorithm", "time_s", "simulated_s", "latency_steps", "messages", "bytes_sent_per_rank", "bus_bandwidth_Bps",
        "lower_bound_s", "cross_node_B",
    ),
    "overlap": ("bucket_B", "step_s", "exposed_comm_s", "overlap_frac"),
    "tensor": ("ranks", "compute_s", "traffic_s", "exposed_s", "time_s", "speedup", "efficiency_frac", "sent_B"),
}  # fmt: skip
WORDS: dict[str, Any] = {"latency": 5e-6, "bandwidth": 25e9}
CALLS: dict[str, Callable[[], Any]] = {
    "messages": lambda: lockstep.messages(8, "25M"),
    "collective": lambda: lockstep.collective("all-reduce", ranks=12, size=10e6, simulate=True, **WORDS),
    "crossover": lambda: lockstep.crossover("all-reduce", ranks=8, between="ring,tree", **WORDS),
    "pipeline": lambda: lockstep.pipeline(stages=4, microbatches=8, schedule="zb-h1"),
    "overlap": lambda: lockstep.overlap(layers=24, backward=0.12, gradients="700MB", ranks=64, sweep=True, **WORDS),
    "stragglers": lambda: lockstep.stragglers(workers=16, law="lognormal:mean=50ms,cv=0.2", mitigation="backup:2"),
    "balance": lambda: lockstep.balance(speeds=[310] * 4 + [125] * 4, batch=1024),
    "experts": lambda: lockstep.experts(
        experts=16, top_k=2, tokens=4096, skew=0.6, capacity_factor=1.25, ranks=8, **WORDS
    ),
    "tensor": lambda: lockstep.tensor(ranks=8, hidden=1024, heads=16, seq=512, flops=100e12, run=True, **WORDS),
    "checkpoint": lambda: lockstep.checkpoint(mtbf=21_600, write="5min", restart=600.0, async_frac=0.2, simulate=True),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Session]:
    return {verb: run(*arguments, "--json") for verb, arguments in COMMANDS.items()}


def test_every_verb_has_a_question() -> None:
    assert set(COMMANDS) == set(KEYS) == set(CALLS)
    assert {*COMMANDS, "trace"} <= set(VERBS)


@pytest.mark.parametrize("verb", COMMANDS)
def test_keys_of_the_contract(verb: str, answers: dict[str, Session]) -> None:
    assert answers[verb].code == 0, answers[verb].err
    assert answers[verb].err == ""
    answer = answers[verb].json()
    assert [key for key in KEYS[verb] if key not in answer] == []
    for row in answer["rows"] if verb in ROWS else ():
        assert [key for key in ROWS[verb] if key not in row] == []


@pytest.mark.parametrize("verb", COMMANDS)
def test_command_and_function_give_the_same_answer(verb: str, answers: dict[str, Session]) -> None:
    assert json.loads(json.dumps(finite(plain(CALLS[verb]().to_dict())))) == answers[verb].json()


@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize("width", [80, 120])
def test_tables_stay_inside_the_width(verb: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    session = run(*COMMANDS[verb])
    assert session.code == 0, session.err
    assert session.out.strip()
    assert max(map(len, session.out.splitlines())) <= width


def test_every_row_has_equal_price_and_simulation(answers: dict[str, Session]) -> None:
    for row in answers["collective"].json()["rows"]:
        assert row["simulated_s"] == pytest.approx(row["time_s"], rel=1e-12)
        assert row["time_s"] >= row["lower_bound_s"] * (1 - 1e-12)


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "scatter"])
def test_nothing_on_a_cluster_beats_its_bound(op: str) -> None:
    answer = run(
        "collective", op, "--ranks", "16", "--size", "10MB", "--cluster", "dgx-h100:2", "--simulate", "--json"
    ).json()
    assert answer["node_ranks"] == 8
    assert all(row["time_s"] >= row["lower_bound_s"] * (1 - 1e-12) > 0 for row in answer["rows"])
    assert all(row["simulated_s"] == pytest.approx(row["time_s"], rel=1e-12) for row in answer["rows"])
    assert all(row["cross_node_B"] > 0 for row in answer["rows"])


def test_messages_counts_all_three_paradigms(answers: dict[str, Session]) -> None:
    rows = {row["program"]: row for row in answers["messages"].json()["rows"]}
    n, p = 8, 25_000_000
    assert (rows["all-to-all"]["messages"], rows["all-to-all"]["message_elems"]) == (n * (n - 1), p)
    assert (rows["parameter-server"]["messages"], rows["parameter-server"]["message_elems"]) == (2 * n, p)
    assert (rows["ring"]["messages"], rows["ring"]["message_elems"]) == (2 * n * (n - 1), p / n)


def test_ring_and_tree_cross_at_the_golden_size() -> None:
    """Ring and tree of 8 ranks at 1 us and 12.5 GB/s: 23,529 bytes."""
    answer = run(
        "crossover", "all-reduce", "--ranks", "8", "--between", "ring,tree", "--latency", "1us", "--bandwidth",
        "12.5GB/s", "--json",
    ).json()  # fmt: skip
    assert answer["crossover_B"] == pytest.approx(23_529.4, abs=0.1)
    assert answer["n_star_B"] == pytest.approx(12_500.0)


def test_pipeline_with_times_per_stage() -> None:
    """Forward times of four stages; the slowest one sets the pace."""
    even = run("pipeline", "--stages", "4", "--microbatches", "16", "--json").json()
    uneven = run(
        "pipeline", "--stages", "4", "--microbatches", "16", "--forward-s", "1,1,1,2", "--backward-s", "2,2,2,4",
        "--json",
    ).json()  # fmt: skip
    assert even["bubble_frac"] == pytest.approx(3 / 19)
    assert uneven["makespan_s"] >= 16 * 6


def test_a_list_of_equal_layers_equals_their_number() -> None:
    words = ("--ranks", "8", *LINK, "--bucket-size", "50MB", "--json")
    listed = run("overlap", "--layers", "10x5ms:20MB", *words).json()
    counted = run("overlap", "--layers", "10", "--backward", "50ms", "--gradients", "200MB", *words).json()
    assert listed["rows"][0]["step_s"] == pytest.approx(counted["rows"][0]["step_s"], rel=1e-12)
    assert listed["best_bucket_B"] == 50e6


def test_two_levels_of_experts() -> None:
    answer = run(
        "experts", "--experts", "32", "--tokens", "4096", "--ranks", "16", "--cluster", "dgx-h100:2", "--json"
    ).json()
    assert answer["hierarchical_s"] > 0
    assert answer["cross_node_B"] > 0


@pytest.mark.parametrize(
    "words",
    [
        ("all-reduce", "--ranks", "4", "--size", "1MB", *LINK, "--algorithm", "ring"),
        ("all-to-all", "--ranks", "16", "--size", "1MB", "--cluster", "dgx-h100:2"),
        ("pipeline", "--stages", "3", "--microbatches", "5", "--schedule", "gpipe"),
    ],
)
def test_a_trace_reads_back(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    answer = run("trace", *words, "-o", str(path), "--json").json()
    timeline = read_trace(path)
    assert timeline.makespan_s == answer["makespan_s"]
    assert len(timeline.program) == answer["operations"]
    assert run("trace", *words, "-o", str(path)).code == 0


@pytest.mark.parametrize("verb", ["collective", "crossover", "pipeline", "overlap", "tensor"])
def test_pictures_are_deterministic(verb: str, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    pytest.importorskip("matplotlib")
    paths = [tmp_path / name for name in ("one.svg", "two.svg", "one.png")]
    for path in paths:
        assert run(*COMMANDS[verb], "--plot", str(path), "--json").code == 0
    one, two, png = (path.read_bytes() for path in paths)
    assert one == two
    assert ElementTree.fromstring(one).tag.endswith("svg")
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5_000


@pytest.mark.parametrize("verb", ["stragglers", "experts", "overlap"])
def test_answers_are_identical_in_another_process(verb: str, answers: dict[str, Session]) -> None:
    assert shell(*COMMANDS[verb], "--json", env={"PYTHONHASHSEED": "2"}) == answers[verb]


def test_a_batch_that_does_not_fit_exits_with_1() -> None:
    session = run("balance", "--speeds", "1,2", "--batch", "10", "--memory", "2", "--json")
    assert session.code == 1
    assert session.json()["violations"]


def test_names_that_are_packages_and_verbs_work_as_both() -> None:
    from lockstep.simulate.parallel.data import Layers

    assert Layers.equal(1, 1.0, 1.0).forward_s == 0
    assert lockstep.overlap(layers="2x5ms:1MB", **WORDS).ranks == 8


def test_chunks_imply_the_interleaved_schedule() -> None:
    """As for `estimate` and its --vpp: a word means the same everywhere."""
    plain = ("pipeline", "--stages", "4", "--microbatches", "8", "--json")
    assert run(*plain).json() == run(*plain, "--schedule", "1f1b").json() == run(*plain, "--chunks", "1").json()
    assert run(*plain, "--chunks", "2").json() == run(*plain, "--chunks", "2", "--schedule", "interleaved").json()


def test_messages_count_models_of_any_size() -> None:
    """GPT-3 and ten trillion parameters: 2 (n - 1) p elements by a ring, n (n - 1) p by full exchange, exactly."""
    for params, number in (("175B", 175 * 10**9), ("10T", 10**13)):
        rows = {row.program: row for row in lockstep.messages(workers=512, params=params).rows}
        assert rows["ring"].total_elems == 2 * 511 * number
        assert rows["all-to-all"].total_elems == 512 * 511 * number


def test_a_comparison_reports_its_progress() -> None:
    told: list[tuple[int, int]] = []
    words = {"ranks": 8, "size": "1MB", "latency": 0, "bandwidth": "1GB/s"}
    found = lockstep.collective("all-reduce", **words, progress=lambda done, total: told.append((done, total)))
    number = len(found.comparison.rows)
    assert told == [(done, number) for done in range(1, number + 1)]
