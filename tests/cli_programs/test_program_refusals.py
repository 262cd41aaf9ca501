"""Bad input to the verbs about programs: one located line on stderr, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from cli_programs.questions import COMMANDS, LINK
from cli_runner import run

LAYER = ("--hidden", "64", "--heads", "4", "--seq", "32", "--flops", "1T")
GROUP = ("--ranks", "8", "--size", "1MB")
REFUSED: list[tuple[str, tuple[str, ...]]] = [
    ("--workers", ("messages", "--workers", "0", "--params", "1M")),
    ("--out", ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "x" * 300 + ".json")),
    ("--plot", ("pipeline", "--stages", "2", "--microbatches", "2", "--plot", "x" * 300 + "/x.png")),
    ("--params", ("messages", "--workers", "8", "--params", "many")),
    ("--program", ("messages", "--workers", "8", "--params", "1M", "--program", "rings")),
    ("OP", ("collective", "allreduce", *GROUP, *LINK)),
    ("--ranks", ("collective", "all-reduce", "--ranks", "0", "--size", "1MB", *LINK)),
    ("--ranks", ("collective", "all-reduce", "--ranks", "2.5", "--size", "1MB", *LINK)),
    ("--ranks", ("collective", "all-reduce", "--ranks", "1e12", "--size", "1MB", *LINK)),
    ("--size", ("collective", "all-reduce", "--ranks", "8", "--size", "1s", *LINK)),
    ("--size", ("collective", "all-reduce", "--ranks", "8", "--size", "-1", *LINK)),
    ("--algorithm", ("collective", "all-reduce", *GROUP, *LINK, "--algorithm", "rung")),
    ("--bandwidth", ("collective", "all-reduce", *GROUP, "--latency", "5us")),
    ("--bandwidth", ("collective", "all-reduce", *GROUP, "--latency", "5us", "--bandwidth", "0")),
    ("--bandwidth", ("collective", "all-reduce", *GROUP, "--latency", "5us", "--bandwidth", "25GB")),
    ("--latency", ("collective", "all-reduce", *GROUP, "--latency", "5GB", "--bandwidth", "25GB/s")),
    ("--latency", ("collective", "all-reduce", *GROUP, "--bandwidth", "25GB/s")),
    ("--cluster", ("collective", "all-reduce", *GROUP, *LINK, "--cluster", "dgx-h100:2")),
    ("--cluster", ("collective", "all-reduce", *GROUP, "--cluster", "dgx-h1000")),
    ("--ranks", ("collective", "all-reduce", "--ranks", "17", "--size", "1MB", "--cluster", "dgx-h100:2")),
    ("--ranks", ("collective", "all-reduce", "--ranks", "12", "--size", "1MB", "--cluster", "dgx-h100:2")),
    ("--between", ("crossover", "all-reduce", "--ranks", "8", *LINK, "--between", "ring")),
    ("--between", ("crossover", "all-reduce", "--ranks", "8", *LINK, "--between", "ring,trie")),
    ("--stages", ("pipeline", "--stages", "0", "--microbatches", "8")),
    ("--stages", ("pipeline", "--microbatches", "8")),
    ("--microbatches", ("pipeline", "--stages", "4", "--microbatches", "1e8")),
    ("--schedule", ("pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "2f2b")),
    ("--schedule", ("pipeline", "--stages", "4", "--microbatches", "9", "--schedule", "interleaved")),
    ("--forward-s", ("pipeline", "--stages", "4", "--microbatches", "8", "--forward-s", "1,2")),
    ("--forward-s", ("pipeline", "--stages", "4", "--microbatches", "8", "--forward-s", "0", "--backward-s", "0")),
    ("--backward-s", ("pipeline", "--stages", "4", "--microbatches", "8", "--backward-s", "5GB")),
    ("--layers", ("overlap", "--layers", "0", "--backward", "1s", "--gradients", "1GB", *LINK)),
    ("--layers", ("overlap", "--layers", "3x5ms", *LINK)),
    ("--layers", ("overlap", "--layers", "1e5x5ms:1MB", *LINK)),
    ("--backward", ("overlap", "--layers", "3", *LINK)),
    ("--gradients", ("overlap", "--layers", "3", "--backward", "1s", *LINK)),
    ("--backward", ("overlap", "--layers", "3x5ms:1MB", "--backward", "1s", *LINK)),
    ("--bucket-size", ("overlap", "--layers", "3x5ms:1MB", "--bucket-size", "0", *LINK)),
    ("--efficiency", ("overlap", "--layers", "3x5ms:1MB", "--efficiency", "0", *LINK)),
    ("--efficiency", ("overlap", "--layers", "3x5ms:1MB", "--efficiency", "120%", *LINK)),
    ("--algorithm", ("overlap", "--layers", "3x5ms:1MB", "--algorithm", "", *LINK)),
    ("--law", ("stragglers", "--workers", "4", "--law", "gamma:mean=1s")),
    ("--law", ("stragglers", "--workers", "4", "--law", "lognormal:mean=0,cv=1")),
    ("--law", ("stragglers", "--workers", "4", "--law", "pareto:minimum=1s,shape=0.5")),
    ("--mitigation", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--mitigation", "drop:4")),
    ("--mitigation", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--mitigation", "backup")),
    ("--mitigation", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--mitigation", "backup:9e9")),
    ("--mitigation", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--mitigation", "wait:1")),
    (
        "--mitigation",
        ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--mitigation", "bounded:99999999"),
    ),
    ("--mitigation", ("stragglers", "--workers", "1e5", "--law", "constant:value=1s", "--mitigation", "bounded:9999")),
    ("--mitigation", ("stragglers", "--workers", "1e5", "--law", "constant:value=1s", "--mitigation", "local:9999")),
    ("--workers", ("stragglers", "--workers", "1e9", "--law", "constant:value=1s")),
    ("--slow", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--slow", "5")),
    ("--slow-factor", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--slow-factor", "3")),
    ("--chunks", ("pipeline", "--stages", "4", "--microbatches", "8", "--schedule", "1f1b", "--chunks", "2")),
    ("--out", ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "x" * 300 + ".json")),
    ("--plot", ("pipeline", "--stages", "2", "--microbatches", "2", "--plot", "x" * 300 + "/x.png")),
    ("--params", ("messages", "--workers", "4", "--params", "100T")),
    ("--weight-s", ("pipeline", "--stages", "4", "--microbatches", "8", "--weight-s", "7")),
    ("--forward-comm-s", ("pipeline", "--stages", "4", "--microbatches", "8", "--forward-comm-s", "7")),
    (
        "--algorithm",
        (
            "trace",
            "all-reduce",
            "--ranks",
            "4",
            "--size",
            "1MB",
            "--latency",
            "5us",
            "--bandwidth",
            "25GB/s",
            "--algorithm",
            "",
            "-o",
            "t.json",
        ),
    ),
    (
        "--slow-factor",
        ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--slow", "1", "--slow-factor", "0"),
    ),
    ("--comm", ("stragglers", "--workers", "4", "--law", "constant:value=1s", "--comm", "4GB")),
    ("--speeds", ("balance", "--speeds", "1,0", "--batch", "4")),
    ("--speeds", ("balance", "--speeds", "1,,2", "--batch", "4")),
    ("--speeds", ("balance", "--speeds", "1e9x1", "--batch", "4")),
    ("--batch", ("balance", "--speeds", "1,2", "--batch", "0")),
    ("--memory", ("balance", "--speeds", "1,2", "--batch", "4", "--memory", "1,2,3")),
    ("--sample-memory", ("balance", "--speeds", "1,2", "--batch", "4", "--sample-memory", "1GB")),
    ("--sample-memory", ("balance", "--speeds", "1,2", "--batch", "4", "--memory", "1GB", "--sample-memory", "0")),
    ("--ranks", ("experts", "--experts", "7", "--tokens", "64", "--ranks", "2", *LINK)),
    ("--top-k", ("experts", "--experts", "8", "--top-k", "9", "--tokens", "64", "--ranks", "2", *LINK)),
    ("--tokens", ("experts", "--experts", "8", "--tokens", "1e9", "--ranks", "2", *LINK)),
    ("--skew", ("experts", "--experts", "8", "--tokens", "64", "--skew", "-1", "--ranks", "2", *LINK)),
    ("--temperature", ("experts", "--experts", "8", "--tokens", "64", "--temperature", "0", "--ranks", "2", *LINK)),
    (
        "--capacity-factor",
        ("experts", "--experts", "8", "--tokens", "64", "--capacity-factor", "0", "--ranks", "2", *LINK),
    ),
    ("--placement", ("experts", "--experts", "8", "--tokens", "64", "--placement", "here", "--ranks", "2", *LINK)),
    ("--ranks", ("tensor", "--ranks", "3", *LAYER, *LINK)),
    ("--ranks", ("tensor", "--ranks", "0", *LAYER, *LINK)),
    ("--ranks", ("tensor", "--ranks", "2", *LAYER, *LINK, "--ffn", "33")),
    ("--ranks", ("tensor", "--ranks", "2", *LAYER, *LINK, "--seq", "33", "--sequence-parallel")),
    ("--ranks", ("tensor", "--ranks", "128", *LAYER, *LINK, "--heads", "128", "--hidden", "128", "--run")),
    ("--ranks", ("tensor", "--ranks", "16", *LAYER, "--heads", "16", "-c", "dgx-h100")),
    ("--heads", ("tensor", "--ranks", "2", *LAYER, *LINK, "--heads", "5")),
    ("--hidden", ("tensor", "--ranks", "2", *LAYER, *LINK, "--hidden", "1e9")),
    ("--flops", ("tensor", "--ranks", "2", *LAYER, *LINK, "--flops", "0")),
    ("--flops", ("tensor", "--ranks", "2", *LAYER, *LINK, "--flops", "600")),
    ("--flops", ("tensor", "--ranks", "2", "--hidden", "64", "--heads", "4", "--seq", "32", *LINK)),
    ("--bandwidth", ("tensor", "--ranks", "2", *LAYER)),
    ("--overlap", ("tensor", "--ranks", "2", *LAYER, *LINK, "--overlap", "some")),
    ("--element-size", ("tensor", "--ranks", "2", *LAYER, *LINK, "--element-size", "0")),
    ("WHAT", ("trace", "train", "-o", "x.json.gz")),
    ("--out", ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "x.txt")),
    ("--out", ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "-o", "no/such/folder/x.json.gz")),
    ("--stages", ("trace", "pipeline", "-o", "x.json.gz")),
    ("--size", ("trace", "all-reduce", "--ranks", "4", *LINK, "-o", "x.json.gz")),
    ("--size", ("trace", "pipeline", "--stages", "2", "--microbatches", "2", "--size", "1", "-o", "x.json.gz")),
    ("--ranks", ("trace", "all-to-all", "--ranks", "1e5", "--size", "1GB", *LINK, "-o", "x.json.gz")),
]


@pytest.mark.parametrize(("where", "arguments"), REFUSED, ids=lambda value: value if isinstance(value, str) else None)
def test_invalid_options_are_refused_at_their_flag_and_write_nothing(
    where: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = run(*arguments, "--json").refusal()
    assert message.startswith(f"{where}: "), message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["picture.txt", "no/such/folder/picture.png"])
@pytest.mark.parametrize("verb", ["collective", "crossover", "pipeline", "overlap", "tensor"])
def test_unwritable_plot_paths_are_refused(
    verb: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*COMMANDS[verb], "--plot", name).refusal().startswith("--plot: ")
    assert list(tmp_path.iterdir()) == []


def test_a_link_without_units_is_refused_with_the_possible_units() -> None:
    """As words; a number of Python's is in SI units."""
    slow = run("collective", "all-reduce", *GROUP, "--latency", "8", "--bandwidth", "25GB/s").refusal()
    assert slow == "--latency: 8 has no unit; write 8 us or 8 s"
    thin = run("collective", "all-reduce", *GROUP, "--latency", "5us", "--bandwidth", "25").refusal()
    assert thin == "--bandwidth: 25 has no unit; write 25 GB/s or 25 Gbit/s"
    assert lockstep.collective("all-reduce", ranks=4, size=1e6, latency=1.0, bandwidth=1.0).to_dict()["rows"]


def test_in_switch_reduction_is_refused_without_a_reducing_switch() -> None:
    words = ("trace", "all-reduce", "--size", "1MB", "--algorithm", "in-switch", "--out", "unused.json", "-c")
    found = run(*words, "dgx-a100-80gb", "--ranks", "8").refusal()
    assert found.startswith("--algorithm: in-switch needs a switch that reduces, and that of dgx-a100-80gb does not")
    found = run(*words, "dgx-h100:2", "--ranks", "16").refusal()
    assert found == "--algorithm: in-switch is for ranks that share one switch: at most 8"
