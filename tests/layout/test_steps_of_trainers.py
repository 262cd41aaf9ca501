"""Predictions against fine-tuning steps of the real libraries: live tensors at the peak, FLOPs, passes.

steps_of_trainers.jsonl has rows that tools/real_steps/measure.py measured with the versions in each, of settings that
draw.py drew with seed 3; faults were found on rows of seeds 1 and 2. On hybrids only passes and trained parameters are
held to, as their scan is written out on CPUs.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROWS = [
    json.loads(line) for line in Path(__file__).with_name("steps_of_trainers.jsonl").read_text("utf-8").splitlines()
]
SCANNED = ("bamba",)


@cache
def tool() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "real_steps" / "compare.py"
    spec = importlib.util.spec_from_file_location("real_steps_compare", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@cache
def errors() -> tuple[dict[str, Any], ...]:
    return tuple(tool().compared(row) | {"row": row} for row in ROWS)


@pytest.mark.parametrize(("what", "median", "worst"), [("memory", 0.005, 0.12), ("flops", 0.005, 0.02)])
def test_live_bytes_and_flops_are_those_of_the_libraries(what: str, median: float, worst: float) -> None:
    """The bounds are what was reached: all rows but one are within 4 %, that of the smallest model is at 11.5 %."""
    found = [abs(one[what]) for one in errors() if one["row"]["config"]["model_type"] not in SCANNED]
    assert len(found) >= 30
    assert statistics.median(found) < median
    assert max(found) < worst


def test_passes_and_trained_parameters_are_exact() -> None:
    assert not [tool().title(one["row"]) for one in errors() if one["passes"] or one["trained"]]


def test_rows_are_of_every_trainer_and_architecture() -> None:
    assert {row["trainer"] for row in ROWS} == {"Trainer", "SFT", "DPO", "KTO", "Reward", "GRPO", "RLOO"}
    assert len({row["config"]["model_type"] for row in ROWS}) == 12
