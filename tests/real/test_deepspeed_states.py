"""DeepSpeed's optimizers that a CPU runs take a step of small models and hold as many bytes as Lockstep has.

Muon runs uncompiled; Adam for CPUs and the fused Adam are compiled when they are first made, a minute each. All others
are built where there is a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from agreement import Asker
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.runtime.zero.muon.original_muon import SingleDeviceMuonWithAuxAdam
from held_states import WITHOUT_STACKS, Case, compare, of_layers, of_parameters


def muon(model: torch.nn.Module) -> Any:
    """Muon for matrices of layers, and the Adam beside it for the rest."""
    matrices, rest = of_layers(model)
    return SingleDeviceMuonWithAuxAdam([{"params": matrices, "use_muon": True}, {"params": rest, "use_muon": False}])


def test_states_are_those_of_deepspeed_to_the_byte(asked: Asker) -> None:
    with asked("deepspeed", "bytes of states of its Muon, models drawn") as answers:
        compare(answers, {"Muon": Case(muon, "muon", "muon-bf16", WITHOUT_STACKS)}, "deepspeed", 25)


def test_states_of_compiled_adams(asked: Asker) -> None:
    cases = {
        "Adam for CPUs": Case(of_parameters(DeepSpeedCPUAdam), "adamw", "adamw-no-master"),
        "fused Adam": Case(of_parameters(FusedAdam), "adamw", "adamw-bf16"),
    }
    with asked("deepspeed", "bytes of states of its Adam for CPUs and its fused Adam, models drawn") as answers:
        compare(answers, cases, "deepspeed", 15)
