"""Exports to Accelerate, read by `accelerate launch` itself up to the environment of the processes that it starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import lockstep
from lockstep.base.errors import Infeasible
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.export import TARGETS, export
from lockstep.decide.planner.export.refusals import Placed

RUNS: tuple[dict[str, Any], ...] = (
    {"zero": 0}, {"zero": 0, "recompute": "full"}, {"zero": 2}, {"zero": 3}, {"zero": 3, "shard": 8},
    {"zero": 2, "tp": 2}, {"zero": 3, "tp": 2, "cp": 2}, {"zero": 3, "cp": 2, "shard": 4, "recompute": "full"},
    {"zero": 3, "offload": "parameters"}, {"zero": 3, "dtype": "fp16", "cp": 4, "cp_kind": "gather"},
)  # fmt: skip
CLUSTERS = {"dgx-h100:1": 1, "dgx-h100:2": 2, "dgx-a100-80gb:4": 4}
"""Clusters of eight devices a machine, and their machines."""


def planned(cluster: str, words: dict[str, Any]) -> Estimate:
    asked = {"seq": 1024, "batch": 64, "stack": "hf-trainer", "reduce_bytes": 2, "micro_batch": 1} | words
    return lockstep.estimate("llama3-8b", cluster, **asked)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("words", RUNS)
def test_as_many_processes_start_as_the_layout_has_devices(cluster: str, words: dict[str, Any]) -> None:
    found = planned(cluster, words)
    said = yaml.safe_load(export(found, "accelerate"))
    assert said["num_machines"] == CLUSTERS[cluster]
    assert said["num_processes"] == found.layout.world
    told = "--machine_rank 0 to" in export(found, "accelerate")
    assert told == (CLUSTERS[cluster] > 1)


def test_processes_that_do_not_divide_over_machines_are_refused() -> None:
    found = planned("dgx-h100:1", {"zero": 3})
    with pytest.raises(Infeasible, match="8 processes on 3 machines"):
        TARGETS["accelerate"](Placed(found.job, found.layout, machines=3))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a file sets in the processes: their numbers, Accelerate's parallelism and its FSDP plugin."""
    pytest.importorskip("accelerate", reason="needs accelerate")
    from accelerate import ParallelismConfig
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin, dataclasses
    from accelerate.utils.launch import prepare_multi_gpu_env

    # Tensor parallelism asks for the version of transformers, which is not installed for these tests.
    monkeypatch.setattr(dataclasses, "compare_versions", lambda *_: True)

    def read(file: Path) -> tuple[Any, dict[str, str], Any, Any]:
        words = launch_command_parser().parse_args(["--config_file", str(file), "--main_process_port", "0", "train.py"])
        asked, _, _ = _validate_launch_command(words)
        environment = prepare_multi_gpu_env(asked)
        for name in os.environ:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        sharded = FullyShardedDataParallelPlugin() if "ACCELERATE_USE_FSDP" in environment else None
        return asked, environment, ParallelismConfig(), sharded

    return read


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("words", RUNS)
def test_accelerate_runs_the_exported_layout(
    cluster: str, words: dict[str, Any], launched: Any, tmp_path: Path
) -> None:
    found = planned(cluster, words)
    layout = found.layout
    (file := tmp_path / "launch.yaml").write_text(export(found, "accelerate"), encoding="utf-8")
    asked, environment, degrees, sharded = launched(file)
    assert int(asked.nproc_per_node) * asked.num_machines == layout.world
    assert environment["ACCELERATE_MIXED_PRECISION"] == found.job.recipe.dtype
    assert (sharded is not None) == (layout.zero > 0)
    if sharded is not None:
        assert sharded.fsdp_version == 2
        assert sharded.reshard_after_forward == (layout.zero == 3)
        assert sharded.activation_checkpointing == (layout.recompute == "full")
        assert (type(sharded.cpu_offload).__name__ == "CPUOffloadPolicy") == (layout.offload == "parameters")
    if "ACCELERATE_USE_PARALLELISM_CONFIG" in environment:
        ranks = degrees.dp_replicate_size * degrees.dp_shard_size
        assert (degrees.tp_size, degrees.cp_size, ranks) == (layout.tp, layout.cp, layout.dp)
        assert degrees.dp_shard_size * degrees.cp_size == (layout.shard or layout.dp * layout.cp)
        assert degrees.total_size == layout.world
    else:
        assert layout.dp == layout.world
        assert layout.shard in (0, layout.dp)
