"""One more collective, schedule, method and GPU in a copy of Lockstep, each by the files that CONTRIBUTING names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from installing import EXAMPLE, Ask, commands, path_with

import lockstep
from cli_runner import run

OWN = {
    "half_tree": ("simulate/collectives/all_reduce", "lockstep.simulate.collectives.registry", "HALF_TREE"),
    "last_first": (
        "simulate/parallel/pipeline/schedules",
        "lockstep.simulate.parallel.pipeline.schedule",
        "LAST_FIRST",
    ),
    "average_weights": ("run/train/methods", "lockstep.run.train.method", "AVERAGE_WEIGHTS"),
}
"""File of the example package -> its folder in Lockstep, the module whose `register` it calls, its record."""
DEVICES = """
[devices.h300]
vendor = "NVIDIA"
efficiency = "h100"
host_link = "pcie5"
memory = ["200 GiB", "h100-memory"]
memory_bandwidth = ["6 TB/s", "h100-datasheet"]
peak_flops.bf16 = ["2000 TFLOP/s", "h100-datasheet"]
"""
CLUSTERS = """
[nodes.dgx-h300]
device = "h300"
levels = [{ name = "node", size = [8, "dgx-h100"], link = "nvlink4", links = [1, "dgx-h100"] }]

[clusters.dgx-h300]
node = "dgx-h300"
levels = [{ name = "fabric", size = [1, "dgx-h100"], link = "ndr", links = [8, "dgx-h100"] }]
"""
NETWORK = ("--latency", "5us", "--bandwidth", "10GB/s")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment in which Lockstep is a copy with one more of each."""
    folder = tmp_path_factory.mktemp("copy")
    here = Path(lockstep.__file__).parent
    there = Path(shutil.copytree(here, folder / "lockstep", ignore=shutil.ignore_patterns("__pycache__")))
    for name, (place, module, record) in OWN.items():
        text = (EXAMPLE / "lockstep_example" / f"{name}.py").read_text("utf-8")
        text += f"\nfrom {module} import register\n\nregister({record})\n"
        (there / place / f"{name}.py").write_text(text, "utf-8")
    catalog = there / "describe" / "hardware" / "catalog"
    devices = (catalog / "devices.toml").read_text("utf-8").replace('["dgx-h200", ', '["dgx-h300", "dgx-h200", ')
    (catalog / "devices.toml").write_text(devices + DEVICES, "utf-8")
    clusters = (catalog / "clusters.toml").read_text("utf-8")
    (catalog / "clusters.toml").write_text(clusters + CLUSTERS, "utf-8")
    return path_with(folder)


@pytest.fixture(scope="module")
def ask(copy: dict[str, str]) -> Iterator[Ask]:
    with commands(copy) as found:
        yield found


def answer(ask: Ask, *words: str) -> dict[str, Any]:
    return ask(*words, "--json").json()


def test_a_collective_is_one_file(ask: Ask) -> None:
    size = ("--ranks", "4", "--size", "1MB", *NETWORK)
    rows = answer(ask, "collective", "all-reduce", *size)["rows"]
    before = [row["algorithm"] for row in run("collective", "all-reduce", *size, "--json").json()["rows"]]
    assert [row["algorithm"] for row in rows] == [*before, "half-tree"]
    counted = answer(ask, "messages", "--workers", "4", "--params", "8", "--program", "all")["rows"]
    assert counted[-1]["program"] == "half-tree"
    choice = ask("train", "synchronous", "--set", "algorithm=half-treee")
    assert "did you mean half-tree" in choice.refusal()


def test_a_schedule_is_one_file(ask: Ask) -> None:
    every = answer(ask, "pipeline", "--stages", "2", "--microbatches", "4", "--schedule", "all")["points"]
    assert "last-first" in {point["schedule"] for point in every}
    words = ("gpt2", "-c", "dgx-h100:1", "--batch", "16", "--pp", "2", "--schedule", "last-first")
    assert answer(ask, "estimate", *words)["layout"]["schedule"] == "last-first"
    assert "figure 2" in str(answer(ask, "cite", *words))


def test_a_method_is_one_file(ask: Ask) -> None:
    listed = answer(ask, "train")["methods"]
    assert listed[-1]["name"] == "average-weights"


def test_a_gpu_is_an_entry_a_machine_and_a_successor(ask: Ask) -> None:
    assert "h300" in {one["name"] for one in answer(ask, "catalog", "devices")["devices"]}
    found = answer(ask, "estimate", "gpt2", "-c", "dgx-h300:1", "--batch", "64")
    assert found["step_time_s"] < answer(ask, "estimate", "gpt2", "-c", "dgx-h100:1", "--batch", "64")["step_time_s"]
    better = answer(ask, "sensitivity", "gpt2", "-c", "dgx-h100:1", "--batch", "64")
    assert "the same number of devices on dgx-h300" in str(better)
