"""The configurations of Accelerate that TRL's package ships: Accelerate reads each, and so does Lockstep."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from accelerate.commands.config.config_args import load_config_from_file
from agreement import Asker

import lockstep

SHARDS = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, True: 3, False: 2}
"""ZeRO stages of what FSDP divides."""


def said(found: Any) -> dict[str, Any]:
    """Devices, what is divided over them, and the format of products, as Accelerate holds them."""
    zero = (found.deepspeed_config or {}).get("zero_stage", 0)
    if found.fsdp_config:
        zero = SHARDS[found.fsdp_config["fsdp_reshard_after_forward"]]
    return {"devices": found.num_processes, "zero": zero, "dtype": str(found.mixed_precision)}


def test_configurations_that_trl_ships(asked: Asker) -> None:
    with asked(
        "trl", "devices, ZeRO stage and format of the configurations that it ships, as Accelerate reads them"
    ) as answers:
        for file in sorted(Path(str(files("trl") / "accelerate_configs")).glob("*.yaml")):
            theirs = said(load_config_from_file(str(file)))
            found = lockstep.estimate(
                f"llama3.2-1b@{file}", f"h100-sxm:{theirs['devices']}", batch=64, seq=2048, micro_batch=1
            )
            recipe, layout = found.job.recipe, found.layout
            ours = {"devices": found.job.devices, "zero": layout.zero, "dtype": recipe.dtype}
            answers.compare(file.name, ours, theirs)
