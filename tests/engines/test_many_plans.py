"""What `benchmarks/sweeps.py` shows of 3,000 plans, on a few: the table and its file, and parts that add up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SWEEPS = Path(__file__).parents[2] / "benchmarks" / "sweeps.py"
FEW = ("--clusters", "2", "--batches", "2")


def sweeps(*words: str) -> str:
    """What it prints."""
    command = [sys.executable, str(SWEEPS), *words]
    wide = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=wide)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_which_cluster_for_which_model(tmp_path: Path) -> None:
    store, plot = tmp_path / "plans.sweep", tmp_path / "plans.png"
    said = sweeps("table", "--models", "2", *FEW, "--store", str(store), "--plot", str(plot))
    assert said.startswith("8 of 8 answers of plan by MODEL and --cluster and --batch.")
    assert "Best choice  by $/Mtoken" in said
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert store.stat().st_size > 0


def test_parts_of_a_plan_list_add_up(tmp_path: Path) -> None:
    sums = tmp_path / "sums.jsonl"
    few = ("plans", "--models", "2", "--clusters", "1", "--batches", "2", "--sums", str(sums))
    assert sweeps(*few, "--part", "1/2").startswith("2 plans, ")
    assert sweeps(*few, "--part", "2/2").startswith("4 plans, ")
    kept = [json.loads(line) for line in sums.read_text().splitlines()]
    assert [one["plans"] for one in kept] == [2, 2]
    assert all(one["alone_s"] > 0 and one["list_s"] > 0 for one in kept)
