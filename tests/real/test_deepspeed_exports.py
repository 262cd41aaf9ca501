"""DeepSpeed reads what Lockstep exports for it: plans are drawn, and its own configuration class parses the file.

tools/export_parsers.py has what software that no package on the index holds does with the same files.
"""

from __future__ import annotations

import json
import types

import pytest
from agreement import Asker
from deepspeed.runtime.config import DeepSpeedConfig
from exports import drawn

NUMBER = 60


def read(text: str, ranks: int) -> tuple[int, int, int, int]:
    """Ranks, stage of ZeRO, micro-batch and batch as DeepSpeed has them on so many data-parallel ranks."""
    unit = types.SimpleNamespace(get_data_parallel_world_size=lambda: ranks)
    found = DeepSpeedConfig(json.loads(text), mpu=unit)
    batch = found.train_batch_size
    return found.world_size, found.zero_optimization_stage, found.train_micro_batch_size_per_gpu, batch


def test_exports_are_read_as_they_were_planned(asked: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepspeed.comm.get_rank", lambda *_: 0)
    with asked("deepspeed", "exports of drawn plans, parsed to ranks, stage, micro-batch and batch") as answers:
        for one in drawn("deepspeed", NUMBER):
            layout, recipe = one.found.layout, one.found.job.recipe
            planned = (layout.dp, layout.zero, layout.micro_batch, recipe.batch)
            answers.compare(f"{layout}", planned, read(one.text, layout.dp * layout.cp))
